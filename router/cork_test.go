package router_test

import (
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/shard/core"
)

// newLateFixture returns a fixture with a loop that is busy as long as no time passes. tick makes the
// loop check its corked replies.
func newLateFixture(t *testing.T, cfg router.Config) (f *fixture, tick func()) {
	f = newFixture(t, cfg)
	var due core.Time
	f.l.RunAfter(func(d time.Duration) { due = f.now + core.Time(d) })
	return f, func() {
		t.Helper()
		if due == 0 {
			t.Fatal("the loop requests no check")
		}
		f.now, due = max(f.now, due), 0
		f.asked = true
		f.rest()
	}
}

func TestJobCreatedComesWithTheResult(t *testing.T) {
	f, tick := newLateFixture(t, router.Config{Loops: 1, Shards: 4, Gearman: router.GearmanConfig{Prefix: "H:x"}})
	c, w := f.openGear(), f.openGear()
	w.asks(packet(gearman.CanDo, "f"))
	c.asks(packet(gearman.SubmitJob, "f", "u", "work"))
	w.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:1", "f", "work"))
	f.check()
	w.asks(packet(gearman.WorkComplete, "H:x:1", "done"))
	c.hears(answer(gearman.JobCreated, "H:x:1"), answer(gearman.WorkComplete, "H:x:1", "done"))
	if c.writes != 1 {
		t.Fatalf("%d writes", c.writes)
	}

	// Output before the end is sent together with it.
	c.asks(packet(gearman.SubmitJob, "f", "u", "work"))
	w.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:2", "f", "work"))
	w.asks(packet(gearman.WorkData, "H:x:2", "half"))
	c.hears(answer(gearman.JobCreated, "H:x:2"), answer(gearman.WorkData, "H:x:2", "half"))

	// The first check finds that everything was sent, and is the last one.
	tick()
	if v := f.l.Loop.View(); v.Corked > 0 || f.l.HasWork() {
		t.Fatalf("the loop keeps %+v", v)
	}
}

func TestJobCreatedIsKeptForShort(t *testing.T) {
	f, tick := newLateFixture(t, router.Config{Loops: 1, Shards: 4, Gearman: router.GearmanConfig{Prefix: "H:x"}})
	a, b := f.openGear(), f.openGear()
	a.asks(packet(gearman.SubmitJob, "f", "u1", ""))
	f.now += lateMax / 100
	b.asks(packet(gearman.SubmitJob, "f", "u2", ""))
	f.now += lateMax / 2
	f.asked = true // for another reason
	f.rest()
	a.hears()
	tick()
	a.hears(answer(gearman.JobCreated, "H:x:1"))
	b.hears()
	tick()
	b.hears(answer(gearman.JobCreated, "H:x:2"))
	if f.l.HasWork() {
		t.Fatal("the loop has work")
	}
}

func TestPipeliningClientGetsJobCreatedAtOnce(t *testing.T) {
	f, tick := newLateFixture(t, router.Config{Loops: 1, Shards: 4, Gearman: router.GearmanConfig{Prefix: "H:x"}})
	c := f.openGear()
	c.asks(packet(gearman.SubmitJob, "f", "u1", ""))
	tick()
	c.hears(answer(gearman.JobCreated, "H:x:1"))
	for range 3 {
		c.asks(packet(gearman.SubmitJob, "f", "u1", ""), answer(gearman.JobCreated, "H:x:1"))
	}

	// A client that sends several jobs at once also gets all replies at once.
	d := f.openGear()
	d.asks(packet(gearman.SubmitJob, "f", "u1", "")+packet(gearman.SubmitJob, "f", "u2", ""),
		answer(gearman.JobCreated, "H:x:1"), answer(gearman.JobCreated, "H:x:2"))
	// Background jobs have no result.
	e := f.openGear()
	e.asks(packet(gearman.SubmitJobBG, "f", "u3", ""), answer(gearman.JobCreated, "H:x:3"))
}

func TestIdleLoopKeepsNothingBack(t *testing.T) {
	f, _ := newLateFixture(t, router.Config{Loops: 1, Shards: 4, Gearman: router.GearmanConfig{Prefix: "H:x"}})
	c := f.openGear()
	f.now += core.Second
	c.asks(packet(gearman.SubmitJob, "f", "u1", ""), answer(gearman.JobCreated, "H:x:1"))
}
