package router_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// keep gives the fixture a journal that is looked after by hand.
func (f *fixture) keep() *commit.Journal {
	f.t.Helper()
	return f.keepOn(wal.Dir(f.t.TempDir()))
}

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

// A background job that is larger than what the journal has room for now waits,
// and its loop does nothing meanwhile.
func TestLargeSubmissionWaitsForRoom(t *testing.T) {
	f := newGearFixture(t)
	j := f.keep()
	c := f.openGear()
	c.canPause = true
	body := strings.Repeat("x", 5<<20)
	c.send(packet(gearman.SubmitJobBG, "f", "", body))
	f.rest()
	c.hears()
	for range 100 {
		if err := j.Tend(); err != nil {
			t.Fatal(err)
		}
		f.rest()
		if err := j.Commit(); err != nil {
			t.Fatal(err)
		}
		f.rest()
		if c.got.Len() > 0 {
			c.hears(answer(gearman.JobCreated, "H:x:1"))
			f.check()
			return
		}
	}
	t.Fatal("it is never let in")
}
