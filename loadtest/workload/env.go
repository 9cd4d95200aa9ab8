package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// A Connection is what an Env keeps until it is closed, in peace or not.
type Connection interface {
	Quit() error // ends it politely: the server has done what was asked
	Shut()       // closes it at once, so that whoever waits on it returns
}

// An Env is what a workload has of its process. Its methods may be called by
// several goroutines at once.
type Env struct {
	Plan   Plan
	Memory *Memory // found by a workload that is about memory; nil: by none
	Growth *Growth // found by a workload whose queue grows; nil: by none

	mu    sync.Mutex
	conns map[Connection]bool
	err   error         // the first failure; conns are closed once it is set
	ended chan struct{} // closed once err is set
}

func newEnv(p Plan) *Env {
	return &Env{Plan: p, conns: map[Connection]bool{}, ended: make(chan struct{})}
}

// Done is closed at the first failure.
func (e *Env) Done() <-chan struct{} { return e.ended }

// Fail records the first failure and closes all connections, so that whoever
// waits for a reply returns.
func (e *Env) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil || err == nil {
		return
	}
	e.err = err
	close(e.ended)
	for c := range e.conns {
		c.Shut()
	}
}

// Failure is the first failure, nil if there was none.
func (e *Env) Failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// Adopt makes c a connection that Fail will close. If that has happened already it
// closes c and returns the failure.
func (e *Env) Adopt(c Connection) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		c.Shut()
		return e.err
	}
	e.conns[c] = true
	return nil
}

// Quit ends a connection politely, which Fail will not close any more.
func (e *Env) Quit(c Connection) error {
	e.mu.Lock()
	delete(e.conns, c)
	e.mu.Unlock()
	return c.Quit()
}

// QuitAll ends all connections politely.
func (e *Env) QuitAll() error { return e.QuitAllBut(nil) }

// QuitAllBut ends all connections but one politely.
func (e *Env) QuitAllBut(one Connection) error {
	e.mu.Lock()
	all := slices.Collect(maps.Keys(e.conns))
	e.mu.Unlock()
	for _, c := range all {
		if c == one {
			continue
		}
		if err := e.Quit(c); err != nil {
			return err
		}
	}
	return nil
}

// OpenAll opens n connections and does the same with each, a few at a time: a
// listener's backlog is short.
func OpenAll[C any](ctx context.Context, n int, open func(context.Context) (C, error), each func(i int, c C) error) ([]C, error) {
	conns := make([]C, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range conns {
		g.Go(func() error {
			c, err := open(ctx)
			if err != nil {
				return err
			}
			conns[i] = c
			return each(i, c)
		})
	}
	return conns, g.Wait()
}

// TubeName names a tube, or a function, of this run and process: no two runs
// meet.
func (e *Env) TubeName(kind string, i int) string {
	return fmt.Sprintf("lt.%s.%d.%s%d", e.Plan.Run, e.Plan.Process, kind, i)
}
