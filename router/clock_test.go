package router_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

const hour = core.Time(time.Hour)

// clockFaults are changes of a machine's clock by an administrator, a late time server or a suspend.
var clockFaults = []struct {
	name  string
	ahead core.Time // the time of day steps
	slept core.Time // the machine is suspended
}{
	{"nothing", 0, 0},
	{"the clock is set ahead", 8 * hour, 0},
	{"the clock is set back", -8 * hour, 0},
	{"a suspend", 0, 8 * hour},
	{"a suspend, and the clock is set back", -9 * hour, 8 * hour},
}

// restart gives the machine's disk to another server, which starts now.
func (f *fixture) restart(j *commit.Journal, disk wal.Disk) (*fixture, *commit.Journal) {
	f.t.Helper()
	if err := j.Close(); err != nil {
		f.t.Fatal(err)
	}
	g := newFixture(f.t, router.Config{Loops: 1, Shards: 4, Gearman: router.GearmanConfig{Prefix: "H:x"}})
	g.now = f.now + f.slept + f.ahead // the new clock begins with the time of day
	return g, g.keepOn(disk)
}

// TestClockStepsAndRestarts: for all changes of the machine's clock, delays and pauses keep their
// length, and a job with a date is due at its date, also after a restart of the server.
func TestClockStepsAndRestarts(t *testing.T) {
	for _, fault := range clockFaults {
		t.Run(fault.name, func(t *testing.T) {
			f := newGearFixture(t)
			disk := wal.Dir(t.TempDir())
			j := f.keepOn(disk)
			c, w := f.open(), f.openGear()
			f.ahead, f.slept = fault.ahead, fault.slept
			date := (f.now+f.slept+f.ahead)/core.Second + 60
			c.send("use delayed\r\nput 0 3600 1 1\r\na\r\nuse paused\r\nput 0 0 1 1\r\nb\r\npause-tube paused 3600\r\n")
			w.send(packet(gearman.SubmitJobEpoch, "dated", "", fmt.Sprint(date), "c"))
			f.committed(j)
			c.wants("USING delayed\nINSERTED 1\nUSING paused\nINSERTED 2\nPAUSED\n")
			w.hears(answer(gearman.JobCreated, "H:x:3"))
			f.wantsTimes("before the restart", 3600, 3600, 60)

			f.pass(10 * core.Second)
			f.wantsTimes("ten seconds later", 3590, 3590, 50)
			g, k := f.restart(j, disk)
			g.wantsTimes("after the restart", 3590, 3590, 50)
			g.pass(10 * core.Second)

			// Again, because restored times are translated when they are written.
			g.ahead = 5 * hour
			d := g.open()
			d.send("use delayed\r\npause-tube paused 100\r\n")
			g.committed(k)
			d.wants("USING delayed\nPAUSED\n")
			h, _ := g.restart(k, disk)
			h.wantsTimes("after another", 3580-5*3600, 100, 40-5*3600)
		})
	}
}

// wantsTimes checks the remaining delay of job 1, pause of tube "paused" and delay of job 3, in
// seconds; below zero: they are over.
func (f *fixture) wantsTimes(when string, delay, pause, date int) {
	f.t.Helper()
	f.rest()
	var b shard.Batch
	f.d.Stamp(&b)
	for _, id := range []core.JobID{1, 3} {
		want := delay
		if id == 3 {
			want = date
		}
		var s core.JobStats
		f.ask("", core.Op{Kind: core.OpStatsJob, ID: id, Figures: core.Figures{JobStats: &s}})
		if state := map[bool]core.State{true: core.Delayed, false: core.Ready}[want > 0]; s.State != state || want > 0 && s.TimeLeft/core.Second != core.Time(want) {
			f.t.Errorf("%s: job %d is %v for %v, want %v for %d s", when, id, s.State, time.Duration(s.TimeLeft), state, want)
		}
		if s.Age < 0 || s.Age > 30*core.Second && want > 0 {
			f.t.Errorf("%s: job %d is %v old", when, id, time.Duration(s.Age))
		}
	}
	var s core.TubeStats
	f.ask("paused", core.Op{Kind: core.OpStatsTube, Name: []byte("paused"), Figures: core.Figures{TubeStats: &s}})
	if s.PauseLeft/core.Second != core.Time(pause) {
		f.t.Errorf("%s: the pause lasts %v, want %d s", when, time.Duration(s.PauseLeft), pause)
	}
}

// ask runs an operation in the shard of a tube or of the job.
func (f *fixture) ask(tube string, op core.Op) (r core.Reply) {
	f.t.Helper()
	sh := f.d.ShardOf(tube)
	if tube == "" {
		sh, _ = f.d.Server.Host().Map.OfJob(op.ID)
	}
	release := f.own(sh)
	defer release()
	f.d.Stamp(&f.other)
	f.d.Shards()[sh].Apply(&f.other, &op, &r)
	if r.Status != core.StatusOK {
		f.t.Fatalf("operation %d: status %d", op.Kind, r.Status)
	}
	return r
}

// TestSuspend: delays and pauses include the time of a suspend; times to run and waits do not.
func TestSuspend(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	holder, waiter, c := f.open(), f.open(), f.open()
	tubes := apartTubes(f, 3)
	holder.says("put 0 0 60 1\na\nreserve\n", "INSERTED 1\nRESERVED 1 1\na\n")
	waiter.says("watch "+tubes[0]+"\nignore default\nreserve-with-timeout 30\n", "WATCHING 2\nWATCHING 1\n")
	c.says("use "+tubes[1]+"\nput 0 3600 1 1\nb\n", "USING "+tubes[1]+"\nINSERTED 2\n")
	c.says("use "+tubes[2]+"\nput 0 0 1 1\nc\npause-tube "+tubes[2]+" 3600\n", "USING "+tubes[2]+"\nINSERTED 3\nPAUSED\n")
	f.pass(10 * core.Second)

	f.slept += 8 * hour
	f.pass(0)
	f.check()
	waiter.wants("")
	c.says("use "+tubes[1]+"\npeek-ready\n", "USING "+tubes[1]+"\nFOUND 2 1\nb\n")
	c.says("watch "+tubes[2]+"\nignore default\nreserve-with-timeout 0\nrelease 3 0 0\nignore "+tubes[2]+"\n",
		"WATCHING 2\nWATCHING 1\nRESERVED 3 1\nc\nRELEASED\nNOT_IGNORED\n")

	f.pass(19 * core.Second)
	waiter.wants("")
	f.pass(core.Second)
	waiter.wants("TIMED_OUT\n")
	holder.says("touch 1\n", "TOUCHED\n")
	f.pass(59 * core.Second)
	holder.says("reserve-with-timeout 0\n", "DEADLINE_SOON\n")
	f.slept += 8 * hour
	f.pass(0)
	f.check()
	holder.says("touch 1\n", "TOUCHED\n")
	f.pass(60 * core.Second)
	holder.says("touch 1\n", "NOT_FOUND\n")
	f.check()
}

// TestWarningsAfterClockIsSetBack: a time of day that steps back does not suppress warnings.
func TestWarningsAfterClockIsSetBack(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 1})
	var log bytes.Buffer
	h := f.d.Server.Host()
	h.Log = slog.New(slog.NewTextHandler(&log, nil))
	h.Complain("first")
	h.Complain("suppressed within a second")
	f.ahead -= 8 * hour
	f.now += 2 * core.Second
	h.Complain("second")
	if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "msg=second suppressed=1") {
		t.Errorf("logged:\n%s\nwant the first and the second", got)
	}
}
