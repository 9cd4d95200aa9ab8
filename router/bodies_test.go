package router_test

import (
	"fmt"
	"strings"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/session"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// TestLargeBodiesWaitForOneAnother: bodies that do not fit together wait in order, in both protocols;
// other clients continue.
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
		t.Fatal("the next is not admitted, or all are")
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

// TestLateBodiesAreEvictedOnlyForOthers: a late body is dropped only while others wait. A body larger
// than all places is admitted alone.
func TestLateBodiesAreEvictedOnlyForOthers(t *testing.T) {
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
		t.Fatal("closed although no client waits")
	}
	next.send("put 0 0 60 600000\r\n" + body + "\r\n")
	last.send("put 0 0 60 70000\r\n")
	last.s.Abort()
	f.rest()
	if !next.stoppedBy(session.NoPlace) || slow.closed {
		t.Fatal("two at the same time")
	}
	f.d.Server.Host().EvictLate()
	f.rest()
	next.wants("INSERTED 2\n")
	if _, inside, waiting := f.d.Server.Host().BodyPlaces(); !slow.closed || inside+waiting != 0 {
		t.Errorf("closed %v, %d wait, %d inside", slow.closed, waiting, inside)
	}
	f.check()
}

// TestBodyThatComesInTheLastMoment: a body that is complete before its session learns that it is late
// is accepted, and the next body is not late.
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

// A largePut is a large body in either protocol, and the client's replies.
type largePut struct {
	name           string
	open           func(f *fixture) *testConn
	head, end      string
	after          string // the next command
	taken, refused string
	answer         string // reply to after
}

const claimedSize = 6 << 20

func largePuts() []largePut {
	whole := packet(gearman.SubmitJobBG, "f", "u", strings.Repeat("x", claimedSize))
	return []largePut{
		{
			"put", (*fixture).open,
			fmt.Sprintf("put 1 0 100 %d\r\n", claimedSize), "\r\n", "list-tube-used\r\n",
			"INSERTED 1\r\n", "OUT_OF_MEMORY\r\n", "USING default\r\n",
		},
		{
			"SUBMIT_JOB_BG", (*fixture).openGear,
			whole[:len(whole)-claimedSize], "", packet(gearman.EchoReq, "after"),
			answer(gearman.JobCreated, "H:x:1"), string(gearman.AppendError(nil, gearman.ErrorQueue)), answer(gearman.EchoRes, "after"),
		},
	}
}

func newClaimFixture(t *testing.T) (*fixture, *commit.Journal, *fillingDisk) {
	f := newFixture(t, router.Config{Loops: 1, Shards: 4, MaxJobSize: 1 << 30, Gearman: router.GearmanConfig{Prefix: "H:x"}})
	d := &fillingDisk{Disk: wal.Dir(t.TempDir())}
	return f, f.keepOn(d), d
}

// sendMuch sends n bytes of a body, in parts of the size of a read, and makes room for each.
func (c *testConn) sendMuch(j *commit.Journal, n int) {
	c.f.t.Helper()
	for n > 0 {
		k := min(n, 64<<10)
		c.send(strings.Repeat("x", k))
		for range 20 {
			if !c.stoppedBy(session.NoSpace | session.NoPlace) {
				break
			}
			c.f.tended(j)
		}
		n -= k
	}
	if c.stoppedBy(session.NoSpace | session.NoPlace) {
		c.f.t.Fatal("there is no room")
	}
}

// TestRoomComesWithTheBytes: announcing a body claims no room and makes none, for any number of
// bodies. A body that arrives claims at most twice its bytes.
func TestRoomComesWithTheBytes(t *testing.T) {
	for _, p := range largePuts() {
		t.Run(p.name, func(t *testing.T) {
			f, j, _ := newClaimFixture(t)
			before := j.Stats().Bytes
			var clients []*testConn
			for range 20 {
				c := p.open(f)
				c.send(p.head)
				clients = append(clients, c)
			}
			f.tended(j)
			if s := j.Stats(); s.Promised != 0 || s.Bytes != before {
				t.Errorf("%d bytes are promised, %d made", s.Promised, s.Bytes-before)
			}
			sent := int64(0)
			for _, n := range []int{1, 1000, 100_000, 900_000} {
				clients[0].sendMuch(j, n)
				sent += int64(n)
				if s := j.Stats(); s.Promised > sent*9/4+3*headMax || s.Promised < sent {
					t.Errorf("%d bytes are promised to %d that have come", s.Promised, sent)
				}
			}
			for _, c := range clients {
				c.s.Abort()
			}
			f.tended(j)
			if s := j.Stats(); s.Segments > 3 {
				t.Errorf("%d segments are kept for clients that have gone", s.Segments)
			}
			f.settled(j)
		})
	}
}

// TestBodyThatWaitsHalfWay: a body without room in the middle waits, and is then refused or accepted.
// Later commands get replies, and no claim is left.
func TestBodyThatWaitsHalfWay(t *testing.T) {
	for _, p := range largePuts() {
		for _, end := range []string{"room", "full", "half-close, full", "abort"} {
			t.Run(p.name+", "+end, func(t *testing.T) {
				f, j, d := newClaimFixture(t)
				c := p.open(f)
				c.canPause = true
				c.send(p.head)
				c.sendMuch(j, claimedSize/2)
				rest := strings.Repeat("x", claimedSize/2) + p.end + p.after
				c.send(rest)
				if !c.stoppedBy(session.NoSpace) || j.Stats().Promised == 0 {
					t.Fatal("it does not wait")
				}
				d.full.Store(strings.HasSuffix(end, "full"))
				want := p.taken + p.answer
				if strings.HasSuffix(end, "full") {
					want = p.refused + p.answer
				}
				if strings.HasPrefix(end, "half-close") {
					c.s.HalfClose()
					f.rest()
				}
				if strings.HasPrefix(end, "abort") {
					c.s.Abort()
					want = ""
				}
				for range 30 {
					f.tended(j)
					f.committed(j)
				}
				if got := c.take(); got != want {
					t.Errorf("got %.100q, want %.100q", got, want)
				}
				if ends := end != "room" && end != "full"; c.s.Gone() != ends || c.closed != ends {
					t.Errorf("the session has ended: %v, %v", c.s.Gone(), c.closed)
				}
				f.settled(j)
			})
		}
	}
}
