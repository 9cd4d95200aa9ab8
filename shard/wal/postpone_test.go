package wal_test

import (
	"polystalk/shard/wal/fakedisk"
	"syscall"
	"testing"

	"polystalk/shard/commit"
)

// behindABody is a journal of two segments that can take nothing more. The first is nearly
// all garbage, but for the beginning of a body of size bytes that is copied whole or not
// at all, and for which there is no room without a third segment.
func behindABody(t *testing.T, size int) (*world, *part) {
	t.Helper()
	w := newWorld(1, fakedisk.New(1))
	w.parts, w.weight, w.fat = 1, 100, 0
	w.opts.SegmentSize = 1 << 20
	must(t, second(w.open(true)))
	p := w.shards[0]
	var c commit.Claim
	if answer := w.claimed(&c, int64(size)+256); answer != commit.Open {
		t.Fatalf("a body of %d bytes is answered %d", size, answer)
	}
	p.large(size)
	w.j.Release(&c)
	must(t, w.commit())
	for w.j.Pressure() == commit.Open {
		p.put()
		must(t, w.commit())
	}
	for segment := uint64(1); segment == 1 && len(p.all) > 1; segment, _ = w.j.End() {
		p.remove(1) // each in a commit of its own, which takes the most
		must(t, w.commit())
	}
	for len(p.all) > 1 {
		p.remove(1)
	}
	must(t, w.commit())
	if s := w.j.Stats(); s.Oldest != 1 || s.Current != 2 || s.Live > int64(size)+300 {
		t.Fatalf("%+v", s)
	}
	return w, p
}

// TestEmptyQueueEndsAFullDisk: a segment is not given up while no file can be made, or no room is
// left for the body that it begins. The first passes by itself. The second passes once the body is
// deleted, although less than a quarter segment lived.
func TestEmptyQueueEndsAFullDisk(t *testing.T) {
	w, p := behindABody(t, 100_000)
	tries := 0
	w.fake.Before = func(op, _ string) error {
		if op == "create" {
			tries++
			return syscall.EMFILE
		}
		return nil
	}
	must(t, w.j.Tend())
	if s := w.j.Stats(); s.Oldest != 1 || tries == 0 {
		t.Errorf("for want of descriptors: %d tries, %+v", tries, s)
	}
	w.fake.Before = nil
	must(t, w.j.Tend())
	if s := w.j.Stats(); s.Oldest == 1 || w.j.Pressure() != commit.Open {
		t.Errorf("with descriptors again: pressure %d, %+v", w.j.Pressure(), s)
	}
	w.closeCores()

	w, p = behindABody(t, 100_000)
	w.fake.Limit = w.fake.Size()
	must(t, w.j.Tend())
	if answer := w.j.Pressure(); answer != commit.Full {
		t.Fatalf("pressure %d on a full disk: %+v", answer, w.j.Stats())
	}
	p.remove(0)
	must(t, w.commit())
	must(t, w.j.Tend())
	if answer := w.j.Pressure(); answer != commit.Open {
		t.Errorf("pressure %d with nothing in the queue: %+v", answer, w.j.Stats())
	}
	w.closeCores()
}
