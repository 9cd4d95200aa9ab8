package beanstalkd

import "polystalk/router/session"

// Tell implements session.Teller.
func (c *conn) Tell(t *session.Client, names int) {
	t.Used = c.used.Name
	t.Watching = c.watched.Len()
	for i := range min(names, t.Watching) {
		t.Watched = append(t.Watched, c.watched.Face(i).Name())
	}
	t.Places = session.PlacesOf(&c.handles)
}

// Knows implements session.Teller.
func (c *conn) Knows(tube []byte) bool {
	return c.used.Name == string(tube) || c.watched.Find(tube) >= 0
}

// Holds implements session.Teller.
func (c *conn) Holds() bool { return c.handles.Hold() }
