package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"polystalk/cmd/polystalk/fault"
)

// A sink writes jobs, each as JSON on a line. One without a writer forgets them.
type sink struct {
	w *bufio.Writer
	n uint64 // jobs so far
	// whole writes all of a body of which a list has a part: lists have the first 64 kB.
	whole func(id uint64, w io.Writer) error
}

// page writes the jobs of a part of a list.
func (s *sink) page(document []byte) error {
	var part struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	if err := json.Unmarshal(document, &part); err != nil {
		return unreadable()
	}
	for _, job := range part.Jobs {
		if err := s.listed(job); err != nil {
			return err
		}
	}
	return nil
}

func unreadable() error {
	return fault.New(fault.System, "the server's answer cannot be read: use the polystalk of its version")
}

// listed writes a job of a list, whose body may be a part of it.
func (s *sink) listed(job []byte) error {
	var v struct {
		ID        uint64          `json:"id,string"`
		Size      float64         `json:"body_bytes"`
		Text      json.RawMessage `json:"body"`
		Base64    json.RawMessage `json:"body_base64"`
		Truncated bool            `json:"body_truncated"`
	}
	if err := json.Unmarshal(job, &v); err != nil {
		return unreadable()
	}
	if !v.Truncated && (v.Size == 0 || v.Text != nil || v.Base64 != nil) {
		return s.add(job)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(job, &members); err != nil {
		return unreadable()
	}
	for _, name := range []string{"body", "body_base64", "body_truncated", "body_bytes"} {
		delete(members, name)
	}
	line, err := json.Marshal(members)
	if err != nil {
		return unreadable()
	}
	body := &coded{to: s.w, before: append(bytes.TrimSuffix(line, []byte("}")), `,"body_base64":"`...)}
	switch err := s.whole(v.ID, body); {
	case fault.Code(err) == fault.Nothing && !body.begun():
		return nil // it was deleted meanwhile
	case err != nil:
		return err
	}
	s.n++
	return body.end()
}

// A coded body is written as base64, however large it is. Before its first octet stands
// something.
type coded struct {
	to     *bufio.Writer
	before []byte
	base64 io.WriteCloser
	n      int // octets so far
}

func (c *coded) begun() bool { return c.base64 != nil }

// Write implements io.Writer.
func (c *coded) Write(b []byte) (int, error) {
	if !c.begun() {
		if _, err := c.to.Write(c.before); err != nil {
			return 0, err
		}
		c.base64 = base64.NewEncoder(base64.StdEncoding, c.to)
	}
	n, err := c.base64.Write(b)
	c.n += n
	return n, err
}

// end writes the end of the line. The size is counted: the body may have been edited after the
// list was made.
func (c *coded) end() error {
	if _, err := c.Write(nil); err != nil {
		return err
	}
	if err := c.base64.Close(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.to, "\",\"body_bytes\":%d}\n", c.n)
	return err
}

// add writes a job.
func (s *sink) add(job []byte) error {
	if s.w == nil {
		return nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, job); err != nil {
		return unreadable()
	}
	line.WriteByte('\n')
	s.n++
	_, err := s.w.Write(line.Bytes())
	return err
}

// keep writes a job that is about to be deleted: when it returns, the end of the program, or a
// disk that has no more room, cannot lose it.
func (s *sink) keep(job []byte) error {
	if s.w == nil {
		return nil
	}
	if err := s.add(job); err != nil {
		return err
	}
	return s.w.Flush()
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
		if _, ok := errors.AsType[*fault.Fault](err); ok || errors.Is(err, context.Canceled) {
			return err
		}
		return fault.New(fault.System, "%s cannot be written: %v", name, err)
	}
	return nil
}
