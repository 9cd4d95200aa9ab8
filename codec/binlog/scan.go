package binlog

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"polystalk/codec/beanstalk"
)

// windowSize is how many bytes of a file are in memory at the same time: enough that a log of small
// jobs needs few system calls.
const windowSize = 256 << 10

// A source reads an open file through a window. The first error of a read stays in err; from then
// on all bytes are zeros, which ends every loop over records.
type source struct {
	path  string
	file  *os.File
	size  int64
	buf   []byte // the window
	start int64  // its offset
	err   error
}

// openSource opens a file of a log; the caller must close it. A link, or anything else in place of
// the file, is an error. buf becomes the window if it has the capacity.
func openSource(path string, buf []byte) (*source, error) {
	// O_NONBLOCK: opening a pipe in place of the file would wait for a writer.
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

// at returns n bytes from offset off. They must be inside the file, and n at most windowSize. They
// are valid until the next call.
func (s *source) at(off, n int64) []byte {
	if i := off - s.start; i >= 0 && i+n <= int64(len(s.buf)) {
		return s.buf[i : i+n]
	}
	s.buf = s.buf[:min(windowSize, s.size-off)]
	s.start = off
	s.readAt(s.buf, off)
	return s.buf[:n]
}

// read fills b from offset off, without the window if b is large.
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

// A record is a jobrec with its place in the file.
type record struct {
	jobrec
	tube   []byte // empty: a short record; aliases the source's window
	bodyAt int64
	next   int64 // offset of the next record
}

// A scanner takes the records out of one file.
type scanner struct {
	*source
	*format
	name    [nameMax]byte // holds record.tube
	swapped bool          // the other format was tried already
}

// header reads the header word, which determines the format.
func (s *scanner) header() (bad string) {
	s.format = &format7
	if s.size < headerSize {
		return "too short for a header"
	}
	word := s.at(0, headerSize)
	switch binary.LittleEndian.Uint32(word) {
	case version7:
		return ""
	case version5:
		s.format = &format5
		return ""
	}
	switch binary.BigEndian.Uint32(word) {
	case version7, version5:
		return "written by a big-endian machine, which is not supported"
	}
	return "the header names neither version 7 nor 5 of the format"
}

// parse reads the record at off; bad is the reason if there is none. The tube is valid until the
// next call.
func (s *scanner) parse(off int64) (r record, bad string) {
	left := s.size - off
	if left < s.lengthSize+s.recSize {
		return r, "too few bytes left for a record"
	}
	n, ok := s.nameLength(off)
	if !ok {
		return r, "length of the tube name out of range"
	}
	head := s.lengthSize + n + s.recSize
	if left < head {
		return r, "the record runs past the end of the file"
	}
	b := s.at(off, head)[s.lengthSize:]
	r.jobrec, bad = s.decode(b[n:])
	if bad != "" {
		return r, bad
	}
	r.bodyAt = off + head
	r.next = r.bodyAt
	if n == 0 {
		return r, ""
	}
	r.tube = s.name[:copy(s.name[:], b[:n])]
	r.next += r.bodySize
	switch {
	case !beanstalk.ValidTubeName(r.tube):
		return r, "illegal tube name"
	case r.state == stateDeleted:
		// beanstalkd never writes such a record, and would read its body as records.
		return r, "a full record of a deleted job"
	case r.next > s.size:
		return r, "the body runs past the end of the file"
	case string(s.at(r.next-2, 2)) != "\r\n":
		return r, "the body does not end in CR LF"
	}
	return r, ""
}

// nameLength reads the length of the name at the beginning of a record.
func (s *scanner) nameLength(off int64) (n int64, ok bool) {
	b := s.at(off, s.lengthSize)
	n = int64(binary.LittleEndian.Uint32(b))
	return n, n <= nameMax && allZero(b[4:])
}

// torn reports whether the record at off, which parse rejected, is the beginning of a full record,
// followed only by zeros. beanstalkd writes into a file of zeros: length, name, Jobrec and body,
// each with one call.
func (s *scanner) torn(off int64) bool {
	if s.size-off < s.lengthSize {
		return false
	}
	n, ok := s.nameLength(off)
	if !ok || n == 0 {
		return false
	}
	// Require at least one zero, since a truncated file looks the same otherwise.
	zeroTail := func(off int64) bool { return off < s.size && s.zeroFrom(off) }
	nameAt := off + s.lengthSize
	recAt := nameAt + n
	if zeroTail(nameAt) || zeroTail(recAt) {
		return true
	}
	bodyAt := recAt + s.recSize
	if bodyAt > s.size {
		return false
	}
	r, bad := s.decode(s.at(recAt, s.recSize))
	if bad != "" {
		return false
	}
	if end := bodyAt + r.bodySize; end <= s.size {
		return zeroTail(end - 1) // up to the LF
	}
	return zeroTail(bodyAt)
}

// resync returns the offset of the first plausible record from off on, or the file's size. It is
// stricter than parse, since most offsets have no record: padding and time of creation must be as
// beanstalkd writes them. A body that contains a copy of a log can still deceive it.
func (s *scanner) resync(off int64) int64 {
	for ; off+s.lengthSize+s.recSize <= s.size && s.err == nil; off++ {
		n, ok := s.nameLength(off)
		if !ok {
			continue
		}
		r, bad := s.parse(off)
		if bad == "" && r.job.Created > 0 && s.padded(s.at(off+s.lengthSize+n, s.recSize)) {
			return off
		}
	}
	return s.size
}
