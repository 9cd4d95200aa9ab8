package gearmand

import (
	"errors"
	"fmt"

	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// These methods are for checks of a server at rest, as by the simulator, which finds them
// through interfaces of its own.

// Handles are the connection as the shards know it.
func (c *conn) Handles() *ops.Handles { return &c.handles }

// Watched are the functions for which the connection is a worker.
func (c *conn) Watched() (list []ops.Tube) {
	for i := range c.abilities.list {
		list = append(list, c.abilities.list[i].Tube)
	}
	return list
}

// HasMail reports that something about its jobs, or a NOOP, is under way to it.
func (c *conn) HasMail() bool { return c.mail.UnderWay() }

// Used is no tube: submissions name their functions.
func (c *conn) Used() (t ops.Tube, ok bool) { return t, false }

// Numbered is no job: a submission has its id from the shard.
func (c *conn) Numbered() (id core.JobID, shard int) { return 0, 0 }

// CheckAtRest looks for what cannot be when nothing is left to do: no operation is under
// way or put off, and every message was delivered.
func (c *conn) CheckAtRest() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.HasMail() {
		fail("its mail is under way at rest")
	}
	if e := &c.early; e.waits != noneWaits || e.first != nil || e.relays != 0 {
		fail("%d relays are kept back at rest (%d)", e.relays, e.waits)
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
