package router_test

import (
	"strings"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// TestLargeBodiesWaitForOneAnother: of those that do not fit together the later ones
// wait, in their order, whichever protocol they come by; everybody else goes on.
func TestLargeBodiesWaitForOneAnother(t *testing.T) {
	f := newFixture(t, router.Config{Loops: 1, Shards: 4, MaxJobSize: 1 << 20, Gearman: router.GearmanConfig{Prefix: "H:x"}})
	f.d.Server.Host().LimitBodies(1 << 20)
	body := strings.Repeat("b", 600_000)
	line := "put 0 0 60 600000\r\n"
	first, second, third, small := f.open(), f.open(), f.openGear(), f.open()
	f.d.HoldAtMost(1 << 20)
	first.send(line + body[:100_000])
	second.send(line + body[:10])
	third.send(packet(gearman.SubmitJobBG, "f", "", body)[:200_000])
	f.rest()
	if !second.stoppedBy(session.NoPlace) || !third.stoppedBy(session.NoPlace) || first.stoppedBy(session.NoPlace) {
		t.Fatalf("blocked: %v, %v, %v", first.stoppedBy(session.NoPlace), second.stoppedBy(session.NoPlace), third.stoppedBy(session.NoPlace))
	}
	small.says("put 0 0 60 5\nhello\n", "INSERTED 2\n")
	first.says(body[100_000:]+"\n", "INSERTED 1\n")
	if second.stoppedBy(session.NoPlace) || !third.stoppedBy(session.NoPlace) {
		t.Fatal("the next is not let in, or all are")
	}
	second.s.Abort()
	f.rest()
	third.send(packet(gearman.SubmitJobBG, "f", "", body)[200_000:])
	f.rest()
	third.hears(answer(gearman.JobCreated, "H:x:4"))
	first.says("put 0 0 60 600000\n"+body+"\n", "INSERTED 5\n")
	if used, inside, waiting := f.d.Server.Host().BodyPlaces(); used != 0 || inside+waiting != 0 {
		t.Errorf("%d bytes used, %d inside, %d wait", used, inside, waiting)
	}
	f.check()
}

// TestBodiesThatDoNotCome are given up only when others wait for longer than they
// should; a body larger than the room is let in alone.
func TestBodiesThatDoNotCome(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 2, MaxJobSize: 1 << 20})
	f.d.Server.Host().LimitBodies(100_000)
	f.d.HoldAtMost(1 << 20)
	body := strings.Repeat("b", 600_000)
	slow, next, last := f.open(), f.open(), f.open()
	slow.send("put 0 0 60 600000\r\nb")
	f.pass(bodyGrace + core.Second)
	f.d.Server.Host().EvictLate()
	f.rest()
	if slow.closed {
		t.Fatal("closed though nobody waits")
	}
	next.send("put 0 0 60 600000\r\n" + body + "\r\n")
	last.send("put 0 0 60 70000\r\n")
	last.s.Abort()
	f.rest()
	if !next.stoppedBy(session.NoPlace) || slow.closed {
		t.Fatal("two at a time")
	}
	f.d.Server.Host().EvictLate()
	f.rest()
	next.wants("INSERTED 2\n")
	if _, inside, waiting := f.d.Server.Host().BodyPlaces(); !slow.closed || inside+waiting != 0 {
		t.Errorf("closed %v, %d wait, %d inside", slow.closed, waiting, inside)
	}
	f.check()
}

// TestRefusedBodyLeavesTheRoom: one that was let in and is refused all the same keeps no
// place, and its client is not cut off for it.
func TestRefusedBodyLeavesTheRoom(t *testing.T) {
	const size = 600_000
	body := strings.Repeat("b", size)
	put := "put 0 0 60 600000\r\n"
	submit := packet(gearman.SubmitJobBG, "f", "", body)
	for _, tt := range []struct {
		name, sent, want string
		gear             bool
	}{
		{"put", put, "DRAINING\r\n", false},
		{"submission", submit[:len(submit)-size], string(gearman.AppendError(nil, gearman.ErrorDraining)), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, j, _ := newClaimFixture(t)
			f.d.Server.Host().LimitBodies(size)
			first, second := f.open(), f.open()
			if tt.gear {
				second = f.openGear()
			}
			first.send(put + body[:10])
			second.send(tt.sent)
			if !second.stoppedBy(session.NoPlace) {
				t.Fatal("two at a time")
			}
			first.s.Abort()
			f.d.Server.Drain()
			f.tended(j)
			second.sendMuch(j, size)
			if !tt.gear {
				second.send("\r\n")
			}
			if got := second.take(); got != tt.want {
				t.Errorf("got %.100q, want %.100q", got, tt.want)
			}
			if used, inside, waiting := f.d.Server.Host().BodyPlaces(); used != 0 || inside+waiting != 0 || second.s.Session.View().HasPlace {
				t.Errorf("%d bytes used, %d inside, %d wait", used, inside, waiting)
			}
		})
	}
}

// TestBodyThatComesInTheLastMoment: it is complete before its session hears that it is late,
// and what comes behind it is not late.
func TestBodyThatComesInTheLastMoment(t *testing.T) {
	f := newFixture(t, router.Config{Loops: 1, Shards: 2, MaxJobSize: 1 << 20})
	f.d.Server.Host().LimitBodies(700_000)
	body := strings.Repeat("b", 600_000)
	slow, next := f.open(), f.open()
	slow.send("put 0 0 60 600000\r\nb")
	next.send("put 0 0 60 200000\r\n")
	f.pass(bodyGrace + core.Second)
	f.d.Server.Host().EvictLate()
	slow.send(body[1:] + "\r\nput 0 0 60 400000\r\nb")
	f.rest()
	slow.wants("INSERTED 1\n")
	if _, inside, waiting := f.d.Server.Host().BodyPlaces(); slow.closed || inside != 2 || waiting != 0 {
		t.Errorf("closed: %v, %d inside, %d wait", slow.closed, inside, waiting)
	}
	slow.says(body[:400_000-1]+"\n", "INSERTED 2\n")
	next.says(body[:200_000]+"\n", "INSERTED 3\n")
	f.check()
}
