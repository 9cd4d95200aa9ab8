package client

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// Limits of replies, in bytes. Statistics, lists of tubes and lines are smaller.
const (
	statsMax = 64 << 10
	tubesMax = 64 << 20
	lineMax  = 1024
)

// A replyReader reads replies. It fails at an impossible size, because the library allocates the
// size that the server announces, and it restarts the server's time when there is progress.
type replyReader struct {
	r    io.Reader
	more func() error // restarts the time
	list bool         // a list of tubes is expected
	line []byte       // the part of the current line that was read
	body int          // bytes left of the current body, with its line end
	job  bool         // it is the body of a job
	n    int          // bytes of it since the time was restarted
}

func (s *replyReader) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if bad := s.check(b[:n]); bad != nil {
		return 0, bad
	}
	return n, err
}

func (s *replyReader) check(b []byte) error {
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

// reply reads the first line of a reply.
func (s *replyReader) reply(words [][]byte) error {
	if len(words) < 2 {
		return s.more()
	}
	most := statsMax
	switch string(words[0]) {
	case "USING", "WATCHING":
		return nil // the library waits for another reply
	case "FOUND", "RESERVED":
		s.job, most = true, bodyMax
	case "OK":
		if s.job = false; s.list {
			most = tubesMax
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
