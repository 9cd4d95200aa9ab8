package admin

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"polystalk/router/session"
)

// Limits of the work in one turn of a loop, which takes about 50 µs for any number of connections.
const (
	turnLooks = 256 // sessions to examine
	turnShows = 32  // sessions to list
	// showUnits is the cost of a listed session in the units of session.Loop: it needs a system
	// call for the address of its peer.
	showUnits = 4
)

// A loopPage has connections of one loop.
type loopPage struct {
	rows   []session.Snapshot // to list
	looked []uint64           // the numbers of all examined sessions
	upTo   uint64             // all sessions up to this number were examined
	done   chan struct{}      // closed when the loop has filled the page
}

// fill adds the next connections. The caller must hold the loop.
func (p *loopPage) fill(l *session.Loop, q *ConnectionQuery, above uint64) {
	for s := range l.Sessions(above) {
		l.Spend(1)
		p.looked = append(p.looked, s.Number())
		if q.wants(s) {
			p.rows = append(p.rows, s.Snapshot(namesShown))
			l.Spend(showUnits)
		}
		if len(p.looked) == turnLooks || len(p.rows) == turnShows {
			p.upTo = s.Number()
			return
		}
	}
	p.upTo = math.MaxUint64
}

// nextConnections returns the connections that q wants, with numbers after above and up to next,
// sorted by number. next is MaxUint64 at the end of the list. It examines a bounded number of
// connections of each loop, on all loops at the same time.
func (o *Operator) nextConnections(ctx context.Context, q *ConnectionQuery, above uint64) (rows []session.Snapshot, looked int, next uint64, err error) {
	loops := o.opts.Host.Loops()
	pages := make([]loopPage, len(loops))
	for i, l := range loops {
		p := &pages[i]
		p.done = make(chan struct{})
		l.Do(func() {
			p.fill(l, q, above)
			close(p.done)
		})
	}
	next = math.MaxUint64
	for i := range pages {
		if !o.await(ctx, pages[i].done) {
			return nil, 0, 0, loopsBusy()
		}
		next = min(next, pages[i].upTo)
	}
	for i := range pages {
		for _, r := range pages[i].rows {
			if r.Number <= next {
				rows = append(rows, r)
			}
		}
		for _, n := range pages[i].looked {
			if n <= next {
				looked++
			}
		}
	}
	slices.SortFunc(rows, func(a, b session.Snapshot) int { return cmp.Compare(a.Number, b.Number) })
	return rows, looked, next, nil
}

// peers returns the addresses of connections by number. Closed connections are missing. If the
// loops are late, more are missing, since the reply is useful without them.
func (o *Operator) peers(ctx context.Context, numbers []uint64) map[uint64]string {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	byLoop := make(map[*session.Loop][]uint64)
	for _, n := range numbers {
		if l := o.opts.Host.LoopOf(n); l != nil {
			byLoop[l] = append(byLoop[l], n)
		}
	}
	all := make(map[uint64]string)
	for l, list := range byLoop {
		for part := range slices.Chunk(list, turnShows) {
			got := make(map[uint64]string)
			done := make(chan struct{})
			l.Do(func() {
				for _, n := range part {
					if s := l.Session(n); s != nil {
						got[n] = session.PeerName(s.Peer())
						l.Spend(showUnits)
					}
				}
				close(done)
			})
			if !o.await(ctx, done) {
				return all
			}
			maps.Copy(all, got)
		}
	}
	return all
}
