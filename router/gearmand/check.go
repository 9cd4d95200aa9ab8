package gearmand

import (
	"errors"
	"fmt"

	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// These methods are for checks of an idle server. The simulator finds them through interfaces.

// Handles returns the connection's handles.
func (c *conn) Handles() *ops.Handles { return &c.handles }

// Watched returns the functions for which the connection is a worker.
func (c *conn) Watched() (list []ops.Tube) {
	for i := range c.abilities.list {
		list = append(list, c.abilities.list[i].Tube)
	}
	return list
}

// HasMail reports whether a report or a NOOP is on its way to the connection.
func (c *conn) HasMail() bool { return c.mail.UnderWay() }

// Used returns no tube, because submissions name their functions.
func (c *conn) Used() (t ops.Tube, ok bool) { return t, false }

// Numbered returns no job, because the shard allocates the id of a submission.
func (c *conn) Numbered() (id core.JobID, shard int) { return 0, 0 }

// CheckAtRest returns an error if the state of an idle connection is inconsistent: no operation
// is pending or deferred, and every message was delivered.
func (c *conn) CheckAtRest() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.HasMail() {
		fail("its mail is under way at rest")
	}
	if e := &c.early; e.waits != noneWaits || e.first != nil || e.relays != 0 {
		fail("%d relays are delayed at rest (%d)", e.relays, e.waits)
	}
	if c.HasBody() && c.BodyLeft() == 0 {
		fail("a body that has come is kept at rest")
	}
	if counted := c.View().Roles&session.Sleeper != 0; counted != c.sleeping {
		fail("it sleeps: %v, and is counted so: %v", c.sleeping, counted)
	}
	if c.next != nil || c.list != nil {
		fail("it is to go on at rest: list %v", c.list)
	}
	for i := range c.abilities.list {
		if at := c.abilities.find([]byte(c.abilities.list[i].Name)); at != i {
			fail("function %q is number %d, and is found at %d", c.abilities.list[i].Name, i, at)
		}
	}
	return errors.Join(errs...)
}
