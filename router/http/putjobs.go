package http

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// decodeMost is the number of lines that are decoded before other requests get their turn.
const decodeMost = 64

// putJobs puts a job for each line of the body. The answer has the results of the lines; it is a
// problem only if no job was put, or if it is uncertain which were.
func (a *API) putJobs(c *call) error {
	lines, err := c.lines()
	if err != nil {
		return err
	}
	answer := wire.PutLines{Lines: make([]wire.PutLine, len(lines))}
	jobs, at := decodeLines(lines, answer.Lines)
	if !c.By.Everywhere(access.Put) || c.By.IsLimited() {
		jobs, at = a.permitted(c, jobs, at, answer.Lines)
	}
	if err := a.pay(c, len(jobs)); err != nil {
		return err
	}
	results, err := a.op.PutMany(c.Ctx, jobs)
	for k, r := range results {
		if answer.Lines[at[k]] = r; r.Problem == nil {
			c.Affected++
		}
	}
	for _, l := range answer.Lines {
		if l.Problem != nil {
			l.Problem.RequestID = c.ID
		}
	}
	c.Detail = fmt.Sprintf("%d of %d lines", c.Affected, len(lines))
	if err != nil && c.Affected == 0 {
		return err
	}
	if err != nil {
		p, ok := errors.AsType[*wire.Problem](err)
		if !ok {
			return err
		}
		p.RequestID = c.ID
		answer.Lines, answer.Problem = answer.Lines[:at[len(results)]], p
	}
	return c.answer(http.StatusOK, answer)
}

// permitted returns the jobs that the client may put, and the numbers of their lines. It sets the
// results of the others.
func (a *API) permitted(c *call, jobs []wire.LineJob, at []int, results []wire.PutLine) (may []wire.LineJob, lines []int) {
	in := make(pending)
	for k := range jobs {
		err := a.mayOn(c, access.Put, jobs[k].Tube)
		if err == nil {
			err = a.fits(c, jobs[k].Tube, len(jobs[k].Body), in)
		}
		if err != nil {
			results[at[k]].Problem = err.(*wire.Problem)
			continue
		}
		may, lines = append(may, jobs[k]), append(lines, at[k])
	}
	return may, lines
}

// lines returns the lines of the body, without their ends.
func (c *call) lines() ([][]byte, error) {
	if c.mediaType() != wire.LinesType {
		return nil, wire.NotJSON.With("Content-Type", "this path takes lines of JSON", "send a job on each line, with a header Content-Type: "+wire.LinesType)
	}
	body := bytes.TrimSuffix(c.Body, []byte("\n"))
	switch n := bytes.Count(body, []byte("\n")) + 1; {
	case len(body) == 0:
		return nil, wire.BadRequest.With("", "the body is empty", "send a job on each line; /api/v1/openapi.json describes it")
	case n > wire.LinesMax:
		return nil, wire.TooLarge.With("", fmt.Sprintf("it has %d lines, and the limit is %d", n, wire.LinesMax), fmt.Sprintf("send at most %d jobs in a request", wire.LinesMax))
	}
	return bytes.Split(body, []byte("\n")), nil
}

// decodeLines returns the jobs of the lines, and the number of the line of each. It sets the
// result of a line that is no job.
func decodeLines(lines [][]byte, results []wire.PutLine) (jobs []wire.LineJob, at []int) {
	for first := 0; first < len(lines); first += decodeMost {
		encoding <- struct{}{}
		for i := first; i < min(first+decodeMost, len(lines)); i++ {
			j, err := wire.ParseLine(lines[i], 0)
			if err != nil {
				results[i].Problem = err.(*wire.Problem)
				continue
			}
			jobs, at = append(jobs, j), append(at, i)
		}
		<-encoding
	}
	return jobs, at
}
