package wire

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// bodyMax is the largest body that a server can be set to take. In bytes.
// Source: beanstalkd doc/beanstalkd.ronn, -z.
const bodyMax = 1 << 30

// More than any reply of statistics, any list of tubes and any line of a reply has. In bytes.
const (
	statsMax = 64 << 10
	listMax  = 64 << 20
	lineMax  = 1024
)

// A sizes reads replies. It ends a reply at an impossible size, because the client allocates the size
// that the server announces. It gives the server more time when there is progress.
type sizes struct {
	r    io.Reader
	more func() error // gives the server the whole time again
	list bool         // a list of tubes is asked for
	line []byte       // what has come of the line under way
	body int          // octets that are left of the body under way, with the end of its line
	job  bool         // that is the body of a job
	n    int          // octets of it since the last restart of the time
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
			if s.n += n; s.body == 0 || s.job && s.n >= progress {
				s.n = 0
				if err := s.more(); err != nil {
					return err
				}
			}
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
		if err := s.reply(bytes.Fields(s.line)); err != nil {
			return err
		}
		s.line = s.line[:0]
	}
	return nil
}

// reply looks at the line with which a reply begins.
func (s *sizes) reply(words [][]byte) error {
	if len(words) < 2 {
		return s.more()
	}
	most := statsMax
	switch string(words[0]) {
	case "USING", "WATCHING":
		return nil // the client waits for another reply
	case "FOUND", "RESERVED":
		s.job, most = true, bodyMax
	case "OK":
		if s.job = false; s.list {
			most = listMax
		}
	default:
		return s.more()
	}
	last := words[len(words)-1]
	size, err := strconv.Atoi(string(last))
	if err != nil || size < 0 || size > most {
		return fmt.Errorf("it announces %.20q bytes", last)
	}
	s.body = size + len("\r\n")
	return nil
}
