package access

import (
	"sync"
	"time"
)

const (
	denialsMax    = 128
	denialsWithin = time.Minute // refusals of the same kind within it are one entry
)

// A Denial is a group of refusals of the same verb on the same tube to the same identity.
type Denial struct {
	Identity    string
	Verb        Verbs
	Tube        string // empty: the server
	Count       uint64
	First, Last time.Time
	Peer        string // the client that was refused last
}

// Denials are the newest refusals, at most denialsMax. The zero value has none. All methods may be
// called concurrently.
type Denials struct {
	mu   sync.Mutex
	ring [denialsMax]Denial
	next int // index of the oldest entry, which the next one replaces
}

// Add records a refusal. The peer is called only for a new entry, or once a second for an old one,
// so that a client that is refused often costs little.
func (d *Denials) Add(c *Credential, verb Verbs, tube []byte, now time.Time, peer func() string) {
	name := c.Name()
	c.Identity().deny(verb)
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range d.ring {
		e := &d.ring[(d.next-1-k+2*denialsMax)%denialsMax] // newest first
		if e.Count == 0 {
			break
		}
		if e.Verb == verb && e.Tube == string(tube) && e.Identity == name && now.Sub(e.First) < denialsWithin {
			e.Count++
			if now.Sub(e.Last) >= time.Second {
				e.Peer = peer()
			}
			e.Last = now
			return
		}
	}
	d.ring[d.next] = Denial{Identity: name, Verb: verb, Tube: string(tube), Count: 1, First: now, Last: now, Peer: peer()}
	d.next = (d.next + 1) % denialsMax
}

// All returns the entries, newest first.
func (d *Denials) All() (all []Denial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range d.ring {
		if e := d.ring[(d.next-1-k+2*denialsMax)%denialsMax]; e.Count > 0 {
			all = append(all, e)
		}
	}
	return all
}
