package router_test

import (
	"fmt"
	"strconv"
	"testing"

	"polystalk/router"
	"polystalk/router/routertest"
)

// A cycler is a client that puts, reserves and deletes in its own tube, several commands at a time.
// It deletes the jobs of its previous turn.
type cycler struct {
	c     discard
	s     *routertest.Session
	input []byte
	held  []int // ids
}

// A discard is a connection that keeps only the length of its output.
type discard struct {
	testConn
	n int
}

func (d *discard) Write(p []byte) { d.n += len(p) }

// turn sends jobs puts, reserves and deletes. The next put gets id.
func (c *cycler) turn(jobs, id int) {
	b := c.input[:0]
	for i := range jobs {
		b = append(b, "put 0 0 60 64\r\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\nreserve\r\n"...)
		if i < len(c.held) {
			b = append(b, "delete "...)
			b = strconv.AppendInt(b, int64(c.held[i]), 10)
			b = append(b, "\r\n"...)
		}
	}
	c.input = b
	c.held = c.held[:0]
	for i := range jobs {
		c.held = append(c.held, id+i)
	}
	c.s.Session.Loop().Input(c.s.Session, b) // unlike Input of a Driven, without a walk over all sessions
}

// benchmarkCycle measures the average cost of a command without the network. The clients take turns;
// each turn processes the given number of jobs.
func benchmarkCycle(b *testing.B, clients, jobs int) {
	f := newFixture(b, router.Config{Shards: 1})
	all := make([]*cycler, clients)
	id := 1
	for i := range all {
		c := &cycler{}
		c.c.f = f
		c.s = f.l.Open(&c.c)
		c.s.Input(fmt.Appendf(nil, "use own.%d\r\nwatch own.%d\r\nignore default\r\n", i, i))
		all[i] = c
	}
	turns := 0
	next := func() {
		f.now += 2000
		all[turns%clients].turn(jobs, id)
		turns++
		id += jobs
		for f.asked {
			f.round()
		}
	}
	for range 10 * clients {
		next()
	}
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(3*jobs*b.N), "ns/command")
	b.StopTimer()
	var left int
	for _, sh := range f.d.Shards() {
		for range sh.Jobs() {
			left++
		}
	}
	if left != jobs*clients {
		b.Fatalf("%d jobs are there, not %d", left, jobs*clients)
	}
}

func BenchmarkCycle(b *testing.B) {
	for _, clients := range []int{1, 50, 1000} {
		for _, jobs := range []int{1, 5} {
			b.Run(fmt.Sprintf("clients=%d/jobs=%d", clients, jobs), func(b *testing.B) { benchmarkCycle(b, clients, jobs) })
		}
	}
}
