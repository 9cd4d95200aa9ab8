package router_test

import (
	"fmt"
	"polystalk/router"
	"polystalk/router/session"
	"strings"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// A largePut is a large body of either protocol, and what its client hears.
type largePut struct {
	name           string
	open           func(f *fixture) *testConn
	head, end      string
	after          string // another command
	taken, refused string
	answer         string // of after
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

// sendMuch sends n bytes of a body, in parts as they are read, with room for each.
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

// A body that is only announced has no room promised and none made, however many there
// are. One that arrives has twice as much at most.
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

// A body for which there is no room half-way waits, and is refused or goes on; what comes
// behind it is answered, and nothing stays promised.
func TestBodyThatWaitsHalfWay(t *testing.T) {
	for _, p := range largePuts() {
		for _, end := range []string{"room", "full", "half-close", "half-close, full", "abort", "abort, full"} {
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
