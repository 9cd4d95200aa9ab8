package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/router/session"
)

// Tell implements session.Teller. An id that is not the client's own is none.
func (c *conn) Tell(t *session.Client, names int) {
	if id := string(c.entry.id); id != gearman.DefaultClientID { // which this loop alone changes
		t.ID = id
	}
	t.Watching = len(c.abilities.list)
	for i := range min(names, t.Watching) {
		t.Watched = append(t.Watched, c.abilities.list[i].Name)
	}
	t.Places = session.PlacesOf(&c.handles)
}

// Knows implements session.Teller: submissions name their functions, so it uses none.
func (c *conn) Knows(function []byte) bool { return c.abilities.find(function) >= 0 }

// Holds implements session.Teller.
func (c *conn) Holds() bool { return c.handles.Hold() }
