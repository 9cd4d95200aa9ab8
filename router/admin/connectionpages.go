package admin

import (
	"context"
	"maps"
	"slices"
	"time"

	"polystalk/router/session"
)

// The work in one turn of a loop: about 50 microseconds, however many connections there are.
const (
	turnLooks = 256 // sessions to look at
	turnShows = 32  // sessions to show
	// showUnits is what a shown session costs in the units of session.Loop, since the system is
	// asked for the address of its peer.
	showUnits = 4
)

// A connectionMerge merges the connections of all loops into a page, sorted by number. Each
// loop contributes a bounded number in each turn, all loops at the same time.
type connectionMerge struct {
	q     *ConnectionQuery
	loops []stream
	rows  []session.Snapshot
}

// A stream has the connections of one loop to list.
type stream struct {
	loop   *session.Loop
	rows   []session.Snapshot // not yet on the page
	upTo   uint64             // the number of the last connection that was looked at
	looked int
	over   bool // no connections follow upTo
}

// run fills the page until it has all connections, or the limit, or the time is over. It
// returns the number above which the list goes on; zero: this is the end.
func (m *connectionMerge) run(ctx context.Context, o *Operator, until time.Time) (next uint64, err error) {
	for {
		start := time.Now()
		if err := m.fill(ctx, o); err != nil {
			return 0, err
		}
		last, ended := m.take()
		switch {
		case ended:
			return 0, nil
		case len(m.rows) == m.q.Limit || time.Now().After(until):
			return last, nil
		}
		o.rest(start)
	}
}

// fill asks all loops without rows for more.
func (m *connectionMerge) fill(ctx context.Context, o *Operator) error {
	type reply struct {
		s    *stream
		got  *stream // the loop writes it, until done is closed
		done chan struct{}
	}
	var asked []reply
	for i := range m.loops {
		s := &m.loops[i]
		if len(s.rows) > 0 || s.over {
			continue
		}
		a := reply{s, &stream{loop: s.loop, upTo: s.upTo, looked: s.looked}, make(chan struct{})}
		asked = append(asked, a)
		s.loop.Do(func() {
			a.got.read(m.q)
			close(a.done)
		})
	}
	for _, a := range asked {
		if !o.await(ctx, a.done) {
			return loopsBusy()
		}
		*a.s = *a.got
	}
	return nil
}

// read looks at the next sessions. The caller must hold the loop.
func (s *stream) read(q *ConnectionQuery) {
	n := 0
	for k := range s.loop.Sessions(s.upTo) {
		s.loop.Spend(1)
		s.upTo = k.Number()
		s.looked++
		if q.wants(k) {
			s.rows = append(s.rows, k.Snapshot(namesShown))
			s.loop.Spend(showUnits)
		}
		if n++; n == turnLooks || len(s.rows) == turnShows {
			return
		}
	}
	s.over = true
}

// take moves rows to the page, in order, as long as no unknown connection can belong between
// them. It returns the number up to which the page is complete, and whether the list ends.
func (m *connectionMerge) take() (upTo uint64, ended bool) {
	for {
		first := -1
		bound := ^uint64(0) // all connections below are known
		left := 0           // streams that may have more
		for i := range m.loops {
			s := &m.loops[i]
			if len(s.rows) > 0 {
				if first < 0 || s.rows[0].Number < m.loops[first].rows[0].Number {
					first = i
				}
			} else if !s.over {
				bound = min(bound, s.upTo)
			} else {
				continue
			}
			left++
		}
		switch {
		case len(m.rows) > 0 && len(m.rows) == m.q.Limit:
			return m.rows[len(m.rows)-1].Number, left == 0
		case first < 0:
			return bound, bound == ^uint64(0)
		case m.loops[first].rows[0].Number > bound:
			return bound, false
		}
		s := &m.loops[first]
		m.rows = append(m.rows, s.rows[0])
		s.rows = s.rows[1:]
	}
}

// peers returns the addresses of connections by number. Closed connections are missing, and
// all further ones if the loops are late: the rest of the reply is useful without them.
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
