package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"polystalk/codec/admin"
)

func jobName(id uint64) string { return fmt.Sprint("job ", id) }

// A peek is the command that shows the first job of a state.
type peek struct {
	state string
	run   func(*beanstalk.Tube) (uint64, []byte, error)
}

var peeks = []peek{
	{"ready", (*beanstalk.Tube).PeekReady}, {"delayed", (*beanstalk.Tube).PeekDelayed}, {"buried", (*beanstalk.Tube).PeekBuried},
}

// Narrows reports whether a query for jobs selects by more than tube and state.
func Narrows(q url.Values) bool {
	return q.Get("contains") != "" || q.Get("id_min") != "" || q.Get("id_max") != "" || q.Get("older_than") != ""
}

// states returns the states that a query for jobs selects; nil: all.
func states(q url.Values) []string {
	if q.Get("state") == "" {
		return nil
	}
	return strings.Split(q.Get("state"), ",")
}

// jobs carries out GET /tubes/{tube}/jobs as far as the protocol goes: with the first job of each
// state.
func (c *Beanstalk) jobs(ctx context.Context, r *Request) (any, error) {
	wanted, order := states(r.Query), r.Query.Get("order")
	switch {
	case Narrows(r.Query):
		return nil, Unsupported("search jobs")
	case order != "" && order != "next":
		return nil, Unsupported("list jobs in the order " + order)
	case slices.Contains(wanted, "reserved"):
		return nil, Unsupported("list reserved jobs")
	}
	if err := CheckName(r.Tube); err != nil {
		return nil, err
	}
	if _, err := c.tube(ctx, r); err != nil {
		return nil, err
	}
	rows := []object{}
	for _, p := range peeks {
		if wanted != nil && !slices.Contains(wanted, p.state) || r.Limit > 0 && len(rows) == r.Limit {
			continue
		}
		id, body, err := p.run(beanstalk.NewTube(c.conn, r.Tube))
		var row object
		if err == nil {
			row, err = c.document(id, body, r.Query.Get("body"))
		}
		if err != nil && !errors.Is(err, beanstalk.ErrNotFound) {
			return nil, c.failure(ctx, "job", err)
		}
		if err == nil {
			rows = append(rows, row)
		}
	}
	return object{"jobs": rows}, nil
}

// document returns the document of a job with its body: none, preview or full.
func (c *Beanstalk) document(id uint64, body []byte, how string) (object, error) {
	s, err := c.conn.StatsJob(id)
	if err != nil {
		return nil, err
	}
	o := stats(s).ofJob(id)
	o.show(body, how)
	return o, nil
}

// job carries out GET /jobs/{id}.
func (c *Beanstalk) job(ctx context.Context, r *Request) (any, error) {
	s, err := c.conn.StatsJob(r.ID)
	if err := c.told(ctx, jobName(r.ID), s, "state", err); err != nil {
		return nil, err
	}
	return stats(s).ofJob(r.ID), nil
}

// Body implements Server.
func (c *Beanstalk) Body(ctx context.Context, job uint64, w io.Writer) error {
	body, err := c.conn.Peek(job)
	if err != nil {
		return c.failure(ctx, jobName(job), err)
	}
	_, err = w.Write(body)
	return err
}

// put carries out POST /tubes/{tube}/jobs.
func (c *Beanstalk) put(ctx context.Context, r *Request) (any, error) {
	body := r.Octets
	if r.Large != nil {
		body = make([]byte, r.Large.Size())
		if _, err := r.Large.ReadAt(body, 0); err != nil && !errors.Is(err, io.EOF) {
			return nil, Errorf(System, "the body cannot be read: %v", err)
		}
	}
	if body == nil {
		body = []byte{} // nil is a command without a body
	}
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(r.Query.Get(name), 10, 32)
		return n
	}
	seconds := func(name string) time.Duration { return time.Duration(number(name)) * time.Second }
	id, err := beanstalk.NewTube(c.conn, r.Tube).Put(body, uint32(number("pri")), seconds("delay"), seconds("ttr"))
	if errors.Is(err, beanstalk.ErrBuried) {
		return nil, Errorf(NotDone, "the server has no memory for the job, and has buried it: delete jobs, or give it more")
	}
	return admin.Put{ID: id}, c.failure(ctx, tubeNamed+r.Tube, err)
}

// kick carries out POST /jobs/{id}/kick.
func (c *Beanstalk) kick(ctx context.Context, r *Request) (any, error) {
	return nil, c.onJob(ctx, r.ID, "can be kicked when it is buried or delayed", c.conn.KickJob(r.ID))
}

// bury carries out POST /jobs/{id}/bury. The protocol buries only jobs that the connection has
// reserved.
func (c *Beanstalk) bury(ctx context.Context, r *Request) (any, error) {
	s, err := c.conn.StatsJob(r.ID)
	if err != nil {
		return nil, c.failure(ctx, jobName(r.ID), err)
	}
	if stats(s).text("state") == "buried" {
		err = beanstalk.ErrNotFound
	} else if _, err = c.conn.ReserveJob(r.ID); err == nil {
		err = c.conn.Bury(r.ID, uint32(stats(s).number("pri")))
	}
	return nil, c.onJob(ctx, r.ID, "can be buried when it is ready or delayed", err)
}

// delete carries out DELETE /jobs/{id}.
func (c *Beanstalk) delete(ctx context.Context, r *Request) (any, error) {
	return nil, c.onJob(ctx, r.ID, "can be deleted when no worker has it", c.conn.Delete(r.ID))
}

// onJob returns the error of a command on a job. The protocol does not tell a job that is missing
// from one in another state.
func (c *Beanstalk) onJob(ctx context.Context, id uint64, when string, err error) error {
	if !errors.Is(err, beanstalk.ErrNotFound) {
		return c.failure(ctx, jobName(id), err)
	}
	s, lost := c.conn.StatsJob(id)
	if lost != nil {
		return c.failure(ctx, jobName(id), lost)
	}
	return Errorf(NotDone, "job %d is %s, and %s: look at it again", id, stats(s).text("state"), when)
}

// Pop deletes the first job of a tube in a state, after keep has its document. It returns false
// if there is none.
func (c *Beanstalk) Pop(ctx context.Context, tube, state string, keep func(job []byte) error) (bool, error) {
	i := slices.IndexFunc(peeks, func(p peek) bool { return p.state == state })
	id, body, err := peeks[i].run(beanstalk.NewTube(c.conn, tube))
	if errors.Is(err, beanstalk.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, c.failure(ctx, tubeNamed+tube, err)
	}
	job, err := c.document(id, body, "full")
	if err == nil {
		var document []byte
		if document, err = json.Marshal(job); err != nil {
			return false, err
		}
		if err := keep(document); err != nil {
			return false, err
		}
		err = c.conn.Delete(id)
	}
	if errors.Is(err, beanstalk.ErrNotFound) {
		err = nil // a worker was quicker
	}
	return true, c.failure(ctx, jobName(id), err)
}

// Walk reads the jobs with ids from id_min to id_max of a query, many at a time, and gives take
// the documents, with bodies, of those that the query selects by tube and state. It reports to
// looked how many ids it has tried.
func (c *Beanstalk) Walk(ctx context.Context, r Request, take func(job []byte) error, looked func(n, of uint64)) error {
	ofTube := strings.Contains(r.Path, "{tube}")
	if ofTube {
		if err := CheckName(r.Tube); err != nil {
			return err
		}
	}
	bound := func(name string) uint64 {
		n, _ := strconv.ParseUint(r.Query.Get(name), 10, 64)
		return n
	}
	first := max(bound("id_min"), 1)
	of := bound("id_max") - first + 1
	wanted, path, found := states(r.Query), admin.PathName(r.Tube), 0
	var rows [depth]object
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
		for i, row := range rows[:window] {
			switch err := errs[i]; {
			case errors.Is(err, beanstalk.ErrNotFound):
				continue
			case err != nil:
				return c.failure(ctx, jobName(first+n+uint64(i)), err)
			case ofTube && row["tube_path"] != path, wanted != nil && !slices.Contains(wanted, row["state"].(string)):
				continue
			}
			document, err := json.Marshal(row)
			if err != nil {
				return err
			}
			if err := take(document); err != nil {
				return err
			}
			if found++; found == r.Limit {
				return nil
			}
		}
		looked(n+window, of)
	}
	return nil
}

// whole returns the document of a job with its body.
func (c *Beanstalk) whole(id uint64) (object, error) {
	body, err := c.conn.Peek(id)
	if err != nil {
		return nil, err
	}
	return c.document(id, body, "full")
}
