package wal_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// claimed asks for room until there is an answer.
func (w *world) claimed(c *commit.Claim, n int64) (p commit.Pressure) {
	for range 20 {
		if p = w.j.Claim(c, n); p != commit.Wait {
			break
		}
		if w.j.Tend() != nil || w.commit() != nil {
			break
		}
	}
	return p
}

// large puts a body of size bytes, for which there is room.
func (p *part) large(size int) {
	w := p.w
	w.id++
	op := core.Op{Kind: core.OpPut, Tube: p.tubes[0], TTR: 1, ID: core.JobID(w.id)}
	body := make([]byte, size)
	body[size-1] = byte(w.id)
	for at := 0; at < size; at += 65536 {
		op.Large = append(op.Large, body[at:min(size, at+65536)])
	}
	p.apply(&op)
	p.all = append(p.all, w.id)
}

// TestAClaimEndsWithItsClient: what was made for a claim is given back once its client is gone,
// also while the claim waits.
func TestAClaimEndsWithItsClient(t *testing.T) {
	for _, want := range []commit.Pressure{commit.Open, commit.Wait} {
		d := fakedisk.New(1)
		d.Limit = 40 * SegmentMin
		w := newWorld(1, d)
		must(t, second(w.open(true)))
		before := d.Size()
		d.Before = func(op, _ string) error {
			if want == commit.Wait && op == "create" && d.Size() > 10*SegmentMin {
				return syscall.EMFILE
			}
			return nil
		}
		var c commit.Claim
		if p := w.claimed(&c, 20*SegmentMin); p != want || w.j.Pressure() != commit.Open {
			t.Errorf("a claim is answered %d, want %d; pressure %d", p, want, w.j.Pressure())
		}
		d.Before = nil
		w.j.Release(&c)
		must(t, w.tend())
		if after := d.Size(); after > max(before, 3*SegmentMin) || w.j.Stats().Promised != 0 {
			t.Errorf("%d bytes on disk, %d before, %d promised", after, before, w.j.Stats().Promised)
		}
		w.closeCores()
	}
}

// TestFits: whether a body fits is answered by what the disk had of late if that is enough, and
// otherwise by what it has now. The question takes no room.
func TestFits(t *testing.T) {
	d := fakedisk.New(1)
	d.Limit = 20 * SegmentMin
	w := newWorld(1, d)
	must(t, second(w.open(true)))
	var c commit.Claim
	for _, q := range []struct {
		limit, size int64
		want        commit.Pressure
	}{
		{20, 10, commit.Open}, {20, 25, commit.Wait}, {20, 25, commit.Full}, {40, 25, commit.Wait}, {40, 25, commit.Open},
	} {
		d.Limit = q.limit * SegmentMin
		if p := w.j.Fits(&c, q.size*SegmentMin); p != q.want {
			t.Errorf("%d of %d segments: %d, want %d", q.size, q.limit, p, q.want)
		}
		must(t, w.j.Tend())
	}
	if d.Size() > 3*SegmentMin || w.j.Stats().Promised != 0 {
		t.Errorf("the question takes room: %v", d)
	}
	w.closeCores()
}

// TestSparesHoldNoDescriptor: however much room is kept, few files are open.
func TestSparesHoldNoDescriptor(t *testing.T) {
	d := fakedisk.New(1)
	w := newWorld(1, d)
	must(t, second(w.open(true)))
	const size = 20 * SegmentMin
	var c commit.Claim
	if p := w.claimed(&c, size); p != commit.Open || d.Opened() > 3 {
		t.Fatalf("%d, %d files are open with room in %d", p, d.Opened(), w.j.Stats().Segments)
	}
	w.shards[0].large(size)
	w.j.Release(&c)
	must(t, w.commit())
	if n := d.Opened(); n > Descriptors {
		t.Errorf("%d files are open", n)
	}
	w.closeCores()
}

// TestWantOfDescriptors: while no file can be opened nothing is refused or lost, and what
// waits goes on with the first that can.
func TestWantOfDescriptors(t *testing.T) {
	for policy := range SyncPolicy(3) {
		d := fakedisk.New(5)
		s := &server{disk: d, policy: policy, size: SegmentMin}
		must(t, s.open(2))
		var some atomic.Bool
		d.Before = func(op, _ string) error {
			if !some.Load() && (op == "open" || op == "create") {
				return syscall.EMFILE
			}
			return nil
		}
		go func() {
			for s.j.Pressure() == commit.Open && s.j.Pending() < SegmentMin/4 {
				time.Sleep(time.Millisecond)
			}
			some.Store(true)
		}()
		list := s.customers(1, 4, 200)
		must(t, s.restart(2))
		if err := holds(s.bodies(), list); err != nil {
			t.Errorf("policy %d: %v", policy, err)
		}
		must(t, s.end())
	}
}

// TestFullIsTold: the log says when the disk is full, has space again and is full once
// more, and its last line is true however quickly that changes.
func TestFullIsTold(t *testing.T) {
	d := fakedisk.New(1)
	d.Limit = 8 * SegmentMin
	w := newWorld(1, d)
	w.weight, w.fat = 3000, 0
	var log bytes.Buffer
	w.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	must(t, second(w.open(true)))
	until := func(p commit.Pressure, do func()) {
		t.Helper()
		for n := 0; w.j.Pressure() != p; n++ {
			if n > 10_000 {
				t.Fatalf("pressure is %d, never %d", w.j.Pressure(), p)
			}
			do()
			must(t, w.commit())
			must(t, w.tend())
		}
	}
	for round := range 3 {
		until(commit.Full, w.shards[0].put)
		w.j.SettleTold()
		if n := strings.Count(log.String(), "level=ERROR"); n != round+1 {
			t.Errorf("round %d: told %d times that it is full", round, n)
		}
		until(commit.Open, w.shards[0].delete)
		w.j.SettleTold()
		if n := strings.Count(log.String(), "the disk has space again"); n != round+1 {
			t.Errorf("round %d: told %d times that there is space", round, n)
		}
	}
	w.closeCores()
}

// TestRoomKnowsQuota: a limit that the disk does not show is not run into over and over. What the
// disk shows is no room by then, and only Room asks the disk, for which event loops cannot wait.
// Once jobs are deleted, changes are taken at once.
func TestRoomKnowsQuota(t *testing.T) {
	w := newWorld(3, fakedisk.New(3))
	d := w.fake
	d.Limit, d.Shown = 8*SegmentMin, 100*SegmentMin
	w.fat, w.weight = 0, 3000
	must(t, second(w.open(true)))
	for w.j.Pressure() != commit.Full {
		for range 20 {
			w.shards[w.rng.IntN(len(w.shards))].put()
		}
		must(t, w.commit())
		must(t, w.tend())
	}
	tries := d.Did["create"]
	for range 300 {
		w.now += core.Second
		must(t, w.tend())
	}
	if n := d.Did["create"] - tries; n < 5 || n > 20 {
		t.Errorf("%d tries in five minutes", n)
	}
	asked := d.Asked
	if w.j.Stats(); !w.j.FullHere() || d.Asked != asked {
		t.Errorf("full %v, and the disk is asked %d times", w.j.FullHere(), d.Asked-asked)
	}
	if got := w.j.Room(); got > 3*SegmentMin || !w.j.FullWith(got) || w.j.FullWith(100*SegmentMin) {
		t.Errorf("room for %d bytes, full %t", got, w.j.FullWith(got))
	}
	for w.jobs() > 10 {
		w.shards[w.rng.IntN(len(w.shards))].delete()
	}
	must(t, w.commit())
	must(t, w.tend())
	if p := w.j.Pressure(); p != commit.Open {
		t.Errorf("pressure %d after jobs were deleted", p)
	}
	w.closeCores()
}

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
	w, _ := behindABody(t, 100_000)
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

	w, p := behindABody(t, 100_000)
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
