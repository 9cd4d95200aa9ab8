package router_test

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/session"
	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// A fillingDisk is a directory without room for another segment while it is full.
type fillingDisk struct {
	wal.Disk
	full atomic.Bool
}

func (d *fillingDisk) Free() int64 {
	if d.full.Load() {
		return 0
	}
	return 1 << 40
}

// waits adds a journal, and puts a large foreground job, 1, by c, which b has reserved. The next
// change that must record the job has to wait.
func (f *fixture) waits(c, b *testConn) (*commit.Journal, *fillingDisk) {
	f.t.Helper()
	d := &fillingDisk{Disk: wal.Dir(f.t.TempDir())}
	j := f.keepOn(d)
	c.canPause = true
	c.told(j, packet(gearman.SubmitJob, "f", "u", strings.Repeat("x", largeSize)), answer(gearman.JobCreated, "H:x:1"))
	b.send("reserve-job 1\r\n")
	f.committed(j)
	b.take()
	return j, d
}

const largeSize = 5 << 20

// committed commits everything, and lets all clients continue.
func (f *fixture) committed(j *commit.Journal) {
	f.t.Helper()
	f.rest()
	for range 2 { // a reply may depend on the next
		if err := j.Commit(); err != nil {
			f.t.Fatal(err)
		}
		f.rest()
	}
}

// told sends text, commits it, and wants the replies.
func (c *testConn) told(j *commit.Journal, text string, want ...string) {
	c.f.t.Helper()
	c.send(text)
	c.f.committed(j)
	c.hears(want...)
}

// tended makes the journal free space.
func (f *fixture) tended(j *commit.Journal) {
	f.t.Helper()
	if err := j.Tend(); err != nil {
		f.t.Fatal(err)
	}
	f.rest()
}

// exhaust puts until the journal has no room, though it could free some. No other client has a turn
// meanwhile.
func (f *fixture) exhaust(j *commit.Journal) {
	f.t.Helper()
	c := f.open()
	for range 1000 {
		if j.Pressure() != commit.Open {
			return
		}
		c.send("put 1 0 1 30000\r\n" + strings.Repeat("x", 30000) + "\r\n")
		if err := j.Commit(); err != nil {
			f.t.Fatal(err)
		}
	}
	f.t.Fatal("there is always room")
}

// settled checks that no claim is left and nothing is pending.
func (f *fixture) settled(j *commit.Journal) {
	f.t.Helper()
	f.committed(j)
	if s := j.Stats(); s.Promised != 0 || s.Pending != 0 {
		f.t.Errorf("%d bytes are promised and %d under way, with nothing to do", s.Promised, s.Pending)
	}
	f.check()
}

// TestReportsComeAfterARefusal: while a submission waits for room, reports about its client's other
// jobs are kept back until after the refusal.
func TestReportsComeAfterARefusal(t *testing.T) {
	f := newGearFixture(t)
	c, w, b := f.openGear(), f.openGear(), f.open()
	j, d := f.waits(c, b)
	c.told(j, packet(gearman.SubmitJob, "g", "", "y"), answer(gearman.JobCreated, "H:x:2"))
	w.told(j, packet(gearman.CanDo, "g")+packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:2", "g", "y"))
	c.asks(packet(gearman.SubmitJobBG, "f", "u", "x"))
	w.asks(packet(gearman.WorkComplete, "H:x:2", "done"))
	c.hears()
	d.full.Store(true)
	f.tended(j)
	c.hears(string(gearman.AppendError(nil, gearman.ErrorQueue)), answer(gearman.WorkComplete, "H:x:2", "done"))
	f.settled(j)
}

// TestJoinIsLetInWithItsOwnBody: the claim includes the large body of the submission itself, even
// after repeated attempts.
func TestJoinIsLetInWithItsOwnBody(t *testing.T) {
	f := newGearFixture(t)
	c, b, bg := f.openGear(), f.open(), f.openGear()
	j, _ := f.waits(c, b)
	bg.canPause = true
	const own = 900 << 10
	bg.send(packet(gearman.SubmitJobBG, "f", "u", strings.Repeat("y", own)))
	f.rest()
	f.letIn(j, bg, own+largeSize)
	bg.hears(answer(gearman.JobCreated, "H:x:1"))
	f.settled(j)
}

// letIn makes room until c gets its reply. It fails the test unless want bytes are reserved when the
// submission of c runs.
func (f *fixture) letIn(j *commit.Journal, c *testConn, want int64) {
	f.t.Helper()
	for range 100 {
		release := f.own(f.d.ShardOf("f"))
		f.tended(j)
		got := j.Stats().Promised
		release()
		f.rest()
		f.committed(j)
		if c.got.Len() > 0 {
			if got < want {
				f.t.Errorf("%d bytes are promised, want %d", got, want)
			}
			return
		}
	}
	f.t.Fatal("it is never admitted")
}

// TestBuryThatWaits: a bury that waits for room delays later commands, and ends with its session.
func TestBuryThatWaits(t *testing.T) {
	for _, end := range []string{"room", "full", "half-close", "abort"} {
		t.Run(end, func(t *testing.T) {
			f := newGearFixture(t)
			c, b := f.openGear(), f.open()
			j, d := f.waits(c, b)
			b.says("bury 1 5\nlist-tube-used\nput 1 0 1 100\nabc", "")
			want := "BURIED\nUSING default\n"
			if strings.HasSuffix(end, "full") {
				want = "OUT_OF_MEMORY\nUSING default\n"
				d.full.Store(true)
			}
			if strings.HasPrefix(end, "half-close") {
				b.s.HalfClose()
				f.rest()
			}
			if end == "abort" {
				b.s.Abort()
				want = ""
			}
			for range 20 {
				f.tended(j)
				f.committed(j)
			}
			b.wants(want)
			if ends := end != "room" && end != "full"; b.s.Gone() != ends || b.closed != ends {
				t.Errorf("the session has ended: %v, %v", b.s.Gone(), b.closed)
			}
			if !b.s.Gone() {
				if j.Stats().Promised == 0 && end == "room" {
					t.Error("nothing is promised for a body that is being read")
				}
				b.s.Abort()
			}
			f.settled(j)
		})
	}
}

// TestKickThatWaits: so does a kick in parts.
func TestKickThatWaits(t *testing.T) {
	for _, end := range []string{"room", "full", "half-close", "abort"} {
		t.Run(end, func(t *testing.T) {
			f := newFixture(t, router.Config{Loops: 1, Shards: 1})
			d := &fillingDisk{Disk: wal.Dir(t.TempDir())}
			j := f.keepOn(d)
			b := f.open()
			const many = 5000
			for range many / 100 {
				b.send(strings.Repeat("put 1 1000 1 1\r\nx\r\n", 100))
				f.committed(j)
				f.tended(j)
				if n := strings.Count(b.take(), "INSERTED"); n != 100 {
					t.Fatalf("%d of 100 are taken", n)
				}
			}
			b.send("kick 5000\r\nlist-tube-used\r\n")
			if !b.s.Session.Busy() {
				t.Fatal("it is done at once")
			}
			f.exhaust(j)
			f.rest()
			b.hears()
			if !b.stoppedBy(session.NoSpace) {
				t.Fatal("it does not wait")
			}
			switch end {
			case "full":
				d.full.Store(true)
				f.tended(j)
				f.committed(j)
				if got := b.take(); !strings.HasPrefix(got, "KICKED ") || !strings.HasSuffix(got, "USING default\r\n") || strings.Contains(got, "KICKED 5000") {
					t.Errorf("got %q", got)
				}
			case "half-close":
				b.s.HalfClose()
			case "abort":
				b.s.Abort()
			}
			f.tended(j)
			f.committed(j)
			if end == "room" || end == "half-close" {
				b.wants("KICKED 5000\nUSING default\n")
			}
			if ends := end == "abort" || end == "half-close"; b.s.Gone() != ends {
				t.Errorf("the session has ended: %v", !ends)
			}
			f.settled(j)
		})
	}
}

// TestReserveJobWaitsForRoom: a reserve-job that must record its job waits for room, as other
// changes do. On a full disk it runs without being recorded.
func TestReserveJobWaitsForRoom(t *testing.T) {
	for _, full := range []bool{false, true} {
		f := newGearFixture(t)
		a, b := f.open(), f.open()
		d := &fillingDisk{Disk: wal.Dir(t.TempDir())}
		j := f.keepOn(d)
		a.told(j, "put 1 5000 100 1\r\nx\r\n", "INSERTED 1\r\n")
		d.full.Store(full)
		f.exhaust(j)
		if full {
			f.tended(j)
		}
		b.send("reserve-job 1\r\n")
		f.committed(j)
		if !full {
			b.hears()
			f.tended(j)
			f.committed(j)
		}
		b.hears("RESERVED 1 1\r\nx\r\n")
		if full {
			b.told(j, "put 1 0 9 1\r\nx\r\nlist-tube-used\r\n", "OUT_OF_MEMORY\r\nUSING default\r\n")
		}
		f.settled(j)
	}
}

// keepOn gives the server a journal on a disk, which the test commits and tends.
func (f *fixture) keepOn(disk wal.Disk) *commit.Journal {
	f.t.Helper()
	srv := f.d.Server
	j := commit.New(commit.Options{
		Options: wal.Options{Disk: disk, SegmentSize: 1 << 20, Manual: true, Now: time.Now, Logger: slog.New(slog.DiscardHandler)},
		Shards:  len(srv.Host().Map.Shards()), Notify: srv.Host().Wake,
	})
	if err := srv.LeadWith(j, disk); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := j.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return j
}
