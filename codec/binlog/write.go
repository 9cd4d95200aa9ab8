package binlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"polystalk/codec/beanstalk"
)

const (
	// readableBody is the largest body, in bytes, that beanstalkd reads
	// with its default -z: it compares that with the size including CR LF.
	readableBody = beanstalk.DefaultMaxJobSize - 2
	// writableBody is the largest body that it reads with any -z.
	writableBody = beanstalk.MaxJobSizeLimit - 2
)

// Written is the result of WriteDir.
type Written struct {
	Jobs     int
	Bytes    int64 // of the file
	Warnings []Warning
	// MaxJobSize is the smallest -z, in bytes, with which beanstalkd reads the
	// file; 0 if its default will do. With a smaller one it skips the first job
	// that is too large and everything after it.
	MaxJobSize int
}

// A Warning is about a job that beanstalkd will not read without a larger -z,
// or, if Omitted, not at all: it is not in the file.
type Warning struct {
	ID      uint64
	Tube    string
	Reason  string
	Omitted bool
}

func (w Warning) String() string {
	s := fmt.Sprintf("job %d in tube %q: %s", w.ID, w.Tube, w.Reason)
	if w.Omitted {
		s += "; left out"
	}
	return s
}

// WriteDir writes jobs to dir as one file of version 7, binlog.1, which
// beanstalkd -b dir reads when it starts. It needs permission to read the file,
// so the owner matters. dir must exist and hold no log, and no server may use it
// meanwhile. Ids must be unique; WriteDir does not check that. Deadline is ignored
// unless a job is delayed. A Body is only read before the next job is requested.
//
// The file gets its name when it is complete and on the disk. An error of jobs
// or of the disk, or an invalid job (id 0, negative times), leaves no file.
// beanstalkd will count one more bury for each buried job.
func WriteDir(dir string, jobs iter.Seq2[Job, error]) (*Written, error) {
	if err := refuseLog(dir); err != nil {
		return nil, err
	}
	// beanstalkd ignores this name.
	temporary := filepath.Join(dir, "binlog.1.tmp")
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("write the log: %w: remove it unless another export is running", err)
	}
	if err != nil {
		return nil, fmt.Errorf("write the log: %w", err)
	}
	w := writer{buf: bufio.NewWriterSize(f, windowSize)}
	err = errors.Join(w.durably(f, jobs), f.Close())
	if err == nil {
		err = refuseLog(dir) // once more: it may have taken an hour
	}
	if err == nil {
		err = os.Rename(temporary, filepath.Join(dir, "binlog.1"))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the log: %w", err), os.Remove(temporary))
	}
	if err := syncDir(dir); err != nil {
		return nil, fmt.Errorf("write the log: %w", err)
	}
	return &w.Written, nil
}

// refuseLog is an error if dir holds files of a log.
func refuseLog(dir string) error {
	files, err := Files(dir)
	if err == nil && len(files) > 0 {
		err = fmt.Errorf("%s exists: an export never appends to a log", files[0].Path)
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

type writer struct {
	Written
	buf  *bufio.Writer
	head []byte
}

// durably writes all of f.
func (w *writer) durably(f *os.File, jobs iter.Seq2[Job, error]) error {
	if err := w.all(jobs); err != nil {
		return err
	}
	if err := f.Chmod(0o400); err != nil {
		return err
	}
	return f.Sync()
}

// all writes a file's bytes.
func (w *writer) all(jobs iter.Seq2[Job, error]) error {
	w.head = binary.LittleEndian.AppendUint32(w.head[:0], version7)
	err := w.write(w.head)
	for job, jobErr := range jobs {
		if err = jobErr; err == nil {
			err = w.job(&job)
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	return w.buf.Flush()
}

// job writes a full record, or notes why there is none.
func (w *writer) job(j *Job) error {
	warn := func(reason string, omitted bool) {
		w.Warnings = append(w.Warnings, Warning{j.ID, j.Tube, reason, omitted})
	}
	if !beanstalk.ValidTubeName([]byte(j.Tube)) {
		warn("beanstalkd has no tube of such a name", true)
		return nil
	}
	if len(j.Body) > writableBody {
		warn(fmt.Sprintf("its body of %d bytes is more than beanstalkd reads back with any -z", len(j.Body)), true)
		return nil
	}
	var bad string
	if w.head, bad = appendHead(w.head[:0], j); bad != "" {
		return fmt.Errorf("job %d: %s", j.ID, bad)
	}
	if len(j.Body) > readableBody {
		w.MaxJobSize = max(w.MaxJobSize, len(j.Body)+2)
		warn(fmt.Sprintf("its body of %d bytes needs beanstalkd -z %d", len(j.Body), len(j.Body)+2), false)
	}
	w.Jobs++
	return errors.Join(w.write(w.head), w.write(j.Body), w.write([]byte("\r\n")))
}

func (w *writer) write(b []byte) error {
	n, err := w.buf.Write(b)
	w.Bytes += int64(n)
	return err
}
