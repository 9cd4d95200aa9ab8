package beanstalkd

import "polystalk/loadtest/drive"

// A deleter deletes the jobs that its connection has reserved, as part of a
// phase: those of ids, or the first of them.
type deleter struct {
	c     *conn
	ids   []uint64
	write func(i int)
	check func(i int, r *reply) error
}

func newDeleter(c *conn, n int) *deleter {
	a := &deleter{c: c, ids: make([]uint64, n)}
	// Made once: a closure per batch would be garbage per batch.
	a.write = func(i int) { c.numbered("delete", a.ids[i]) }
	a.check = func(_ int, r *reply) error { return c.expect("delete", kindDeleted, r) }
	return a
}

// delete deletes the first n of ids.
func (a *deleter) delete(l *drive.Lane, n int) error { return a.c.batch(l, n, a.write, a.check) }

// deleteAll deletes jobs by id, many at a time, outside any measurement.
func (c *conn) deleteAll(ids []uint64) error {
	for len(ids) > 0 {
		n := min(len(ids), 256)
		for _, id := range ids[:n] {
			c.numbered("delete", id)
		}
		if err := c.Flush(); err != nil {
			return err
		}
		for range n {
			r, err := c.read()
			if err != nil {
				return err
			}
			if err := c.expect("delete", kindDeleted, r); err != nil {
				return err
			}
		}
		ids = ids[n:]
	}
	return nil
}
