package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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

// large puts a body of so many bytes for which there is room.
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

// TestLargeBodies: a claim gets what there is room for, or will be.
func TestLargeBodies(t *testing.T) {
	w := newWorld(1, fakedisk.New(1))
	must(t, second(w.open(true)))
	p := w.shards[0]
	size := 3 * SegmentMin
	var c commit.Claim
	for n := range 12 {
		if answer := w.claimed(&c, int64(size)); answer != commit.Open {
			t.Fatalf("body %d: %d: %+v", n, answer, w.j.Stats())
		}
		p.large(size)
		w.j.Release(&c)
		if n%3 == 2 {
			p.delete()
			p.delete()
		}
		must(t, w.commit())
		must(t, w.tend())
	}
	w.fake.Cut()
	must(t, second(w.open(true)))
	d := w.fake
	d.Limit = d.Size() + SegmentMin
	if answer := w.claimed(&c, int64(size)); answer != commit.Full {
		t.Errorf("on a full disk: %d", answer)
	}
	w.closeCores()
}

// TestAnotherBodyDidNotFit: what fits is taken whatever else was refused before, and has
// filled the disk until then.
func TestAnotherBodyDidNotFit(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	seeds(t, 3, func(seed uint64) error {
		d := fakedisk.New(seed)
		d.Mute = seed%2 == 0
		d.Limit = 40 * SegmentMin
		w := newWorld(seed, d)
		w.weight, w.fat = 3000, 0
		if _, err := w.open(true); err != nil {
			return err
		}
		var huge, small commit.Claim
		for round := range 20 {
			if p := w.claimed(&huge, 60*SegmentMin); p != commit.Full {
				return fmt.Errorf("round %d: %d for more than the disk has", round, p)
			}
			if s := w.j.Stats(); s.Promised != 0 {
				return fmt.Errorf("%d bytes are promised to what was refused", s.Promised)
			}
			if p := w.claimed(&small, 6*SegmentMin); p != commit.Open {
				return fmt.Errorf("round %d: %d for a body that fits: %+v, %v", round, p, w.j.Stats(), d)
			}
			w.j.Release(&small)
			if err := w.tend(); err != nil {
				return err
			}
			for n := range 200 {
				if p := w.j.Pressure(); p == commit.Full {
					return fmt.Errorf("round %d, small put %d: refused with %d of %d bytes taken", round, n, d.Size(), d.Limit)
				} else if p == commit.Open {
					w.shards[0].put()
				}
				if err := w.commit(); err != nil {
					return err
				}
				if n%100 == 99 {
					if err := w.tend(); err != nil {
						return err
					}
				}
			}
			for w.jobs() > 200 {
				for _, p := range w.shards {
					p.delete()
				}
			}
		}
		w.closeCores()
		return nil
	})
}

// TestClaimsWithHalfOfTheRoom: some have claimed together all there is, and none of them
// enough. None waits for ever, some get what they need, and nothing stays promised.
func TestClaimsWithHalfOfTheRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	seeds(t, 10, func(seed uint64) error {
		d := fakedisk.New(seed)
		d.Limit = 35 * SegmentMin
		d.Mute = seed%3 == 0
		w := newWorld(seed, d)
		if _, err := w.open(true); err != nil {
			return err
		}
		const need, step = 15 * SegmentMin, SegmentMin / 3
		claims := make([]commit.Claim, 2+seed%5)
		over := make([]bool, len(claims))
		got, refused, left := 0, 0, len(claims)
		for turn := 0; left > 0; turn++ {
			if turn > 100_000 {
				return fmt.Errorf("%d of %d wait for ever", left, len(claims))
			}
			i := w.rng.IntN(len(claims))
			c := &claims[i]
			if over[i] {
				continue
			}
			switch w.j.Claim(c, min(need, c.Bytes()+step)) {
			case commit.Open:
				if over[i] = c.Bytes() == need; over[i] {
					got++
					left--
					w.shards[0].large(need)
					w.j.Release(c)
				}
			case commit.Full:
				if c.Bytes() != 0 {
					return errors.New("what is refused keeps what it had")
				}
				refused++
				left--
				over[i] = true
			case commit.Wait:
				if w.rng.IntN(3) == 0 {
					if err := w.j.Tend(); err != nil {
						return err
					}
				}
			}
			if err := w.commit(); err != nil {
				return err
			}
		}
		if got != 1 || refused != len(claims)-1 {
			return fmt.Errorf("%d bodies fit and %d do not", got, refused)
		}
		if s := w.j.Stats(); s.Promised != 0 {
			return fmt.Errorf("%d bytes are promised to nobody", s.Promised)
		}
		for _, p := range w.shards {
			for len(p.all) > 0 {
				p.delete()
				if err := w.commit(); err != nil {
					return fmt.Errorf("deleting: %w", err)
				}
			}
		}
		w.closeCores()
		return nil
	})
}

// TestPromisesHold: everything that was promised on a disk that is full by then goes in,
// of every size, and can be deleted after that.
func TestPromisesHold(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	seeds(t, 12, func(seed uint64) error {
		d := fakedisk.New(seed)
		w := newWorld(seed, d)
		d.Limit = SegmentMin * int64(20+w.rng.IntN(100))
		if _, err := w.open(true); err != nil {
			return err
		}
		type body struct {
			c    commit.Claim
			size int
		}
		var bodies []*body
		most := []int{3000, 45_000, 65_000, 2_000_000}[w.rng.IntN(4)]
		for {
			b := &body{size: most/2 + w.rng.IntN(most/2)}
			if w.claimed(&b.c, int64(b.size)+256) != commit.Open {
				break
			}
			bodies = append(bodies, b)
		}
		if len(bodies) < 3 {
			return fmt.Errorf("only %d of at most %d bytes fit on %d", len(bodies), most, d.Limit)
		}
		w.j.Tend()
		d.Limit = d.Size() // nothing more
		for i, b := range bodies {
			p := w.shards[w.rng.IntN(len(w.shards))]
			if b.size > 65536 {
				p.large(b.size)
			} else {
				w.id++
				op := core.Op{Kind: core.OpPut, Tube: p.tubes[0], TTR: 1, ID: core.JobID(w.id), Body: make([]byte, b.size)}
				p.apply(&op)
				p.all = append(p.all, w.id)
			}
			w.j.Release(&b.c)
			if w.rng.IntN(3) > 0 {
				if err := w.commit(); err != nil {
					return fmt.Errorf("body %d of %d, at most %d bytes each: %w", i, len(bodies), most, err)
				}
			}
			if w.rng.IntN(10) == 0 {
				if err := w.j.Tend(); err != nil {
					return fmt.Errorf("body %d: %w", i, err)
				}
			}
		}
		for _, p := range w.shards {
			for len(p.all) > 0 {
				p.delete()
				if err := w.commit(); err != nil {
					return fmt.Errorf("deleting: %w", err)
				}
			}
		}
		w.closeCores()
		return nil
	})
}

// TestAClaimEndsWithItsClient: what was made for a claim is given back once nobody has it,
// also when the claim was still waiting.
func TestAClaimEndsWithItsClient(t *testing.T) {
	for _, waits := range []bool{false, true} {
		d := fakedisk.New(1)
		d.Limit = 40 * SegmentMin
		w := newWorld(1, d)
		must(t, second(w.open(true)))
		before := d.Size()
		var c commit.Claim
		if waits {
			d.Before = func(op, name string) error {
				if op == "create" && d.Size() > 10*SegmentMin {
					return syscall.EMFILE
				}
				return nil
			}
			if p := w.claimed(&c, 20*SegmentMin); p != commit.Wait {
				t.Errorf("%d for want of descriptors", p)
			}
			if p := w.j.Pressure(); p != commit.Open {
				t.Errorf("pressure %d for want of descriptors", p)
			}
			d.Before = nil
		} else if p := w.claimed(&c, 20*SegmentMin); p != commit.Open {
			t.Fatalf("%d", p)
		}
		w.j.Release(&c)
		must(t, w.tend())
		if after := d.Size(); after > max(before, 3*SegmentMin) {
			t.Errorf("waits %v: %d bytes on disk, %d before", waits, after, before)
		}
		if s := w.j.Stats(); s.Promised != 0 {
			t.Errorf("%d bytes are promised to nobody", s.Promised)
		}
		w.closeCores()
	}
}

// TestFits: it is answered by what the disk has, of late if that is enough, and now if
// it is not.
func TestFits(t *testing.T) {
	d := fakedisk.New(1)
	d.Limit = 20 * SegmentMin
	w := newWorld(1, d)
	must(t, second(w.open(true)))
	var c commit.Claim
	answer := func(n int64) (p commit.Pressure) {
		for range 3 {
			if p = w.j.Fits(&c, n); p != commit.Wait {
				break
			}
			must(t, w.j.Tend())
		}
		return p
	}
	if p := answer(10 * SegmentMin); p != commit.Open {
		t.Errorf("what fits: %d", p)
	}
	if p := answer(25 * SegmentMin); p != commit.Full {
		t.Errorf("what does not fit: %d", p)
	}
	d.Limit *= 2
	if p := w.j.Fits(&c, 25*SegmentMin); p != commit.Wait {
		t.Errorf("what was said not to fit is refused unseen: %d", p)
	}
	if p := answer(25 * SegmentMin); p != commit.Open {
		t.Errorf("what fits since: %d", p)
	}
	if d.Size() > 3*SegmentMin || w.j.Stats().Promised != 0 {
		t.Errorf("to ask takes room: %v", d)
	}
	w.closeCores()
}

// TestTightBeforeFull: when nothing but the reserve is left, what can be done without
// is left out, although the disk is only behind; and no longer when there is room.
func TestTightBeforeFull(t *testing.T) {
	d := fakedisk.New(1)
	w := newWorld(1, d)
	must(t, second(w.open(true)))
	w.weight, w.fat = 2000, 0
	put := func() {
		w.shards[0].put()
		must(t, w.j.Commit()) // and nobody tends
	}
	for w.j.Pressure() == commit.Open {
		put()
	}
	if w.j.Pressure() != commit.Wait || tight(w.j) {
		t.Errorf("pressure %d, tight %v at first", w.j.Pressure(), tight(w.j))
	}
	for range SegmentMin / 16 / 1000 {
		put()
	}
	if w.j.Pressure() != commit.Wait || !tight(w.j) {
		t.Errorf("pressure %d, tight %v with nothing but the reserve", w.j.Pressure(), tight(w.j))
	}
	must(t, w.j.Tend())
	if w.j.Pressure() != commit.Open || tight(w.j) {
		t.Errorf("pressure %d, tight %v with room", w.j.Pressure(), tight(w.j))
	}
	w.closeCores()
}

// TestSparesHoldNoDescriptor: however much room is kept, few files are open.
func TestSparesHoldNoDescriptor(t *testing.T) {
	d := fakedisk.New(1)
	w := newWorld(1, d)
	must(t, second(w.open(true)))
	var c commit.Claim
	if p := w.claimed(&c, 40*SegmentMin); p != commit.Open {
		t.Fatalf("%d", p)
	}
	if n := d.Opened(); n > 3 {
		t.Errorf("%d files are open with room in %d", n, w.j.Stats().Segments)
	}
	w.shards[0].large(40 * SegmentMin)
	w.j.Release(&c)
	must(t, w.commit())
	if n := d.Opened(); n > Descriptors {
		t.Errorf("%d files are open", n)
	}
	must(t, w.tend())
	d.Kill()
	must(t, second(w.open(true))) // the old one's files stay open
	w.closeCores()
}

// TestWantOfDescriptors: while no file can be opened nothing is refused or lost, and what
// waits goes on with the first that can.
func TestWantOfDescriptors(t *testing.T) {
	for policy := range SyncPolicy(3) {
		d := fakedisk.New(5)
		s := &server{disk: d, policy: policy, size: SegmentMin}
		must(t, s.open(2))
		none := make(chan struct{})
		d.Before = func(op, name string) error {
			select {
			case <-none:
				return nil
			default:
			}
			if op == "open" || op == "create" {
				return syscall.EMFILE
			}
			return nil
		}
		done := make(chan []*customer)
		go func() { done <- s.customers(1, 4, 200) }()
		go func() {
			for s.j.Pressure() == commit.Open && s.j.Pending() < SegmentMin/4 {
				time.Sleep(time.Millisecond)
			}
			close(none)
		}()
		list := <-done
		if len(s.fails) > 0 {
			t.Errorf("policy %d: %v", policy, s.fails)
		}
		must(t, s.j.Close())
		s.closeCores()
		must(t, s.open(2))
		if err := holds(s.bodies(), list); err != nil {
			t.Errorf("policy %d: %v", policy, err)
		}
		must(t, s.j.Close())
		s.closeCores()
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
		if n := strings.Count(log.String(), "there is space again"); n != round+1 {
			t.Errorf("round %d: told %d times that there is space", round, n)
		}
	}
	w.closeCores()
}
