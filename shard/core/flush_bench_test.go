package core

import (
	"testing"
	"time"

	"polystalk/shard/record"
)

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
