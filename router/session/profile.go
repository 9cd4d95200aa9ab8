package session

import (
	"net"

	"polystalk/router/ops"
	"polystalk/shard/core"
)

// A Profile is what a session is like at a moment, for operators. It is a copy, and whoever
// asked may keep it.
type Profile struct {
	Number uint64
	Front  Front
	Peer   net.Addr // nil: it cannot be told

	Life  string // Ready, busy, Waiting or closing
	Stops Stops
	Roles Roles

	Open core.Time // how long it has been
	Last int       // the kind of its last command, as it was counted; -1: there was none
	Idle core.Time // how long ago that came, to a millisecond

	In, Out      uint64 // bytes that it has brought, and that it was said
	Held, Unsent int    // bytes of those that were not used yet, and that have not left

	Client Client
}

// The lives of a Profile by which it is told what its client does.
var (
	Ready   = ready.String()
	Waiting = waiting.String()
)

// A Client is what a protocol tells of the other end of a connection.
type Client struct {
	ID       string   // by which it calls itself; empty: it does not
	Used     string   // the tube into which it puts
	Watched  []string // tubes that it watches, or functions that it works for: the first ones
	Watching int      // how many those are
	Places   []Place
}

// A Place is a client as one shard knows it.
type Place struct {
	Shard  int
	Client core.ClientID
	Held   uint32 // jobs that it has reserved there, as last heard: too high when one ran out
}

// PlacesOf are those of the client that has these handles.
func PlacesOf(h *ops.Handles) (list []Place) {
	for i := range h.Len() {
		k := h.At(i)
		list = append(list, Place{k.Shard(), k.Client, k.Held})
	}
	return list
}

// A Teller is a Protocol that tells operators of its client. It is called by who has the
// loop, at any time.
type Teller interface {
	// Tell fills a Client in, with the names of at most so many tubes.
	Tell(c *Client, names int)
	// Knows reports whether the client uses or watches the tube, or works for the function.
	Knows(tube []byte) bool
	// Holds reports whether it may have jobs reserved: it has unless they ran out since.
	Holds() bool
}

// Profile tells what the session is like, with the names of at most so many tubes; for who
// has the loop.
func (s *Session) Profile(names int) Profile {
	n, now := &s.notes, s.loop.batch.Now
	p := Profile{
		Number: n.number, Front: s.Front(), Peer: PeerOf(s.conn),
		Life: s.life.String(), Stops: s.stops, Roles: s.roles &^ waits,
		Open: now - n.since, In: n.in, Out: n.out, Held: s.held(), Unsent: s.Unsent(),
	}
	var at core.Time
	if p.Last, at = n.lastCommand(); p.Last >= 0 {
		p.Idle = min(now-at, p.Open)
	}
	if t, ok := s.proto.(Teller); ok {
		t.Tell(&p.Client, names)
	}
	return p
}

// Peer is the other end of the session's connection, nil if it cannot be told; for who has the
// loop.
func (s *Session) Peer() net.Addr { return PeerOf(s.conn) }

// Teller tells of the session's client, nil if its protocol does not.
func (s *Session) Teller() Teller {
	t, _ := s.proto.(Teller)
	return t
}
