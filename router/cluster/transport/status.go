package transport

import (
	"cmp"
	"slices"
	"time"
)

// A PeerStatus is how it stands between this node and another one. Counts are since the
// start, or since the other is known.
type PeerStatus struct {
	Member
	IsMember    bool   // else it has come, and this node does not know of it
	ConnectedTo bool   // this node can send to it
	Hears       bool   // it has a connection to this node
	Trouble     string // why this node is not connected to it; empty: it is, or tries for the first time

	Queued, QueuedBytes                      int // not sent yet
	Sent, SentBytes, Received, ReceivedBytes uint64
	Dropped                                  uint64 // messages that were not sent
	Connects                                 uint64

	// ClockAhead is how far its clock is ahead of this one's, less what a message is
	// under way; ClockSamples is how often it has told its time on this connection.
	ClockAhead   time.Duration
	ClockSamples int

	// CertificateUntil is until when the certificate is valid that it showed when this node last
	// connected to it; zero: it has shown none.
	CertificateUntil time.Time

	// Room is how many bytes it had room for when it last said so; nil: it never has.
	Room *int64
}

// Status tells of all other nodes, by their names.
func (t *Transport) Status() []PeerStatus {
	t.mu.RLock()
	list := make([]PeerStatus, 0, len(t.peers))
	for _, p := range t.peers {
		s := p.status()
		s.IsMember = !p.isGuest
		list = append(list, s)
	}
	t.mu.RUnlock()
	slices.SortFunc(list, func(a, b PeerStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	return list
}

func (p *peer) status() PeerStatus {
	var s PeerStatus
	p.mu.Lock()
	s.Member, s.ConnectedTo, s.Trouble = p.member, p.conn != nil, p.loss.text
	s.CertificateUntil = p.until
	p.mu.Unlock()
	p.inbound.mu.Lock()
	s.Hears = p.inbound.conn != nil
	if p.inbound.rooms {
		s.Room = new(p.inbound.room)
	}
	p.inbound.mu.Unlock()
	s.ClockAhead, s.ClockSamples = p.inbound.offset()
	p.out.mu.Lock()
	s.Queued, s.QueuedBytes = p.out.n, p.out.bytes
	p.out.mu.Unlock()
	c := &p.count
	s.Sent, s.SentBytes, s.Received, s.ReceivedBytes = c.sent.Load(), c.sentBytes.Load(), c.received.Load(), c.receivedBytes.Load()
	s.Dropped, s.Connects = c.dropped.Load(), c.connects.Load()
	return s
}
