package client

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"polystalk/codec/admin"
)

// PutMany implements Server by one request.
func (c *httpServer) PutMany(ctx context.Context, jobs []admin.LineJob) ([]PutResult, error) {
	var answer admin.PutLines
	var err error
	if j := &jobs[0]; len(jobs) == 1 && len(j.Body) > smallMax && !j.Buried { // without a copy in base64
		answer.Lines = make([]admin.PutLine, 1)
		answer.Lines[0].ID, err = Put(ctx, c, j)
	} else {
		var lines []byte
		for i := range jobs {
			lines = jobs[i].AppendLine(lines)
		}
		var a Answer
		if a, err = c.Ask(ctx, Request{Method: "POST", Path: "/jobs", Octets: lines, Type: admin.LinesType}); err == nil {
			err = a.Read(&answer)
		}
	}
	if len(jobs) == 1 && ExitCode(err) == Usage { // it is too large even for the request
		return []PutResult{{Err: err}}, nil
	}
	if err == nil && len(answer.Lines) > len(jobs) {
		err = Errorf(System, "the server at %s answers for more jobs than it was sent: use the polystalk of its version", c.target.Name)
	}
	if err != nil {
		return nil, err
	}
	results := make([]PutResult, 0, len(jobs))
	for _, l := range answer.Lines {
		r := PutResult{ID: l.ID}
		if l.Problem != nil {
			r.Err = ProblemError(l.Problem)
		} else if l.ID == 0 {
			break
		}
		results = append(results, r)
	}
	switch {
	case len(results) == len(jobs):
		return results, nil
	case answer.Problem != nil && len(results) == len(answer.Lines):
		return results, ProblemError(answer.Problem)
	}
	return results, Errorf(System, "the server at %s does not answer for all jobs: use the polystalk of its version", c.target.Name)
}

// Put puts a job and returns its id.
func Put(ctx context.Context, s Server, j *admin.LineJob) (uint64, error) {
	query := url.Values{}
	for name, n := range map[string]uint32{"pri": j.Pri, "delay": j.Delay, "ttr": j.TTR} {
		query.Set(name, strconv.FormatUint(uint64(n), 10))
	}
	q := Request{Method: "POST", Path: "/tubes/{tube}/jobs", Tube: j.Tube, Query: query, Octets: j.Body}
	if q.Octets == nil {
		q.Octets = []byte{}
	}
	a, err := s.Ask(ctx, q)
	var done admin.Put
	if err == nil {
		err = a.Read(&done)
	}
	return done.ID, err
}

// buryDelay is the delay, in seconds, of a job that is put to be buried. It keeps the job from
// workers until then.
const buryDelay = 3600

// PutMany implements Server. It reads replies while it sends commands: otherwise a server that waits
// until its replies are read would read no commands. Buried jobs take a second turn.
func (c *Beanstalk) PutMany(ctx context.Context, jobs []admin.LineJob) (results []PutResult, err error) {
	var commands net.Buffers
	var text []byte
	used := c.used
	for i := range jobs {
		j := &jobs[i]
		if CheckName(j.Tube) != nil {
			continue
		}
		if j.Tube != used {
			used = j.Tube
			text = fmt.Appendf(text, "use %s\r\n", used)
		}
		delay := j.Delay
		if j.Buried {
			delay = buryDelay
		}
		text = fmt.Appendf(text, "put %d %d %d %d\r\n", j.Pri, delay, j.TTR, len(j.Body))
		if len(j.Body) > smallMax {
			commands, text = append(commands, text, j.Body), nil
		} else {
			text = append(text, j.Body...)
		}
		text = append(text, "\r\n"...)
	}
	commands = append(commands, text)
	sent := make(chan error, 1)
	go func() { sent <- c.send(&commands) }()
	var buries []*PutResult
	var pris []uint32
	results = make([]PutResult, 0, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		r := PutResult{Err: CheckName(j.Tube)}
		if r.Err == nil {
			if r, err = c.putReply(ctx, j); err != nil {
				err = c.failure(ctx, "", err)
				c.conn.Close() // ends send
				break
			}
		}
		if results = append(results, r); j.Buried && r.Err == nil {
			buries, pris = append(buries, &results[i]), append(pris, j.Pri)
		}
	}
	if failed := <-sent; err == nil {
		err = c.failure(ctx, "", failed)
	}
	c.buryMany(ctx, buries, pris)
	return results, err
}

// putReply reads the replies of a put, and of the use before it. An error means that nothing is
// known.
func (c *Beanstalk) putReply(ctx context.Context, j *admin.LineJob) (r PutResult, err error) {
	if j.Tube != c.used {
		if _, _, err := c.receive("USING", 0); err != nil {
			return r, err
		}
		c.used = j.Tube
	}
	words, _, err := c.receive("INSERTED", 0)
	switch {
	case err == replyError("JOB_TOO_BIG"), err == replyError("DRAINING"), err == replyError("OUT_OF_MEMORY"), err == replyError("BURIED"):
		r.Err = c.failure(ctx, "", err)
		return r, nil
	case err != nil:
		return r, err
	case len(words) == 1:
		r.ID, err = strconv.ParseUint(words[0], 10, 64)
	}
	if r.ID == 0 {
		err = replyError("INSERTED without an id")
	}
	return r, err
}

// buryMany buries jobs that were put, with their priorities. It sets Err where that fails.
func (c *Beanstalk) buryMany(ctx context.Context, jobs []*PutResult, pris []uint32) {
	for first := 0; first < len(jobs); first += depth {
		some := jobs[first:min(first+depth, len(jobs))]
		var commands bytes.Buffer
		for i, r := range some {
			fmt.Fprintf(&commands, "reserve-job %d\r\nbury %d %d\r\n", r.ID, r.ID, pris[first+i])
		}
		lost := c.send(&commands)
		for _, r := range some {
			for _, want := range []string{"RESERVED", "BURIED"} {
				most := int64(0)
				if want == "RESERVED" {
					most = bodyMax
				}
				var err error
				if err = lost; err == nil {
					_, _, err = c.receive(want, most)
				}
				if _, answered := err.(replyError); err != nil && !answered {
					lost = err
				}
				if err != nil && r.Err == nil {
					r.Err = c.failure(ctx, jobName(r.ID), err)
				}
			}
		}
	}
}
