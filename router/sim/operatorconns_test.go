package sim

import (
	"context"
	"fmt"

	"polystalk/router/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

// sock returns a socket that has a session, which may be closing, or nil.
func (b *operatorClient) sock() *sock {
	var open []*sock
	for _, k := range b.c.w.socks {
		if !k.s.Gone() {
			open = append(open, k)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return open[b.rng.IntN(len(open))]
}

// kill has a client go, whatever it is doing. That nothing is lost by that, and nobody keeps
// what it held, is checked as for all that vanish.
func (b *operatorClient) kill(*direct.Caller) error {
	k := b.sock()
	if k == nil || b.rng.IntN(3) > 0 {
		return nil // not too many
	}
	if k.broken || k.Ended {
		b.c.seen["killed while it closed"]++
	}
	number := k.doom()
	err := b.o.Admin.KillConnection(context.Background(), number)
	switch {
	case err != nil: // it has gone by itself, or this machine is so busy that real time was up
		return refusal(err, "not-found", "busy", "uncertain")
	case !k.s.Gone() || !k.Ended && !k.broken:
		return fmt.Errorf("connection %d is killed, and is not gone: %v, closed %v", number, k.s.Gone(), k.Ended)
	}
	b.c.seen["killed"]++
	if err := b.o.Admin.KillConnection(context.Background(), number); refusal(err, "not-found", "busy") != nil || err == nil {
		return fmt.Errorf("connection %d is killed twice: %v", number, err)
	}
	return nil
}

// connections shows each that is there all the time exactly once, in the order of their
// numbers, and none twice.
func (b *operatorClient) connections(*direct.Caller) error {
	var present []*sock
	for _, k := range b.c.w.socks {
		if !k.s.Gone() {
			present = append(present, k)
		}
	}
	q := &admin.ConnectionQuery{Limit: 1 + b.rng.IntN(4)}
	shown := map[uint64]bool{}
	for above, more := uint64(0), true; more; {
		p, err := b.o.Admin.Connections(context.Background(), q, above)
		if err != nil {
			return err
		}
		if len(p.Rows) > q.Limit {
			return fmt.Errorf("%d connections are shown, at most %d are wanted", len(p.Rows), q.Limit)
		}
		for _, row := range p.Rows {
			if row.Number <= above || p.Next != 0 && row.Number > p.Next {
				return fmt.Errorf("connection %d is shown between %d and %d", row.Number, above, p.Next)
			}
			if shown[row.Number] {
				return fmt.Errorf("connection %d is shown twice", row.Number)
			}
			shown[row.Number] = true
		}
		above, more = p.Next, p.Next != 0
		for more && b.rng.IntN(2) == 0 {
			b.o.turn()
		}
	}
	b.c.seen["connected"] += len(shown)
	for _, k := range present {
		if n := k.s.Number(); !k.s.Gone() && !shown[n] {
			return fmt.Errorf("connection %d is not shown", n)
		}
	}
	return nil
}

// connection looks at one, and at what it holds.
func (b *operatorClient) connection(*direct.Caller) error {
	k := b.sock()
	if k == nil {
		return nil
	}
	number := k.s.Number()
	v, held, err := b.o.Admin.Connection(context.Background(), number)
	if err != nil {
		if !k.s.Gone() {
			return err
		}
		return refusal(err, "not-found")
	}
	if v.Number != number {
		return fmt.Errorf("connection %d is shown for %d", v.Number, number)
	}
	for i := range held {
		if j := &held[i]; j.State != core.Reserved || j.Conn != number {
			return fmt.Errorf("connection %d is shown to hold %+v", number, j.JobRow)
		}
	}
	return nil
}
