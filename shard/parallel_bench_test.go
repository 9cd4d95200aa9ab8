package shard

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/shard/core"
)

// A hand stands for an event loop without a network: it goes round its clients and gives each one
// operation after the other, in place where the shard is free and by its inbox where it is not.
type hand struct {
	batch   Batch
	outbox  atomic.Pointer[core.Message]
	clients []*handClient
	ids     *atomic.Uint64
	start   time.Time
	left    int      // cycles still to do
	_       [48]byte // to whole cache lines
}

// A handClient puts, reserves and deletes on a tube of its own.
type handClient struct {
	shard  *Shard
	client core.ClientID
	tube   core.TubeID
	body   []byte
	msg    core.Message
	waits  bool // msg is under way
}

// Post implements Home.
func (h *hand) Post(m *core.Message) {
	for {
		head := h.outbox.Load()
		m.Next.Store(head)
		if h.outbox.CompareAndSwap(head, m) {
			return
		}
	}
}

const handTime = 1_700_000_000 * core.Second

// join gives h a client in a tube of that name.
func (h *hand) join(tb testing.TB, s *Shard, name string) {
	c := &handClient{shard: s, body: make([]byte, 64)}
	c.msg.Home, c.msg.Owner = h, c
	if !s.Own(&h.batch) {
		tb.Fatal("the shard is owned")
	}
	var r core.Reply
	s.Apply(&h.batch, &core.Op{Kind: core.OpJoin, Name: []byte(name), Waiter: new(core.Waiter)}, &r)
	c.client, c.tube = r.Client, r.Tube
	s.Release(&h.batch)
	h.clients = append(h.clients, c)
}

// run does h.left cycles.
func (h *hand) run() {
	for h.left > 0 {
		h.batch.Now = handTime + core.Time(time.Since(h.start))
		for _, c := range h.clients {
			if !c.waits {
				h.step(c)
			}
		}
		h.take()
	}
	// What is under way comes back before the hand goes.
	for _, c := range h.clients {
		for c.waits {
			h.take()
			if c.waits {
				yield()
			}
		}
	}
}

// step gives c its next operation.
func (h *hand) step(c *handClient) {
	op := &c.msg.Op
	switch op.Kind {
	case core.OpPut:
		*op = core.Op{Kind: core.OpReserve, Client: c.client, Bound: core.MaxKey}
	case core.OpReserve:
		*op = core.Op{Kind: core.OpDelete, Client: c.client, ID: c.msg.Reply.ID}
	default:
		*op = core.Op{Kind: core.OpPut, Client: c.client, Tube: c.tube, ID: core.JobID(h.ids.Add(1)), Pri: 1 << 31, TTR: 60, Body: c.body}
	}
	if !c.shard.Own(&h.batch) {
		c.waits = true
		c.msg.Keep()
		c.shard.Send(&h.batch, &c.msg)
		return
	}
	c.shard.Apply(&h.batch, op, &c.msg.Reply)
	c.shard.Release(&h.batch)
	h.done(c)
}

// take takes back what others, and h itself in passing, ran for h's clients.
func (h *hand) take() {
	if h.outbox.Load() != nil {
		for m := h.outbox.Swap(nil); m != nil; {
			next := m.Next.Load()
			m.Next.Store(nil)
			h.back(m)
			m = next
		}
	}
	for i := 0; i < len(h.batch.Local); i++ {
		h.back(h.batch.Local[i])
	}
	h.batch.Local = h.batch.Local[:0]
}

func (h *hand) back(m *core.Message) {
	c := m.Owner.(*handClient)
	c.waits = false
	h.done(c)
	m.Done()
}

func (h *hand) done(c *handClient) {
	want := core.StatusOK
	if c.msg.Op.Kind == core.OpReserve {
		want = core.StatusReserved
	}
	if got := c.msg.Reply.Status; got != want {
		panic(fmt.Sprintf("operation %d: status %d, want %d", c.msg.Op.Kind, got, want))
	}
	if c.msg.Op.Kind == core.OpDelete {
		h.left--
	}
}

// BenchmarkHands is put, reserve and delete with ownership and inboxes, by one
// and by two goroutines with 64 tubes each over 8 shards. Busy is the share of
// visits that found the shard owned.
//
//	apart    no shard has tubes of both
//	spread   everybody's tubes are in all shards
//	counter  apart, but job ids come from one counter, as the router has it
func BenchmarkHands(b *testing.B) {
	for _, mode := range []string{"apart", "spread", "counter"} {
		for _, n := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/goroutines=%d", mode, n), func(b *testing.B) { benchmarkHands(b, mode, n) })
		}
	}
}

// padded is a counter with its cache lines to itself.
type padded struct {
	_ [128]byte
	n atomic.Uint64
	_ [128]byte
}

func benchmarkHands(b *testing.B, mode string, n int) {
	const shards, tubes = 8, 64
	start := time.Now()
	all := make([]*Shard, shards)
	for i := range all {
		all[i] = New(i, core.New(nil), func(b *Batch) { b.Now = handTime + core.Time(time.Since(start)) })
		defer all[i].Close()
	}
	ids := make([]padded, n)
	hands := make([]*hand, n)
	for i := range hands {
		h := &hand{ids: &ids[i].n, start: start}
		if mode == "counter" {
			h.ids = &ids[0].n
		} else {
			h.ids.Store(uint64(i) << 40)
		}
		h.batch.Home, h.batch.Now = h, handTime
		for t := range tubes {
			sh := t % shards
			if mode != "spread" {
				sh = (t*n + i) % shards
			}
			h.join(b, all[sh], fmt.Sprintf("tube-%d-%d", i, t))
		}
		hands[i] = h
	}
	for _, s := range all {
		s.Start()
		defer s.Stop()
	}
	cycles := func(count int) {
		var wg sync.WaitGroup
		for i, h := range hands {
			h.left = count / n
			if i < count%n {
				h.left++
			}
			wg.Go(h.run)
		}
		wg.Wait()
	}
	cycles(1000 * n) // once with cold slabs
	b.ReportAllocs()
	b.ResetTimer()
	cycles(b.N)
	b.StopTimer()
	var visits, busy uint64
	for _, h := range hands {
		visits += h.batch.Visits
		busy += h.batch.Busy
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
	b.ReportMetric(100*float64(busy)/float64(visits+busy), "%busy")
}
