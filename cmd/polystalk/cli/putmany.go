package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// batchMost is the largest size of the jobs in flight as JSON, in bytes: the server reads as much
// without a slot for large bodies. The number of jobs is limited by admin.LinesMax.
const batchMost = 900 << 10

// largeLine is a size in bytes. The memory of a line of at least this size is released at once.
const largeLine = 8 << 20

// A putting puts a job for each line of a file. It has many jobs in flight: it reads lines until a
// batch is full or the next line must be waited for, puts the batch, and reports its results.
type putting struct {
	*run
	parse    func(text []byte) (j admin.LineJob, blank bool, err error)
	longest  func(body int64) int64         // the longest line, by the largest body
	took     func([]client.PutResult) error // shows the ids of a batch; nil: nothing
	done     func() error                   // shows that the file was read to its end
	bookmark *bookmark
	progress *progress
	size     int64 // of the file in bytes; 0: unknown

	in   *bufio.Reader
	read int64 // bytes
	long []byte
	most int64 // size of the largest body, if known

	n     uint64 // lines that were read or skipped
	begin uint64 // lines before the batch
	first uint64 // lines that were skipped
	jobs  []admin.LineJob
	at    []uint64 // the line of each job
	cost  int      // bytes of the jobs in JSON, at most

	put uint64 // jobs
	bad uint64 // lines that were reported
	why error  // the reason of the first one
}

// start skips lines, and makes p ready to put the others.
func (p *putting) start(in io.Reader, skip uint64) error {
	if f, ok := in.(*os.File); ok {
		if s, err := f.Stat(); err == nil && s.Mode().IsRegular() {
			p.size = s.Size()
		}
	}
	p.in, p.most, p.begin, p.first = bufio.NewReaderSize(in, 1<<20), smallMax, skip, skip
	for p.n < skip {
		_, err := p.next()
		switch {
		case errors.Is(err, io.EOF):
			return client.Errorf(client.Usage, "there are only %s: --skip %d is too many", counted(p.n, "line"), skip)
		case p.ctx.Err() != nil:
			return p.ctx.Err()
		case err != nil && err != errLong:
			return err
		}
	}
	return nil
}

// errLong is the error of a line that is longer than the largest job needs.
var errLong = errors.New("the line is too long")

// next reads a line, without its end; it is valid until the next call. A line that is too long is
// reported at once, and read to its end, but not kept. An error other than errLong and io.EOF says
// how to continue.
func (p *putting) next() ([]byte, error) {
	p.long = p.long[:0]
	tooLong := false
	for {
		text, err := p.in.ReadSlice('\n')
		p.read += int64(len(text))
		full := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !full && !errors.Is(err, io.EOF) {
			return nil, client.Errorf(client.System, "line %d cannot be read: %v; continue with --skip %d", p.n+1, err, p.n)
		}
		if !full && len(p.long) == 0 && !tooLong && len(text) == 0 {
			return nil, io.EOF
		}
		if !full && len(p.long) == 0 && !tooLong && int64(len(text)) <= p.longest(smallMax) {
			p.n++
			return bytes.TrimSuffix(text, []byte("\n")), nil
		}
		if !tooLong {
			most, err := p.largest()
			if err != nil {
				return nil, err
			}
			tooLong = int64(len(p.long)+len(text)) > p.longest(most)+1
			switch {
			case !tooLong:
				if len(p.long)+len(text) > cap(p.long) { // append would copy more often
					if cap(p.long) > largeLine {
						runtime.GC() // what the line before has left
					}
					p.long = append(make([]byte, 0, 2*cap(p.long)+len(text)), p.long...)
				}
				p.long = append(p.long, text...)
			case p.n >= p.first:
				p.refuse(p.n+1, tooLarge("line", p.most))
			}
		}
		if p.ctx.Err() != nil {
			return nil, p.ctx.Err()
		}
		if !full {
			p.n++
			if tooLong {
				p.long = nil
				return nil, errLong
			}
			if len(p.long) > largeLine {
				runtime.GC() // the smaller buffers before make room for the body
			}
			return bytes.TrimSuffix(p.long, []byte("\n")), nil
		}
	}
}

// largest returns the size of the largest body that the server accepts, in bytes.
func (p *putting) largest() (most int64, err error) {
	if p.most == smallMax {
		p.most, err = p.maxBody()
	}
	return p.most, err
}

// waits reports whether the next line must be waited for.
func (p *putting) waits() bool {
	there, _ := p.in.Peek(p.in.Buffered())
	return bytes.IndexByte(there, '\n') < 0
}

// all puts the lines that follow.
func (p *putting) all() error {
	defer p.progress.end()
	for {
		text, err := p.next()
		switch {
		case p.ctx.Err() != nil:
			return p.end(p.begin, 0, client.Errorf(client.NotDone, "interrupted: %s; continue with --skip %d", p.summary(), p.begin))
		case errors.Is(err, io.EOF):
			if err := p.send(); err != nil {
				return err
			}
			if err := p.end(p.n, 0, nil); err != nil {
				return err
			}
			return p.finish()
		case err == errLong: // it is reported
		case err != nil:
			if sent := p.send(); sent != nil {
				return sent
			}
			return p.end(p.n, 0, err)
		default:
			if err := p.line(text); err != nil {
				return err
			}
		}
		if p.waits() {
			if err := p.send(); err != nil {
				return err
			}
		}
	}
}

// line adds the job of a line to the batch. It sends the batch before it, if there is no room.
func (p *putting) line(text []byte) error {
	j, blank, err := p.parse(text)
	if cap(p.long) > largeLine {
		p.long = nil
	}
	if blank {
		return nil
	}
	if err == nil && len(j.Body) > smallMax {
		most, failed := p.largest()
		if failed != nil {
			return p.end(p.begin, 0, failed)
		}
		if int64(len(j.Body)) > most {
			err = tooLarge("body", most)
		}
	}
	if err != nil {
		p.refuse(p.n, err)
		return nil
	}
	cost := 2*len(j.Body) + 3*len(j.Tube) + 160
	if len(p.jobs) == admin.LinesMax || len(p.jobs) > 0 && p.cost+cost > batchMost {
		p.n-- // the line is not in the batch
		if err := p.send(); err != nil {
			return err
		}
		p.n++
	}
	p.jobs, p.at, p.cost = append(p.jobs, j), append(p.at, p.n), p.cost+cost
	return nil
}

// refuse reports a line that was not put, or not buried.
func (p *putting) refuse(line uint64, err error) {
	p.progress.end()
	p.note("line %d %v", line, notPut(err))
	if p.bad++; p.why == nil {
		p.why = err
	}
}

// notPut completes a message about a line.
func notPut(err error) error {
	if u, ok := errors.AsType[*unburied](err); ok {
		return u
	}
	return fmt.Errorf("was not put: %w", err)
}

// An unburied is the error of a job that was put but not buried: it is delayed.
type unburied struct{ client.PutResult }

// Error implements error.
func (u *unburied) Error() string {
	return fmt.Sprintf("was put as job %d, and is delayed, not buried: %v", u.ID, u.Err)
}

// Unwrap returns the reason.
func (u *unburied) Unwrap() error { return u.Err }

// stops reports whether other lines would fail for the same reason: the server does not answer, is
// draining or full, or refuses the token.
func stops(r client.PutResult) bool {
	code := client.ExitCode(r.Err)
	return r.Err != nil && code != client.Usage && !(r.ID != 0 && (code == client.NotDone || code == client.Nothing))
}

// send puts the batch, and reports its results. The error ends the command.
func (p *putting) send() error {
	if len(p.jobs) == 0 {
		p.begin = p.n
		return nil
	}
	if p.ctx.Err() != nil {
		return p.end(p.begin, 0, client.Errorf(client.NotDone, "interrupted: %s; continue with --skip %d", p.summary(), p.begin))
	}
	if err := p.bookmark.at(p.begin, p.n-p.begin); err != nil {
		return p.unmarked(p.begin, err)
	}
	// An interrupt takes effect between batches, so that the result of each job is known.
	results, err := p.server.PutMany(context.WithoutCancel(p.ctx), p.jobs)
	known := len(results) // the results before the jobs that the server refuses as it would others
	for known > 0 && results[known-1].ID == 0 && stops(results[known-1]) {
		known--
	}
	var stop error
	for k, r := range results[:known] {
		if r.ID != 0 {
			p.put++
		}
		if r.Err == nil {
			continue
		}
		if r.ID != 0 {
			r.Err = &unburied{r}
		}
		p.refuse(p.at[k], r.Err)
		if stops(r) {
			stop = r.Err
		}
	}
	if p.took != nil {
		if err := p.took(results[:known]); err != nil {
			return p.end(p.n, 0, err)
		}
	}
	switch {
	case err != nil && !client.Unchanged(err):
		return p.failed(p.at[known], p.at[len(p.at)-1], err)
	case known < len(results):
		return p.failed(p.at[known], 0, results[known].Err)
	case err != nil:
		return p.failed(p.at[known], 0, err)
	case stop != nil:
		return p.end(p.n, 0, client.Errorf(client.NotDone, "%s; continue with --skip %d", p.summary(), p.n))
	}
	clear(p.jobs) // releases large bodies
	p.begin, p.jobs, p.at, p.cost = p.n, p.jobs[:0], p.at[:0], 0
	if err := p.bookmark.at(p.n, 0); err != nil {
		return p.unmarked(p.n, err)
	}
	p.progress.lines(p.n-p.first, p.read, p.size)
	return nil
}

func (p *putting) unmarked(n uint64, err error) error {
	return p.end(n, 0, client.Errorf(client.System, "the position cannot be written: %v; continue with --skip %d", err, n))
}

// summary says how many jobs were put, and how many lines were reported.
func (p *putting) summary() string {
	if p.bad == 0 {
		return jobs(p.put) + " put"
	}
	return fmt.Sprintf("%s put, %s with errors", jobs(p.put), counted(p.bad, "line"))
}

// finish shows the result of a file that was read to its end.
func (p *putting) finish() error {
	if p.bad > 0 && p.put == 0 {
		return client.Errorf(client.ExitCode(p.why), "nothing was put: the server refuses all of %s", counted(p.bad, "line"))
	}
	if err := p.done(); err != nil {
		return err
	}
	if p.bad > 0 {
		return client.Errorf(client.NotDone, "%s, which are reported above", p.summary())
	}
	return nil
}

// failed ends the command at a line that was not put. If last is not 0, the lines up to last may
// have been put.
func (p *putting) failed(line, last uint64, err error) error {
	code := client.ExitCode(err)
	if p.put > 0 {
		code = client.NotDone
	}
	uncertain := uint64(0)
	if last > 0 {
		uncertain = last - line + 1
	}
	return p.end(line-1, uncertain, client.Errorf(code, "%s; %s: %v. %s", p.summary(), which(line, uncertain), err, retrying(line, uncertain)))
}

// which says that a line was not put, or that lines from it on may have been put.
func which(line, uncertain uint64) string {
	switch uncertain {
	case 0:
		return fmt.Sprintf("line %d was not", line)
	case 1:
		return fmt.Sprintf("line %d may have been put or not", line)
	}
	return fmt.Sprintf("each of the lines %d to %d may have been put or not", line, line+uncertain-1)
}

// retrying returns the advice for a line that was not put, or for lines that may have been.
func retrying(line, uncertain uint64) string {
	if uncertain > 1 {
		return fmt.Sprintf("To retry them use --skip %d; to leave them out use --skip %d.", line-1, line+uncertain-1)
	}
	return fmt.Sprintf("To retry line %d use --skip %d; to leave it out use --skip %d.", line, line-1, line)
}

// end closes the bookmark at the position n; the next uncertain lines may have been put. It returns
// err if that is not nil.
func (p *putting) end(n, uncertain uint64, err error) error {
	p.progress.end()
	if marked := p.bookmark.end(n, uncertain); err == nil && marked != nil {
		return client.Errorf(client.System, "all jobs were put, but the position cannot be written: %v", marked)
	}
	return err
}

// lines shows the progress in a file of size bytes; 0: unknown.
func (p *progress) lines(n uint64, read, size int64) {
	took := time.Since(p.began).Seconds()
	line := fmt.Sprintf("%s: %d lines, %.0f/s", p.what, n, float64(n)/max(took, 0.001))
	if size > 0 && read > 0 {
		read = min(read, size)
		line += fmt.Sprintf(", %d %%", read*100/size)
		if took > 1 {
			line += ", " + client.FormatAge(took/float64(read)*float64(size-read)) + " left"
		}
	}
	p.show(line)
}
