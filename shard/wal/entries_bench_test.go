package wal_test

import (
	"testing"
	"time"

	"polystalk/shard/commit"
	. "polystalk/shard/wal"
)

// logOf is a journal in a directory, as a log with so many entries of a size.
func logOf(b *testing.B, entries, size int) *commit.Journal {
	b.Helper()
	j := commit.New(commit.Options{
		Options: Options{
			Disk: Dir(b.TempDir()), SegmentSize: 16 << 20, Manual: true, Now: time.Now,
		},
		Shards:   1,
		Proposer: mute{},
		Node:     1,
	})
	if err := j.Open(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { j.Close() })
	e := j.Entries()
	for i := range entries {
		if err := e.Append([]Entry{{Index: uint64(i + 1), Term: 1, Data: make([]byte, size)}}, uint64(i)); err != nil {
			b.Fatal(err)
		}
	}
	return j
}

// BenchmarkAppendEntries appends small entries, without making them durable.
func BenchmarkAppendEntries(b *testing.B) {
	const size = 500
	j := logOf(b, 0, size)
	e, data := j.Entries(), make([]byte, size)
	b.SetBytes(size)
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		if err := e.Append([]Entry{{Index: i + 1, Term: 1, Data: data}}, i); err != nil {
			b.Fatal(err)
		}
		if i%4096 == 4095 {
			b.StopTimer()
			if err := e.Sync(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}

// BenchmarkReadEntries reads what is not in memory any more, a megabyte at a time, as whoever
// is far behind is sent it.
func BenchmarkReadEntries(b *testing.B) {
	const size, entries = 4 << 10, 16 << 10
	j := logOf(b, entries, size)
	e := j.Entries()
	b.ReportAllocs()
	lo := uint64(1)
	for b.Loop() {
		list, err := e.Read(lo, lo+256, 1<<20)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(list) * size))
		if lo += uint64(len(list)); lo > entries*2/3 {
			lo = 1
		}
	}
}
