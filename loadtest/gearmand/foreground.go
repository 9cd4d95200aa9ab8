package gearmand

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"polystalk/codec/gearman"
	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

// foreground: conns clients submit jobs, depth at once, and wait for all of
// their WORK_COMPLETE; workers workers take them, one at a time, and return
// their body. The latency is that from when the submission was due or sent to
// the arrival of the result. Clients and workers of a process have a function
// of their own.
//
// A worker that finds nothing sleeps until the server wakes it.
type foreground struct {
	env
	function []byte
	clients  []*client
	workers  []*worker
	control  *conn
	stopper  *conn
}

func newForeground(e *workload.Env) workload.Workload { return &foreground{env: env{e}} }

func enoughWorkers(l workload.Load) error {
	if l.Workers < l.Processes {
		return fmt.Errorf("workload foreground needs a worker in each of %d processes", l.Processes)
	}
	return nil
}

func (w *foreground) Setup(ctx context.Context) error {
	load := &w.Plan.Load
	w.function = []byte(w.TubeName("f", 0))
	var err error
	if w.control, err = w.connect(ctx); err != nil {
		return err
	}
	if w.stopper, err = w.connect(ctx); err != nil {
		return err
	}
	w.clients = make([]*client, w.Plan.Share(load.Conns))
	if _, err := workload.OpenAll(ctx, len(w.clients), w.connect, func(i int, c *conn) error {
		w.clients[i] = newClient(c, w.function, uint64(i), uint64(len(w.clients)))
		return nil
	}); err != nil {
		return err
	}
	w.workers = make([]*worker, w.Plan.Share(load.Workers))
	_, err = workload.OpenAll(ctx, len(w.workers), w.connect, func(i int, c *conn) error {
		w.workers[i] = &worker{c: c, function: w.function}
		c.request(gearman.CanDo, w.function)
		return c.Flush()
	})
	return err
}

func (w *foreground) Run(ph *workload.Phase) error {
	var working sync.WaitGroup
	for _, a := range w.workers {
		working.Go(func() { w.Fail(a.work()) })
	}
	err := workload.RunActors(ph, w.clients)
	if err == nil {
		w.Fail(w.stop())
	}
	working.Wait()
	if err := w.Failure(); err != nil {
		return err
	}
	return ph.Untimed(func() error { return w.control.awaitJobs([][]byte{w.function}, 0) })
}

// stopStamps begins the stamps of jobs that tell a worker to end. They differ,
// since a server takes jobs of one unique id for one.
const stopStamps = 1 << 63

// stop submits such a job for every worker. By now they are the only jobs.
func (w *foreground) stop() error {
	var last []byte
	for i := range w.workers {
		w.stopper.submit(gearman.SubmitJobBG, w.function, stopStamps+uint64(i))
		if err := w.stopper.Flush(); err != nil {
			return err
		}
		m, err := w.stopper.read()
		if err != nil {
			return err
		}
		if err := w.stopper.created(gearman.SubmitJobBG, m, last); err != nil {
			return err
		}
		last = bytes.Clone(m.Args[0])
	}
	return nil
}

func (w *foreground) Teardown(context.Context) error {
	if w.Plan.Throwaway {
		return w.QuitAll()
	}
	if err := w.QuitAllBut(w.control); err != nil {
		return err
	}
	if err := w.control.drop([][]byte{w.function}); err != nil {
		return err
	}
	return w.Quit(w.control)
}

// A client submits foreground jobs of one function.
type client struct {
	c          *conn
	function   []byte
	next, step uint64
	jobs       []foregroundJob // of one turn
}

type foregroundJob struct {
	handle []byte
	stamp  uint64
	done   bool
}

func newClient(c *conn, function []byte, i, n uint64) *client {
	return &client{c: c, function: function, next: i, step: n, jobs: make([]foregroundJob, c.depth)}
}

func (a *client) Turn(l *drive.Lane) error {
	c := a.c
	for i := range a.jobs {
		j := &a.jobs[i]
		j.stamp, j.done, j.handle = a.next, false, j.handle[:0]
		c.submit(gearman.SubmitJob, a.function, a.next)
		a.next += a.step
	}
	due, err := l.Begin(len(a.jobs))
	if err != nil {
		return err
	}
	if err := c.Ask(); err != nil {
		return err
	}
	for created, done := 0, 0; done < len(a.jobs); {
		m, err := c.read()
		if err != nil {
			return err
		}
		if m.Type != gearman.WorkComplete {
			if created == len(a.jobs) {
				return c.wrong("SUBMIT_JOB", "WORK_COMPLETE", m)
			}
			var last []byte
			if created > 0 {
				last = a.jobs[created-1].handle
			}
			if err := c.created(gearman.SubmitJob, m, last); err != nil {
				return err
			}
			j := &a.jobs[created]
			j.handle = append(j.handle, m.Args[0]...)
			created++
			continue
		}
		if err := a.completed(m, a.jobs[:created]); err != nil {
			return err
		}
		done++
		l.Answered(due, c.At)
	}
	return nil
}

// completed checks the result of one of jobs, those created so far.
func (a *client) completed(m *gearman.Message, jobs []foregroundJob) error {
	for i := range jobs {
		j := &jobs[i]
		if bytes.Equal(j.handle, m.Args[0]) {
			if j.done {
				return a.c.wrong("SUBMIT_JOB", "one result of a job", m)
			}
			j.done = true
			return a.c.checkData(j.handle, j.stamp)
		}
	}
	return a.c.wrong("SUBMIT_JOB", "the result of a job that was created for this client", m)
}

// A worker does jobs until one tells it to stop.
type worker struct {
	c        *conn
	function []byte
}

func (a *worker) work() error {
	c := a.c
	for {
		// Behind the report of the last job, as worker libraries do.
		c.request(gearman.GrabJobUniq)
		if err := c.Ask(); err != nil {
			return err
		}
		m, err := c.read()
		for err == nil && m.Type == gearman.Noop { // a hint may come late
			m, err = c.read()
		}
		if err != nil {
			return err
		}
		if m.Type == gearman.NoJob {
			if err := a.sleep(); err != nil {
				return err
			}
			continue
		}
		stamp, err := c.assigned(m)
		if err != nil {
			return err
		}
		if !bytes.Equal(m.Args[1], a.function) {
			return c.wrong("GRAB_JOB_UNIQ", "a job of "+string(a.function), m)
		}
		c.complete(m.Args[0], c.data)
		if stamp >= stopStamps {
			return c.Flush()
		}
	}
}

// sleep returns once the server has woken the worker.
func (a *worker) sleep() error {
	a.c.request(gearman.PreSleep)
	if err := a.c.Ask(); err != nil {
		return err
	}
	m, err := a.c.read()
	if err != nil {
		return err
	}
	return a.c.expect(gearman.PreSleep, gearman.Noop, m)
}
