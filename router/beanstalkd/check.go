package beanstalkd

import (
	"bytes"
	"errors"
	"fmt"

	"polystalk/router/ops"
	"polystalk/shard/core"
)

// Handles returns the client's handles.
func (c *conn) Handles() *ops.Handles { return &c.handles }

// Used returns the tube that the client uses.
func (c *conn) Used() (t ops.Tube, ok bool) { return c.used, true }

// Watched returns the tubes that the client watches.
func (c *conn) Watched() (list []ops.Tube) {
	for i := range c.watched.Len() {
		list = append(list, c.front.host.Map.TubeOf(c.watched.Face(i)))
	}
	return list
}

// Numbered returns the id of the job that a put is about to make, and its shard; zero: there is
// none.
func (c *conn) Numbered() (id core.JobID, shard int) { return c.putID, c.used.Shard }

// CheckAtRest returns an error if the state of an idle connection is inconsistent.
func (c *conn) CheckAtRest() error {
	var errs []error
	if in := c.HeldInput(); c.parse == parseLine && !c.Stopped() && bytes.Contains(in, []byte(crlf)) {
		errs = append(errs, fmt.Errorf("idle with input held: %q", in))
	}
	if c.parse != readBody && (c.HasBody() || c.putID != 0) {
		errs = append(errs, fmt.Errorf("some of a body, or put %d, and none is read", c.putID))
	}
	if err := c.watched.Check(c.front.host.Map); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
