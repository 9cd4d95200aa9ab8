package gearmand

import (
	"bytes"
	"context"
	"fmt"

	"polystalk/codec/gearman"
	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

// echo: every connection sends its body, depth times a turn, and must get it
// back; a stamp tells one from the other. All of a turn is sent before anything
// is read, so depth bodies must be less than a server holds for a client that
// does not read.
type echo struct {
	env
	actors []*echoer
}

func newEcho(e *workload.Env) workload.Workload { return &echo{env: env{e}} }

func (w *echo) Setup(ctx context.Context) error {
	w.actors = make([]*echoer, w.Plan.Share(w.Plan.Load.Conns))
	_, err := workload.OpenAll(ctx, len(w.actors), w.connect, func(i int, c *conn) error {
		w.actors[i] = newEchoer(c)
		return nil
	})
	return err
}

func (w *echo) Run(ph *workload.Phase) error { return workload.RunActors(ph, w.actors) }

func (w *echo) Teardown(context.Context) error { return w.QuitAll() }

type echoer struct {
	c           *conn
	sent, heard uint64
	write       func(i int)
	check       func(i int, m *gearman.Message) error
}

func newEchoer(c *conn) *echoer {
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

func (a *echoer) Turn(l *drive.Lane) error {
	return a.c.batch(l, a.c.depth, a.c.depth, a.write, a.check)
}
