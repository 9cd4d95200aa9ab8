package main

import (
	"bytes"
	"context"
	"fmt"

	"polystalk/codec/gearman"
	"polystalk/loadtest/drive"
)

// echo: every connection sends its body, depth times a turn, and must get it
// back; a stamp tells one from the other. All of a turn is sent before anything
// is read, so depth bodies must be less than a server holds for a client that
// does not read.
type echo struct {
	*env
	actors []*echoer
}

func newEcho(e *env) workload { return &echo{env: e} }

func (w *echo) setup(ctx context.Context) error {
	w.actors = make([]*echoer, w.plan.share(w.plan.Load.Conns))
	_, err := openAll(ctx, len(w.actors), w.connectGearman, func(i int, c *gearmanConn) error {
		w.actors[i] = newEchoer(c)
		return nil
	})
	return err
}

func (w *echo) run(ph *phase) error { return runActors(ph, w.actors) }

func (w *echo) teardown(context.Context) error { return w.quitAll() }

type echoer struct {
	c           *gearmanConn
	sent, heard uint64
	write       func(i int)
	check       func(i int, m *gearman.Message) error
}

func newEchoer(c *gearmanConn) *echoer {
	a := &echoer{c: c}
	a.write = func(int) {
		a.sent++
		c.StampBody(a.sent)
		c.request(gearman.EchoReq, c.Body)
	}
	a.check = func(_ int, m *gearman.Message) error {
		if err := c.expect(gearman.EchoReq, gearman.EchoRes, m); err != nil {
			return err
		}
		a.heard++
		if c.StampBody(a.heard); !bytes.Equal(c.data, c.Body) {
			return fmt.Errorf("an echo came back with another body: expected %d bytes %.40q…, got %d bytes %.40q…",
				len(c.Body), c.Body, len(c.data), c.data)
		}
		return nil
	}
	return a
}

func (a *echoer) turn(l *drive.Lane) error {
	return a.c.batch(l, a.c.depth, a.c.depth, a.write, a.check)
}
