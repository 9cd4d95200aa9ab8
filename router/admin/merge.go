package admin

import (
	"context"
	"maps"
	"slices"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/session"
)

// A merge makes one list of connections, in the order of their numbers, of those of the
// loops: a bounded part of each a turn, all loops at the same time.
type merge struct {
	q     *ConnectionQuery
	loops []stream
	rows  []session.Snapshot
}

// A stream is the connections of one loop that are wanted.
type stream struct {
	loop   *session.Loop
	rows   []session.Snapshot // not yet in the list
	upTo   uint64             // the number of the last that was looked at
	looked int
	over   bool // no more follow upTo
}

// run makes the list until it has all that there are, or the limit, or the time is over. It
// returns above which number the list goes on; zero: it is at its end.
func (m *merge) run(ctx context.Context, o *Operator, until time.Time) (next uint64, err error) {
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

// fill asks the loops of which no row is left for more.
func (m *merge) fill(ctx context.Context, o *Operator) error {
	type answer struct {
		s    *stream
		got  *stream // what the loop writes; ours once it is done
		done chan struct{}
	}
	var asked []answer
	for i := range m.loops {
		s := &m.loops[i]
		if len(s.rows) > 0 || s.over {
			continue
		}
		a := answer{s, &stream{loop: s.loop, upTo: s.upTo, looked: s.looked}, make(chan struct{})}
		asked = append(asked, a)
		s.loop.Do(func() {
			a.got.look(m.q)
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

// look looks at the next sessions; for who has the loop.
func (s *stream) look(q *ConnectionQuery) {
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

// take moves rows into the list, in order, as far as is known that none goes between them. It
// returns the number up to which the list is complete, and whether it is at its end.
func (m *merge) take() (upTo uint64, ended bool) {
	for {
		first := -1
		bound := ^uint64(0) // below it all are known
		for i := range m.loops {
			switch s := &m.loops[i]; {
			case len(s.rows) > 0:
				if first < 0 || s.rows[0].Number < m.loops[first].rows[0].Number {
					first = i
				}
			case !s.over:
				bound = min(bound, s.upTo)
			}
		}
		switch {
		case first < 0:
			return bound, bound == ^uint64(0)
		case m.loops[first].rows[0].Number > bound:
			return bound, false
		}
		s := &m.loops[first]
		m.rows = append(m.rows, s.rows[0])
		s.rows = s.rows[1:]
		if len(m.rows) == m.q.Limit {
			return m.rows[len(m.rows)-1].Number, m.left() == 0
		}
	}
}

// left is how many streams may have more.
func (m *merge) left() (n int) {
	for i := range m.loops {
		if s := &m.loops[i]; len(s.rows) > 0 || !s.over {
			n++
		}
	}
	return n
}

// turn gives the session of a number a turn for f, which gets nil if there is none, and waits
// for its end.
func (o *Operator) turn(ctx context.Context, number uint64, f func(*session.Session)) error {
	l := o.opts.Host.LoopOf(number)
	if l == nil {
		return noConnection(number)
	}
	done := make(chan struct{})
	l.SignalNumber(number, func(s *session.Session) {
		f(s)
		close(done)
	})
	if !o.await(ctx, done) {
		return loopsBusy()
	}
	return nil
}

// await waits until done is closed. It reports false when ctx has ended before that.
func (o *Operator) await(ctx context.Context, done <-chan struct{}) bool {
	for o.opts.Turn != nil && ctx.Err() == nil {
		select {
		case <-done:
			return true
		default:
			o.opts.Turn()
		}
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func loopsBusy() error { return wire.Busy.Problem("the event loops are late") }

// peers are the addresses of connections, by their numbers. Those that have gone are missing,
// and all that are asked for when the loops are late: the rest of an answer is good without.
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
