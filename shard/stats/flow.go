// Package stats holds counters that only grow. A Flow counts the jobs that pass through a
// tube and how long they took. A Histogram counts sizes and durations of rare work, such as
// one sync of the disk for many jobs. Nothing here reads a clock.
package stats

import "math/bits"

// FlowBuckets is the number of buckets of a histogram.
const FlowBuckets = 32

// FlowBound is the upper bound of a bucket in nanoseconds, which belongs to it: powers of two
// seconds from 2^-11, exactly, so that every scale by powers of two can be made of them.
// The last bucket, for which there is none, takes the rest.
func FlowBound(bucket int) (ns float64) { return flowUnit / 4.0 * float64(uint64(1)<<bucket) }

// flowUnit is 2^-9 s in nanoseconds, 10^9 / 2^9. The first bucket's bound is a quarter of it.
const flowUnit = 1953125

// FlowBucket returns the bucket of a length of time in nanoseconds. A negative one, which a clock
// that was set may leave behind, counts as zero.
func FlowBucket(ns int64) int {
	if ns <= flowUnit/4 {
		return 0 // of those that are served at once, most
	}
	if ns > 1<<60 {
		return FlowBuckets - 1
	}
	return min(bits.Len64((4*uint64(ns)-1)/flowUnit), FlowBuckets-1)
}

// unitsOf converts nanoseconds to the unit of sums, 1024 ns, so that
// there is room for six hundred thousand years.
func unitsOf(ns int64) uint64 { return uint64(max(0, ns)) >> 10 }

// An Event is something that happens to a job of a tube.
type Event int

// The events that a Flow counts. Puts and deletes are not among them: they are counted
// whether a client ever reserves from the tube or not.
const (
	Reserve Event = iota // it was given to a client; without those that Waited counts
	Release              // its client released it
	Bury
	Kick
	Timeout // its reservation ran out
	Return  // it came back because its client has left
	Flush   // it has ended by a flush
	Events  // the number of events
)

// counts are the numbers of a Flow.
type counts struct {
	wait   [FlowBuckets]uint32 // from ready to reserved
	run    [FlowBuckets]uint32
	events [Events]uint32
}

// A Flow is what one tube has counted. A count costs the same whatever there was. There may
// be one for each of very many tubes, so numbers are of 32 bits, and go on in the carry of
// those few tubes in which one was full. The zero value has seen nothing.
type Flow struct {
	waits, runs uint64 // sums; see unitsOf
	counts
	carry *counts
}

// Waited counts a job that was reserved after ns nanoseconds, here and in the totals of the core.
func (f *Flow) Waited(all *Totals, ns int64) {
	b, units := FlowBucket(ns), unitsOf(ns)
	f.waits += units
	all.waits += units
	all.wait[b]++
	if f.wait[b]++; f.wait[b] == 0 {
		f.carried().wait[b]++
	}
}

// Ran counts a reservation that has ended after ns nanoseconds, for any reason, here and in the
// totals of the core.
func (f *Flow) Ran(all *Totals, ns int64) {
	b, units := FlowBucket(ns), unitsOf(ns)
	f.runs += units
	all.runs += units
	all.run[b]++
	if f.run[b]++; f.run[b] == 0 {
		f.carried().run[b]++
	}
}

// Count counts an event.
func (f *Flow) Count(e Event) { f.CountN(e, 1) }

// CountN counts an event that has happened n times.
func (f *Flow) CountN(e Event, n int) {
	was := f.events[e]
	f.events[e] += uint32(n)
	if f.events[e] < was {
		f.carried().events[e]++
	}
}

// carried is what goes on where numbers were full.
//
//go:noinline
func (f *Flow) carried() *counts {
	if f.carry == nil {
		f.carry = new(counts)
	}
	return f.carry
}

// Of returns how often an event has happened.
func (f *Flow) Of(e Event) (n uint64) {
	if e == Reserve { // without a copy: it is asked of tens of thousands of tubes at a time
		for _, k := range f.wait {
			n += uint64(k)
		}
		if f.carry != nil {
			for _, k := range f.carry.wait {
				n += uint64(k) << 32
			}
		}
	}
	n += uint64(f.events[e])
	if f.carry != nil {
		n += uint64(f.carry.events[e]) << 32
	}
	return n
}

// Wait returns how long jobs were ready before they were reserved.
func (f *Flow) Wait() Times {
	t := timesOf(&f.wait, f.waits)
	if f.carry != nil {
		t.carry(&f.carry.wait)
	}
	return t
}

// Run returns how long reservations took.
func (f *Flow) Run() Times {
	t := timesOf(&f.run, f.runs)
	if f.carry != nil {
		t.carry(&f.carry.run)
	}
	return t
}

// Times are the counts of a histogram: of lengths of time, by bucket.
type Times struct {
	N   [FlowBuckets]uint64
	Sum float64 // nanoseconds
}

func timesOf(n *[FlowBuckets]uint32, sum uint64) (t Times) {
	for b := range t.N {
		t.N[b] = uint64(n[b])
	}
	t.Sum = float64(sum) * 1024
	return t
}

// carry adds what goes on from full buckets.
func (t *Times) carry(n *[FlowBuckets]uint32) {
	for b := range t.N {
		t.N[b] += uint64(n[b]) << 32
	}
}

// Count is how many lengths of time were counted.
func (t *Times) Count() (n uint64) {
	for _, k := range t.N {
		n += k
	}
	return n
}

// Add adds the counts of u, from another tube or core.
func (t *Times) Add(u *Times) {
	for b, n := range u.N {
		t.N[b] += n
	}
	t.Sum += u.Sum
}

// Sub subtracts the counts of u, an earlier reading of the same place.
func (t *Times) Sub(u *Times) {
	for b, n := range u.N {
		t.N[b] -= n
	}
	t.Sum -= u.Sum
}

// Quantile is the upper bound of the bucket in which the q-th of all lengths of time is, in
// nanoseconds, so at most twice too much; not ok if none was counted. In the last bucket it
// is that bucket's lower bound.
func (t *Times) Quantile(q float64) (ns float64, ok bool) {
	all := t.Count()
	if all == 0 {
		return 0, false
	}
	rank := uint64(q * float64(all))
	for b, n := range t.N[:FlowBuckets-1] {
		if rank < n || rank == n && q >= 1 && n == all {
			return FlowBound(b), true
		}
		rank -= n
		all -= n
	}
	return FlowBound(FlowBuckets - 2), true
}

// Totals is like a Flow for all tubes of a core together. There are few, so it has 64 bits.
type Totals struct {
	waits, runs uint64 // as in a Flow
	wait, run   [FlowBuckets]uint64
	events      [Events]uint64
}

// Count is Flow.Count.
func (f *Totals) Count(e Event) { f.events[e]++ }

// CountN is Flow.CountN.
func (f *Totals) CountN(e Event, n int) { f.events[e] += uint64(n) }

// Of is Flow.Of.
func (f *Totals) Of(e Event) (n uint64) {
	if e == Reserve {
		w := f.Wait()
		n = w.Count()
	}
	return n + f.events[e]
}

// Wait is Flow.Wait.
func (f *Totals) Wait() Times { return Times{f.wait, float64(f.waits) * 1024} }

// Run is Flow.Run.
func (f *Totals) Run() Times { return Times{f.run, float64(f.runs) * 1024} }
