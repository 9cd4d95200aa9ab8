package core

import (
	"fmt"
	"testing"

	"polystalk/shard/record"
)

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
