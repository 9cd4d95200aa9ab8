package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"polystalk/cmd/polystalk/fault"
)

// A sink writes jobs, each as JSON on a line. One without a writer forgets them.
type sink struct {
	w *bufio.Writer
	n uint64 // jobs so far
}

// page writes the jobs of a part of a list.
func (s *sink) page(document []byte) error {
	var part struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	if err := json.Unmarshal(document, &part); err != nil {
		return fault.New(fault.System, "the server's answer cannot be read: use the polystalk of its version")
	}
	for _, job := range part.Jobs {
		if err := s.add(job); err != nil {
			return err
		}
	}
	return nil
}

// add writes a job.
func (s *sink) add(job []byte) error {
	if s.w == nil {
		return nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, job); err != nil {
		return fault.New(fault.System, "the server's answer cannot be read: use the polystalk of its version")
	}
	line.WriteByte('\n')
	s.n++
	_, err := s.w.Write(line.Bytes())
	return err
}

// saveTo has write fill a new file, which lasts when it returns. What was written stays if it
// fails: jobs may be gone from the server by then.
func (a *App) saveTo(name string, write func(*sink) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Usage, "%s is there already: give the name of a new file", name)
	}
	if err != nil {
		return fault.New(fault.System, "the file cannot be made: %v", err)
	}
	defer f.Close()
	s := &sink{w: bufio.NewWriterSize(f, 1<<18)}
	err = write(s)
	if flushed := s.w.Flush(); err == nil {
		err = flushed
	}
	if synced := f.Sync(); err == nil && synced != nil && !errors.Is(synced, fs.ErrInvalid) {
		err = synced
	}
	if err != nil {
		if _, ok := errors.AsType[*fault.Fault](err); ok {
			return err
		}
		return fault.New(fault.System, "%s cannot be written: %v", name, err)
	}
	return nil
}
