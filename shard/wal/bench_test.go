package wal_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	. "polystalk/shard/wal"
)

// BenchmarkCommit puts 100-byte jobs, each acknowledged when it is durable;
// every client waits for its own. Deletes keep the number of jobs small.
func BenchmarkCommit(b *testing.B) {
	for _, clients := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			s := &server{disk: Dir(b.TempDir()), policy: SyncAlways, size: 64 << 20}
			if err := s.open(2); err != nil {
				b.Fatal(err)
			}
			body := make([]byte, 100)
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					last := core.JobID(0)
					for n := i; n < b.N; n += clients {
						if !s.admitted() {
							return
						}
						id := s.newID()
						r := s.do(i, &core.Op{Kind: core.OpPut, ID: id, TTR: 1, Body: body})
						if last != 0 {
							r = s.do(i, &core.Op{Kind: core.OpDelete, ID: last})
						}
						last = id
						s.await(r.Commit)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
			b.ReportMetric(float64(s.j.Stats().Batches)/b.Elapsed().Seconds(), "syncs/s")
			if err := s.end(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkRecover reads a million jobs of 100 bytes.
func BenchmarkRecover(b *testing.B) {
	const jobs = 1_000_000
	s := &server{disk: Dir(b.TempDir()), policy: SyncNever, size: 64 << 20}
	if err := s.open(2); err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 100)
	for n := range jobs {
		if s.j.Pressure() != commit.Open && !s.admitted() {
			b.Fatal(s.fails)
		}
		s.do(n, &core.Op{Kind: core.OpPut, ID: s.newID(), TTR: 1, Body: body})
	}
	if err := s.end(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		start := time.Now()
		if err := s.open(2); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(jobs)/time.Since(start).Seconds(), "jobs/s")
		n := int64(0)
		for i := range s.desks {
			n += s.j.Log(i).Buffer.Jobs
		}
		if n != jobs {
			b.Fatalf("%d jobs", n)
		}
		b.StopTimer()
		if err := s.end(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
