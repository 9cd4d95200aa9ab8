package client

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"polystalk/codec/admin"
)

// A Worker reserves jobs by beanstalkd's protocol, the only one that has reservations. A
// reservation belongs to the connection: when it ends, the server makes the job ready again.
type Worker struct{ c *Beanstalk }

// A Job is a job that a Worker has reserved.
type Job struct {
	ID       uint64
	Body     []byte
	Tube     string
	TTR      time.Duration // how long the reservation lasts after the reserve or the last touch
	Pri      uint64
	Reserves uint64 // the number of reserves, with this one
	Releases uint64
}

// DialWorker connects to a server and watches only these tubes. The end of ctx does not end the
// connection, so that a job in progress can be finished. The caller must close the connection.
func DialWorker(ctx context.Context, t Target, o Options, tubes []string) (*Worker, error) {
	for _, tube := range tubes {
		if err := CheckName(tube); err != nil {
			return nil, err
		}
	}
	c, err := dialBeanstalk(ctx, t, o)
	if err != nil {
		return nil, err
	}
	c.Detach()
	watchesDefault := false
	for _, tube := range tubes {
		watchesDefault = watchesDefault || tube == "default"
		if err == nil {
			err = c.do("WATCHING", "watch %s", tube)
		}
	}
	if err == nil && !watchesDefault {
		err = c.do("WATCHING", "ignore default")
	}
	if err != nil {
		c.Close()
		return nil, c.failure(ctx, "", err)
	}
	return &Worker{c}, nil
}

// Close ends the connection. The server makes a reserved job ready again.
func (w *Worker) Close() { w.c.Close() }

// Reserve waits for a job, in whole seconds and at most for wait. It returns nil without an error
// if none comes. The end of ctx ends the wait and the connection, so no job is lost.
func (w *Worker) Reserve(ctx context.Context, wait time.Duration) (*Job, error) {
	c := w.c
	unwatch := context.AfterFunc(ctx, c.Close)
	patience := c.wait
	c.wait += wait // the reply may take that much longer
	words, body, err := c.ask("RESERVED", bodyMax, "reserve-with-timeout %d", int64(wait/time.Second))
	c.wait = patience
	switch {
	case !unwatch():
		return nil, ctx.Err()
	case err == replyError("TIMED_OUT"):
		return nil, nil
	case err != nil:
		return nil, w.failure("", err)
	}
	j := &Job{Body: body}
	if j.ID, err = strconv.ParseUint(words[0], 10, 64); err != nil {
		return nil, w.failure("", err)
	}
	_, data, err := c.ask("OK", statsMax, "stats-job %d", j.ID)
	if err == notFound { // an operator has deleted it meanwhile
		return nil, nil
	}
	s := readStats(data)
	j.Tube, j.TTR, j.Pri = s.text("tube"), time.Duration(s.number("ttr"))*time.Second, s.number("pri")
	j.Reserves, j.Releases = s.number("reserves"), s.number("releases")
	return j, w.failure(jobName(j.ID), err)
}

// Touch restarts the job's time to run. Lost reports that the reservation has ended.
func (w *Worker) Touch(j *Job) (lost bool, err error) {
	return w.end(j, "TOUCHED", "touch %d", j.ID)
}

// Delete deletes the job. If the reservation has ended, it deletes the job unless another worker
// has it.
func (w *Worker) Delete(j *Job) (lost bool, err error) {
	return w.end(j, "DELETED", "delete %d", j.ID)
}

// Bury buries the job.
func (w *Worker) Bury(j *Job) (lost bool, err error) {
	return w.end(j, "BURIED", "bury %d %d", j.ID, j.Pri)
}

// Release makes the job ready again after a delay in whole seconds.
func (w *Worker) Release(j *Job, delay time.Duration) (lost bool, err error) {
	return w.end(j, "RELEASED", "release %d %d %d", j.ID, j.Pri, int64(delay/time.Second))
}

func (w *Worker) end(j *Job, want, format string, args ...any) (lost bool, err error) {
	err = w.c.do(want, format, args...)
	if err == notFound {
		return true, nil
	}
	return false, w.failure(jobName(j.ID), err)
}

func (w *Worker) failure(about string, err error) error {
	return w.c.failure(context.Background(), about, err)
}

// Document returns the id, the tube and the body as JSON.
func (j *Job) Document() ([]byte, error) {
	o := object{"id": strconv.FormatUint(j.ID, 10), "tube": admin.ShownName(j.Tube)}
	o.show(j.Body, "full")
	return json.Marshal(o)
}
