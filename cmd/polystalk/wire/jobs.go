package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
	"polystalk/codec/admin"
)

func jobName(id uint64) string { return fmt.Sprint("job ", id) }

// peeks are the states of which the protocol shows the first job.
var peeks = []struct {
	state string
	peek  func(*beanstalk.Tube) (uint64, []byte, error)
}{
	{"ready", (*beanstalk.Tube).PeekReady}, {"delayed", (*beanstalk.Tube).PeekDelayed}, {"buried", (*beanstalk.Tube).PeekBuried},
}

// Jobs implements queue.Queue. It shows the first job of each state.
func (c *Conn) Jobs(ctx context.Context, q queue.JobQuery, page func([]byte) error) error {
	switch {
	case q.AllTubes:
		return queue.OnlyPolystalk("list the jobs of all tubes")
	case q.Narrows():
		return queue.OnlyPolystalk("search jobs")
	case q.Order != "" && q.Order != "next":
		return queue.OnlyPolystalk("list jobs in the order " + q.Order)
	case slices.Contains(q.States, "reserved"):
		return queue.OnlyPolystalk("list reserved jobs")
	}
	if _, err := c.statsTube(ctx, q.Tube); err != nil {
		return err
	}
	rows := []jobDocument{}
	for _, p := range peeks {
		if len(q.States) > 0 && !slices.Contains(q.States, p.state) || q.Limit > 0 && len(rows) == q.Limit {
			continue
		}
		id, body, err := p.peek(beanstalk.NewTube(c.conn, q.Tube))
		if errors.Is(err, beanstalk.ErrNotFound) {
			continue
		}
		if err != nil {
			return c.failure(ctx, "job", err)
		}
		s, err := c.conn.StatsJob(id)
		if errors.Is(err, beanstalk.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return c.failure(ctx, jobName(id), err)
		}
		row := stats(s).job(id)
		row.show(body, q.Body)
		rows = append(rows, row)
	}
	document, err := json.Marshal(struct {
		Jobs []jobDocument `json:"jobs"`
	}{rows})
	if err != nil {
		return err
	}
	return page(document)
}

// Job implements queue.Queue.
func (c *Conn) Job(ctx context.Context, id uint64) ([]byte, error) {
	s, err := c.conn.StatsJob(id)
	if err := c.told(ctx, jobName(id), s, "state", err); err != nil {
		return nil, err
	}
	return json.Marshal(stats(s).job(id))
}

// Body implements queue.Queue.
func (c *Conn) Body(ctx context.Context, id uint64, w io.Writer) error {
	body, err := c.conn.Peek(id)
	if err != nil {
		return c.failure(ctx, jobName(id), err)
	}
	_, err = w.Write(body)
	return err
}

// Put implements queue.Queue.
func (c *Conn) Put(ctx context.Context, tube string, j queue.NewJob) (uint64, error) {
	if err := CheckName(tube); err != nil {
		return 0, err
	}
	body := j.Body
	if j.Large != nil {
		body = make([]byte, j.Large.Size())
		if _, err := j.Large.ReadAt(body, 0); err != nil && !errors.Is(err, io.EOF) {
			return 0, fault.New(fault.System, "the body cannot be read: %v", err)
		}
	}
	if body == nil {
		body = []byte{} // the client takes nil for a command without one
	}
	seconds := func(n uint32) time.Duration { return time.Duration(n) * time.Second }
	id, err := beanstalk.NewTube(c.conn, tube).Put(body, j.Pri, seconds(j.Delay), seconds(j.TTR))
	if errors.Is(err, beanstalk.ErrBuried) {
		return 0, fault.New(fault.NotDone, "the server has no memory for the job, and has buried it: delete jobs, or give it more")
	}
	return id, c.failure(ctx, tubeNamed+tube, err)
}

// KickTube makes up to n jobs of a tube ready: buried ones, or if there are none, delayed
// ones.
func (c *Conn) KickTube(ctx context.Context, tube string, n int) (int, error) {
	if err := CheckName(tube); err != nil {
		return 0, err
	}
	kicked, err := beanstalk.NewTube(c.conn, tube).Kick(n)
	return kicked, c.failure(ctx, tubeNamed+tube, err)
}

// Counts are how many jobs a tube has.
func (c *Conn) Counts(ctx context.Context, tube string) (admin.Counts, error) {
	s, err := c.statsTube(ctx, tube)
	return s.jobs(), err
}

// Kick implements queue.Queue.
func (c *Conn) Kick(ctx context.Context, id uint64) error {
	return c.onJob(ctx, id, "can be kicked when it is buried or delayed", c.conn.KickJob(id))
}

// Bury implements queue.Queue. The protocol buries what one has reserved.
func (c *Conn) Bury(ctx context.Context, id uint64, force bool) error {
	if force {
		return queue.OnlyPolystalk("take a job from its worker")
	}
	s, err := c.conn.StatsJob(id)
	if err != nil {
		return c.failure(ctx, jobName(id), err)
	}
	const when = "can be buried when it is ready or delayed"
	if stats(s).text("state") == "buried" {
		return c.onJob(ctx, id, when, beanstalk.ErrNotFound)
	}
	if _, err := c.conn.ReserveJob(id); err != nil {
		return c.onJob(ctx, id, when, err)
	}
	return c.onJob(ctx, id, when, c.conn.Bury(id, uint32(stats(s).count("pri"))))
}

// Delete implements queue.Queue.
func (c *Conn) Delete(ctx context.Context, id uint64, force bool) error {
	if force {
		return queue.OnlyPolystalk("take a job from its worker")
	}
	return c.onJob(ctx, id, "can be deleted when no worker has it", c.conn.Delete(id))
}

// onJob is how a command on a job went. The protocol does not tell whether there is no such
// job or it is in another state.
func (c *Conn) onJob(ctx context.Context, id uint64, when string, err error) error {
	if !errors.Is(err, beanstalk.ErrNotFound) {
		return c.failure(ctx, jobName(id), err)
	}
	s, lost := c.conn.StatsJob(id)
	if lost != nil {
		return c.failure(ctx, jobName(id), lost)
	}
	return fault.New(fault.NotDone, "job %d is %s, and %s: look at it again", id, stats(s).text("state"), when)
}

// Pop deletes the first job of a tube in a state, once keep has its document; false: there is
// none that can be deleted.
func (c *Conn) Pop(ctx context.Context, tube, state string, keep func(job []byte) error) (bool, error) {
	for _, p := range peeks {
		if p.state != state {
			continue
		}
		id, body, err := p.peek(beanstalk.NewTube(c.conn, tube))
		if errors.Is(err, beanstalk.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, c.failure(ctx, tubeNamed+tube, err)
		}
		if err := c.keep(ctx, id, body, keep); err != nil {
			return false, err
		}
		err = c.conn.Delete(id)
		if errors.Is(err, beanstalk.ErrNotFound) {
			return true, nil // a worker was quicker
		}
		return true, c.failure(ctx, jobName(id), err)
	}
	return false, nil
}

func (c *Conn) keep(ctx context.Context, id uint64, body []byte, keep func(job []byte) error) error {
	s, err := c.conn.StatsJob(id)
	if errors.Is(err, beanstalk.ErrNotFound) {
		return nil
	}
	if err != nil {
		return c.failure(ctx, jobName(id), err)
	}
	job := stats(s).job(id)
	job.show(body, "full")
	document, err := json.Marshal(job)
	if err != nil {
		return err
	}
	return keep(document)
}
