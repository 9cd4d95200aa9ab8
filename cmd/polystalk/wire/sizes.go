package wire

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// bodyMax is the largest body that a server can be set to have, and more than any list of
// tubes. In bytes.
// Source: beanstalkd doc/beanstalkd.ronn, -z.
const bodyMax = 1 << 30

// lineMax is more than any line of a reply has. In bytes.
const lineMax = 1024

// A sizes reads replies, and ends them at one with a size that cannot be: the client makes
// room for as much as it is told.
type sizes struct {
	r    io.Reader
	line []byte // what has come of the line under way
	body int    // octets that are left of the body under way, with the end of its line
}

func (s *sizes) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if bad := s.look(b[:n]); bad != nil {
		return 0, bad
	}
	return n, err
}

func (s *sizes) look(b []byte) error {
	for len(b) > 0 {
		if s.body > 0 {
			n := min(s.body, len(b))
			s.body -= n
			b = b[n:]
			continue
		}
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		s.line = append(s.line, line...)
		b = rest
		if len(s.line) > lineMax {
			return fmt.Errorf("its answer begins with %.20q", s.line)
		}
		if !ended {
			return nil
		}
		words := bytes.Fields(s.line)
		s.line = s.line[:0]
		if len(words) < 2 {
			continue
		}
		switch string(words[0]) {
		case "OK", "FOUND", "RESERVED":
			size, err := strconv.Atoi(string(words[len(words)-1]))
			if err != nil || size < 0 || size > bodyMax {
				return fmt.Errorf("it announces %.20q bytes", words[len(words)-1])
			}
			s.body = size + len("\r\n")
		}
	}
	return nil
}
