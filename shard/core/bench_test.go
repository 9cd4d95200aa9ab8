package core

import (
	"fmt"
	"polystalk/shard/record"
	"testing"
	"time"
)

// bench is a core with one client that uses and watches "default".
type bench struct {
	*Core
	now    Time
	client ClientID
	tube   TubeID
	last   JobID
	put    Op
	take   Op
	del    Op
	reply  Reply
}

func newBench(tb testing.TB) *bench {
	b := &bench{Core: New(nil), now: 1_700_000_000 * Second}
	b.Pin("default")
	b.Apply(b.now, &Op{Kind: OpJoin, Name: []byte("default"), Waiter: new(Waiter)}, &b.reply)
	b.client, b.tube = b.reply.Client, b.reply.Tube
	b.put = Op{Kind: OpPut, Client: b.client, Tube: b.tube, Pri: 1 << 31, TTR: 60, Body: make([]byte, 64)}
	b.take = Op{Kind: OpReserve, Client: b.client, Bound: MaxKey}
	b.del = Op{Kind: OpDelete, Client: b.client}
	tb.Cleanup(b.Close)
	return b
}

// do applies op a microsecond later and wants status.
func (b *bench) do(op *Op, want Status) {
	b.now += 1000
	b.Apply(b.now, op, &b.reply)
	if b.reply.Status != want {
		panic(fmt.Sprintf("operation %d: status %d, want %d", op.Kind, b.reply.Status, want))
	}
}

func (b *bench) putOne() {
	b.last++
	b.put.ID = b.last
	b.do(&b.put, StatusOK)
}

func (b *bench) cycle() {
	b.putOne()
	b.do(&b.take, StatusReserved)
	b.del.ID = b.reply.ID
	b.do(&b.del, StatusOK)
}

// BenchmarkCycle puts, reserves and deletes a job.
func BenchmarkCycle(tb *testing.B) {
	random := func(b *bench) { b.put.Pri = b.put.Pri*1664525 + 1013904223 }
	for _, tc := range []struct {
		name    string
		prepare func(b *bench)
		each    func(b *bench) // before each put
	}{
		{name: "alone"},
		{name: "policy", prepare: func(b *bench) { // every option is set, and none takes effect
			b.do(&Op{Kind: opSetPolicies, Operator: &OperatorOp{policies: NewPolicies([]record.Policy{{
				Match: "*", Attempts: 100, Backoff: 1, BackoffMax: 10, TTL: 1 << 30, MaxJobs: 1 << 40, MaxBytes: 1 << 40,
				RunningPlus: 1 << 40, ThousandthsASecond: 1e9, Burst: 1e6, BuriedTTL: 1 << 30, MaxBuried: 1 << 30,
			}})}}, StatusOK)
			b.Classify(0)
		}},
		{name: "idle-tubes", prepare: func(b *bench) { // with one delayed job each
			for i := range 50_000 {
				b.do(&Op{Kind: OpUse, Name: fmt.Appendf(nil, "idle%d", i)}, StatusOK)
				b.last++
				b.do(&Op{Kind: OpPut, Tube: b.reply.Tube, ID: b.last, Delay: 1 << 30, TTR: 60}, StatusOK)
			}
		}},
		{name: "held-reservations", prepare: func(b *bench) { // by the client itself
			b.put.TTR = 1 << 30
			for range 40_000 {
				b.putOne()
				b.do(&b.take, StatusReserved)
			}
		}},
		{name: "holding-clients", prepare: func(b *bench) { // with one job each
			for range 40_000 {
				b.putOne()
				b.do(&Op{Kind: OpReserveJob, ID: b.last, Waiter: new(Waiter)}, StatusReserved)
			}
		}},
		{name: "million-ready", prepare: func(b *bench) {
			for range 1_000_000 {
				b.putOne()
			}
		}},
		{name: "million-scattered", each: random, prepare: func(b *bench) { // so that the heap is walked to its full depth
			for range 1_000_000 {
				random(b)
				b.putOne()
			}
		}},
	} {
		tb.Run(tc.name, func(tb *testing.B) {
			b := newBench(tb)
			if tc.prepare != nil {
				tc.prepare(b)
			}
			for range 1000 {
				b.cycle()
			}
			tb.ReportAllocs()
			for tb.Loop() {
				if tc.each != nil {
					tc.each(b)
				}
				b.cycle()
			}
		})
	}
}

// BenchmarkCycleMade is BenchmarkCycle with one Op for all, as a session has.
func BenchmarkCycleMade(tb *testing.B) {
	b := newBench(tb)
	body := make([]byte, 64)
	op := new(Op)
	tb.ReportAllocs()
	for tb.Loop() {
		b.last++
		op.Put(b.tube, b.last, 1<<31, 0, 60, body, nil)
		b.do(op, StatusOK)
		op.Reserve(b.client)
		b.do(op, StatusReserved)
		op.Delete(b.client, b.reply.ID)
		b.do(op, StatusOK)
	}
}

// BenchmarkHandOver gives each job to a client that already waits.
func BenchmarkHandOver(tb *testing.B) {
	b := newBench(tb)
	w := new(Waiter)
	b.do(&Op{Kind: OpWatch, Name: []byte("default"), Waiter: w}, StatusOK)
	take := Op{Kind: OpReserve, Client: b.reply.Client, Bound: MaxKey, Wait: true, Until: Never}
	b.del.Client = take.Client
	var woken []*Waiter
	tb.ReportAllocs()
	for tb.Loop() {
		take.Seq = w.Arm()
		b.do(&take, StatusWaiting)
		b.putOne()
		woken = b.TakeWoken(woken[:0])
		b.del.ID = woken[0].Msg.Reply.ID
		woken[0].Msg.Done()
		b.do(&b.del, StatusOK)
	}
}

// BenchmarkExpire makes a batch of delayed jobs ready, per job.
func BenchmarkExpire(tb *testing.B) {
	b := newBench(tb)
	b.put.Delay = 1
	kick := Op{Kind: OpDelete}
	tb.ReportAllocs()
	for tb.Loop() {
		b.putOne()
		b.now += 2 * Second
		b.Expire(b.now)
		kick.ID = b.last
		b.do(&kick, StatusOK)
	}
}

// BenchmarkFlush measures the visit that flushes a million ready jobs, and a visit that collects
// a part of them.
func BenchmarkFlush(tb *testing.B) {
	for _, recorded := range []bool{false, true} {
		name := "unrecorded"
		if recorded {
			name = "recorded"
		}
		tb.Run(name, func(tb *testing.B) { flushMany(tb, recorded) })
	}
}

func flushMany(tb *testing.B, recorded bool) {
	const jobs = 1 << 20
	var flush, collect time.Duration
	runs, parts := 0, 0
	for tb.Loop() {
		tb.StopTimer()
		b := newBench(tb)
		var buf record.Buffer
		if buf.Commit = 1; recorded {
			b.RecordTo(&buf)
		}
		for range jobs {
			b.put.Pri = uint32(b.last * 0x9E3779B9) // in no order
			b.putOne()
		}
		op := new(Op)
		op.Flush([]byte("default"), 0, new(OperatorOp))
		tb.StartTimer()
		start := time.Now()
		b.do(op, StatusOK)
		flush += time.Since(start)
		runs++
		for b.Next() != Never {
			buf.Data = buf.Data[:0] // as a commit does
			start := time.Now()
			b.Expire(b.Next())
			collect += time.Since(start)
			parts++
		}
		if b.jobs.Len() != 0 {
			tb.Fatalf("%d jobs are left", b.jobs.Len())
		}
		b.Close()
	}
	tb.ReportMetric(float64(flush.Nanoseconds())/float64(runs), "ns/flush")
	tb.ReportMetric(float64(collect.Nanoseconds())/float64(parts), "ns/part")
}

// BenchmarkReplay reads what a start reads: of three jobs that were put, two were deleted
// again. It is per record.
func BenchmarkReplay(tb *testing.B) {
	const puts = 300_000
	var tubes [16][]byte
	for i := range tubes {
		tubes[i] = fmt.Appendf(nil, "tube %d", i)
	}
	var b record.Buffer
	put := func(id uint64) {
		tube := tubes[id%16]
		j := record.Job{ID: id, Created: int64(id), Pri: 1024, TTR: 60, State: record.Ready, Tube: tube, Body: make([]byte, 64)}
		b.Put(&j, SlotOf(tube), nil)
	}
	for id := range uint64(puts) {
		if put(id + 1); id%3 != 2 && id >= 300 {
			b.Delete(id-298, SlotOf(tubes[(id-298)%16]))
		}
	}
	tb.ReportAllocs()
	records := 0
	for tb.Loop() {
		c := New(nil)
		var buf record.Buffer
		p := c.Replay()
		for data := b.Data; len(data) > 0; records++ {
			var r record.Record
			n, err := record.Parse(&r, data)
			if err != nil {
				tb.Fatal(err)
			}
			if err := p.Apply(&r); err != nil {
				tb.Fatal(err)
			}
			data = data[n:]
		}
		c.RecordTo(&buf)
		p.Done(Time(puts + 1))
		c.Close()
	}
	tb.ReportMetric(float64(tb.Elapsed().Nanoseconds())/float64(records), "ns/record")
}
