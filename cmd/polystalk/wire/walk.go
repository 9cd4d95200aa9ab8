package wire

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/beanstalkd/go-beanstalk"

	"polystalk/cmd/polystalk/queue"
)

// Walk looks at each id from q.MinID to q.MaxID, many at a time, and gives take the jobs with
// their bodies that q asks for by tube and state. It tells at how many it has looked.
func (c *Conn) Walk(ctx context.Context, q queue.JobQuery, take func(job []byte) error, looked func(n, of uint64)) error {
	if !q.AllTubes {
		if err := CheckName(q.Tube); err != nil {
			return err
		}
	}
	first := max(q.MinID, 1)
	of := q.MaxID - first + 1
	found := 0
	var rows [depth]*jobDocument
	var errs [depth]error
	for n := uint64(0); n < of; n += depth {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		window := min(of-n, depth)
		var all sync.WaitGroup
		for i := range window {
			all.Go(func() { rows[i], errs[i] = c.whole(first + n + i) })
		}
		all.Wait()
		for i := range window {
			if errs[i] != nil {
				return c.failure(ctx, jobName(first+n+i), errs[i])
			}
			row := rows[i]
			if row == nil || !q.AllTubes && row.tube != q.Tube || len(q.States) > 0 && !slices.Contains(q.States, row.State) {
				continue
			}
			document, err := json.Marshal(row)
			if err != nil {
				return err
			}
			if err := take(document); err != nil {
				return err
			}
			if found++; found == q.Limit {
				return nil
			}
		}
		looked(n+window, of)
	}
	return nil
}

// whole is a job with its body; nil: there is none.
func (c *Conn) whole(id uint64) (*jobDocument, error) {
	body, err := c.conn.Peek(id)
	if errors.Is(err, beanstalk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := c.conn.StatsJob(id)
	if errors.Is(err, beanstalk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	job := stats(s).job(id)
	job.show(body, "full")
	return &job, nil
}
