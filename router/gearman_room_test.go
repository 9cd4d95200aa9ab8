package router_test

import (
	"log/slog"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// keepOn is keep on a disk.
func (f *fixture) keepOn(disk wal.Disk) *commit.Journal {
	f.t.Helper()
	return f.keepWith(commit.Options{Options: wal.Options{Disk: disk}})
}

// keepWith is keep with options: the disk, and what copies jobs out of old segments, if
// anything does.
func (f *fixture) keepWith(o commit.Options) *commit.Journal {
	f.t.Helper()
	srv := f.d.Server
	o.SegmentSize, o.Shards, o.Manual = 1<<20, len(srv.Host().Map.Shards()), true
	o.Now, o.Logger, o.Notify = time.Now, slog.New(slog.DiscardHandler), srv.Host().Wake
	j := commit.New(o)
	if err := srv.LeadWith(j, o.Disk); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := j.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return j
}
