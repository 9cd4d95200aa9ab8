package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"polystalk/codec/admin"
)

func jobName(id uint64) string { return fmt.Sprint("job ", id) }

// Narrows reports whether a query for jobs has conditions other than tube and state.
func Narrows(q url.Values) bool {
	return q.Get("contains") != "" || q.Get("id_min") != "" || q.Get("id_max") != "" || q.Get("older_than") != ""
}

// states returns the states that a query for jobs selects.
func states(q url.Values) []string {
	if q.Get("state") == "" {
		return []string{"ready", "delayed", "reserved", "buried"}
	}
	return strings.Split(q.Get("state"), ",")
}

// jobs carries out GET /tubes/{tube}/jobs within the limits of the protocol: it returns the first
// job of each state.
func (c *Beanstalk) jobs(ctx context.Context, r *Request) (any, error) {
	wanted, order := states(r.Query), r.Query.Get("order")
	switch {
	case Narrows(r.Query):
		return nil, Unsupported("search jobs")
	case order != "" && order != "next":
		return nil, Unsupported("list jobs in the order " + order)
	case r.Query.Get("state") != "" && slices.Contains(wanted, "reserved"):
		return nil, Unsupported("list reserved jobs")
	}
	if _, err := c.tube(ctx, r); err != nil {
		return nil, err
	}
	rows := []object{}
	for _, state := range []string{"ready", "delayed", "buried"} {
		if !slices.Contains(wanted, state) || r.Limit > 0 && len(rows) == r.Limit {
			continue
		}
		id, row, body, err := c.first(r.Tube, state)
		if err != nil && err != notFound {
			return nil, c.failure(ctx, jobName(id), err)
		}
		if err == nil {
			row.show(body, r.Query.Get("body"))
			rows = append(rows, row)
		}
	}
	return object{"jobs": rows}, nil
}

// first returns the first job of a tube in a state: its document without the body, and the body.
func (c *Beanstalk) first(tube, state string) (id uint64, job object, body []byte, err error) {
	if err := c.use(tube); err != nil {
		return 0, nil, nil, err
	}
	words, body, err := c.ask("FOUND", bodyMax, "peek-%s", state)
	if err != nil {
		return 0, nil, nil, err
	}
	if id, err = strconv.ParseUint(words[0], 10, 64); err != nil {
		return 0, nil, nil, err
	}
	_, data, err := c.ask("OK", statsMax, "stats-job %d", id)
	return id, readStats(data).ofJob(id), body, err
}

// jobStats asks for the statistics of a job.
func (c *Beanstalk) jobStats(ctx context.Context, id uint64) (stats, error) {
	return c.stats(ctx, jobName(id), "state", "stats-job %d", id)
}

// job carries out GET /jobs/{id}.
func (c *Beanstalk) job(ctx context.Context, r *Request) (any, error) {
	s, err := c.jobStats(ctx, r.ID)
	return s.ofJob(r.ID), err
}

// Body implements Server.
func (c *Beanstalk) Body(ctx context.Context, job uint64, w io.Writer) error {
	_, body, err := c.ask("FOUND", bodyMax, "peek %d", job)
	if err != nil {
		return c.failure(ctx, jobName(job), err)
	}
	_, err = w.Write(body)
	return err
}

// put carries out POST /tubes/{tube}/jobs.
func (c *Beanstalk) put(ctx context.Context, r *Request) (any, error) {
	var put admin.Put
	err := c.use(r.Tube)
	if err == nil {
		q := r.Query
		err = c.send(io.MultiReader(strings.NewReader(fmt.Sprintf("put %s %s %s %d\r\n", q.Get("pri"), q.Get("delay"), q.Get("ttr"), len(r.Octets))), bytes.NewReader(r.Octets), strings.NewReader("\r\n")))
	}
	if err == nil {
		var words []string
		if words, _, err = c.receive("INSERTED", 0); err == nil {
			_, err = fmt.Sscan(strings.Join(words, " "), &put.ID)
		}
	}
	return put, c.failure(ctx, tubeNamed+r.Tube, err)
}

// kick carries out POST /jobs/{id}/kick.
func (c *Beanstalk) kick(ctx context.Context, r *Request) (any, error) {
	return nil, c.onJob(ctx, r.ID, "can be kicked when it is buried or delayed", c.do("KICKED", "kick-job %d", r.ID))
}

// bury carries out POST /jobs/{id}/bury. The protocol buries only jobs that the connection has
// reserved.
func (c *Beanstalk) bury(ctx context.Context, r *Request) (any, error) {
	s, err := c.jobStats(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	if s.text("state") == "buried" {
		err = notFound
	} else if _, _, err = c.ask("RESERVED", bodyMax, "reserve-job %d", r.ID); err == nil {
		err = c.do("BURIED", "bury %d %d", r.ID, s.number("pri"))
	}
	return nil, c.onJob(ctx, r.ID, "can be buried when it is ready or delayed", err)
}

// delete carries out DELETE /jobs/{id}.
func (c *Beanstalk) delete(ctx context.Context, r *Request) (any, error) {
	return nil, c.onJob(ctx, r.ID, "can be deleted when no worker has it", c.do("DELETED", "delete %d", r.ID))
}

// onJob returns the error of a command on a job. The protocol has the same reply for a missing job
// and for a job in another state.
func (c *Beanstalk) onJob(ctx context.Context, id uint64, when string, err error) error {
	if err != notFound {
		return c.failure(ctx, jobName(id), err)
	}
	s, err := c.jobStats(ctx, id)
	if err != nil {
		return err
	}
	return Errorf(NotDone, "job %d is %s, and %s: look at it again", id, s.text("state"), when)
}

// Pop deletes the first job of a tube in a state, after it has passed the job to keep, for WriteLine.
// It returns false if there is none.
func (c *Beanstalk) Pop(ctx context.Context, tube, state string, keep func(job map[string]any, body []byte) error) (bool, error) {
	id, job, body, err := c.first(tube, state)
	if err == notFound {
		return id != 0, nil // a worker took it meanwhile, or there was none
	}
	if err != nil {
		return false, c.failure(ctx, tubeNamed+tube, err)
	}
	if err = keep(job, body); err != nil {
		return false, err
	}
	if err = c.do("DELETED", "delete %d", id); err == notFound {
		err = nil // a worker took it meanwhile
	}
	return true, c.failure(ctx, jobName(id), err)
}

// Walk reads the jobs with ids from id_min to id_max of a query, many at a time. It passes the
// jobs that match the query's tube and state to take, for WriteLine. It reports the number of tried
// ids to looked.
func (c *Beanstalk) Walk(ctx context.Context, r Request, take func(job map[string]any, body []byte) error, looked func(n, of uint64)) error {
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
	for n := uint64(0); n < of; n += depth {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		window := int(min(of-n, depth))
		id := func(i int) any { return first + n + uint64(i) }
		var jobs []object
		err := c.askMany("OK", statsMax, "stats-job", window, id, func(i int, data []byte) error {
			job := readStats(data).ofJob(first + n + uint64(i))
			if data != nil && (!ofTube || job["tube_path"] == path) && slices.Contains(wanted, job["state"].(string)) {
				jobs = append(jobs, job)
			}
			return nil
		})
		if err == nil {
			err = c.askMany("FOUND", bodyMax, "peek", len(jobs), func(i int) any { return jobs[i]["id"] }, func(i int, body []byte) error {
				if body == nil || found == r.Limit && r.Limit > 0 {
					return nil
				}
				found++
				return take(jobs[i], body)
			})
		}
		if err != nil {
			return c.failure(ctx, "jobs", err)
		}
		if r.Limit > 0 && found == r.Limit {
			return nil
		}
		looked(n+uint64(window), of)
	}
	return nil
}
