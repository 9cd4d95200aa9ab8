package binlog

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// windowSize is how much of a file is held at a time, in bytes: large enough
// that a log of small jobs costs few system calls.
const windowSize = 256 << 10

// A source is an open file seen through a window. The first failure of a read
// stays in err; from then on everything reads as zeros, which ends any loop over
// records.
type source struct {
	path  string
	file  *os.File
	size  int64
	buf   []byte // the window
	start int64  // its offset
	err   error
}

// openSource opens a file of a log, to be closed. A link, or what else took the
// file's place, is an error. buf, if it has the capacity, becomes the window.
func openSource(path string, buf []byte) (*source, error) {
	// O_NONBLOCK: a pipe in the place of the file would have its opening wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: %v", path, info.Mode())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("read the log: %w", err)
	}
	size := info.Size()
	if n := min(windowSize, size); int64(cap(buf)) < n {
		buf = make([]byte, 0, n)
	}
	return &source{path: path, file: f, size: size, buf: buf[:0]}, nil
}

// close returns the window for the next source.
func (s *source) close() []byte {
	s.file.Close()
	return s.buf
}

// at returns n bytes from offset off, all of them inside the file and n at most
// windowSize. They are good until the next call.
func (s *source) at(off, n int64) []byte {
	if i := off - s.start; i >= 0 && i+n <= int64(len(s.buf)) {
		return s.buf[i : i+n]
	}
	s.buf = s.buf[:min(windowSize, s.size-off)]
	s.start = off
	s.readAt(s.buf, off)
	return s.buf[:n]
}

// read fills b from offset off, past the window if b is large.
func (s *source) read(b []byte, off int64) {
	if len(b) <= windowSize/4 {
		copy(b, s.at(off, int64(len(b))))
		return
	}
	s.readAt(b, off)
}

func (s *source) readAt(b []byte, off int64) {
	if s.err == nil {
		_, err := s.file.ReadAt(b, off)
		if err == io.EOF {
			err = fmt.Errorf("%s: the file became shorter while it was read", s.path)
		}
		if err != nil {
			s.err = fmt.Errorf("read the log: %w", err)
		}
	}
	if s.err != nil {
		clear(b)
	}
}

// zeroFrom reports whether the file holds only zeros, or nothing, from off on.
func (s *source) zeroFrom(off int64) bool {
	for off < s.size {
		n := min(windowSize/4, s.size-off)
		if !allZero(s.at(off, n)) {
			return false
		}
		off += n
	}
	return true
}
