package beanstalkd

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/commit"
	"polystalk/shard/core"
)

// statsCost is the cost of one shard's part of stats, in units of a turn.
const statsCost = 4

// stats starts the walk over all shards for the command stats.
func (c *conn) stats() {
	w := c.walking()
	w.sum = new(core.Counts)
	c.statsOf(w.shards.Start(c.Host().Map), new(core.Counts))
}

func (c *conn) statsOf(shard int, n *core.Counts) {
	c.Spend(statsCost)
	c.Op().Stats(n)
	c.runOn(shard, (*conn).gathered)
}

// gathered takes one shard's counts.
func (c *conn) gathered(r *core.Reply) {
	w, op := c.walk, c.Op()
	w.sum.Add(op.Counts)
	if h := w.shards.Next(r.Status); h.Shard != ops.None {
		c.statsOf(h.Shard, op.Counts)
		return
	}
	c.SetOut(beanstalk.AppendServerStats(c.Out(), c.front.stats(w.sum)))
	w.sum, op.Counts = nil, nil
}

// stats returns the reply to stats: n, the sums over all shards, and the counts of the loops.
func (f *Front) stats(n *core.Counts) *beanstalk.ServerStats {
	h := f.host
	loops := h.Sums()
	st := &beanstalk.ServerStats{
		CurrentJobsUrgent:   n.Urgent,
		CurrentJobsReady:    n.Ready,
		CurrentJobsReserved: n.Reserved,
		CurrentJobsDelayed:  n.Delayed,
		CurrentJobsBuried:   n.Buried,
		JobTimeouts:         n.Timeouts,
		TotalJobs:           n.Total,
		MaxJobSize:          uint64(f.MaxJobSize()),
		CurrentTubes:        uint64(h.Map.Tubes().Len()),
		CurrentConnections:  uint64(loops.Connections),
		CurrentProducers:    uint64(loops.Producers),
		CurrentWorkers:      uint64(loops.Workers),
		CurrentWaiting:      uint64(loops.Waiting),
		TotalConnections:    loops.TotalConnections,
		PID:                 os.Getpid(),
		Version:             f.cfg.Version,
		Uptime:              seconds(h.Clock.Now() - f.started),
		BinlogMaxSize:       f.cfg.BinlogMaxSize,
		Draining:            h.Draining.Load(),
		ID:                  f.id,
		Hostname:            unix.ByteSliceToString(f.uname.Nodename[:]),
		OS:                  unix.ByteSliceToString(f.uname.Version[:]),
		Platform:            unix.ByteSliceToString(f.uname.Machine[:]),
	}
	copy(st.Cmd[:], loops.Commands[f.base:])
	if b := f.binlog(); b.Current > 0 {
		st.BinlogOldestIndex, st.BinlogCurrentIndex = int(b.Oldest), int(b.Current)
		st.BinlogRecordsMigrated, st.BinlogRecordsWritten = int64(b.Migrated), int64(b.Records)
	}
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) == nil {
		st.RusageUtime = time.Duration(ru.Utime.Nano())
		st.RusageStime = time.Duration(ru.Stime.Nano())
	}
	return st
}

// binlog returns the journal's part of stats.
func (f *Front) binlog() commit.Stats {
	if f.host.Journal == nil {
		return commit.Stats{}
	}
	return f.host.Journal.Stats()
}

func (c *conn) saidJob(r *core.Reply) {
	op := c.Op()
	if j := op.JobStats; r.Status == core.StatusNotFound {
		c.fail(notFound)
	} else {
		st := jobStats(j)
		if log := c.Host().Journal; log != nil {
			st.File = int(log.Segment(j.Commit))
		}
		c.SetOut(beanstalk.AppendJobStats(c.Out(), &st))
	}
	op.JobStats = nil
}

func (c *conn) saidTube(r *core.Reply) {
	op := c.Op()
	if r.Status == core.StatusNotFound {
		c.fail(notFound)
	} else {
		st := tubeStats(op.TubeStats)
		c.SetOut(beanstalk.AppendTubeStats(c.Out(), &st))
	}
	op.TubeStats = nil
}
func jobStats(j *core.JobStats) beanstalk.JobStats {
	return beanstalk.JobStats{
		ID: uint64(j.ID), Tube: betweenQuotes(j.Tube), State: j.State.String(),
		Pri: j.Pri, Age: seconds(j.Age), Delay: int64(j.Delay), TTR: int64(j.TTR),
		TimeLeft: seconds(j.TimeLeft),
		Reserves: j.Reserves, Timeouts: j.Timeouts, Releases: j.Releases,
		Buries: j.Buries, Kicks: j.Kicks,
	}
}

func tubeStats(t *core.TubeStats) beanstalk.TubeStats {
	return beanstalk.TubeStats{
		Name:   betweenQuotes(t.Name),
		Urgent: t.Urgent, Ready: t.Ready, Reserved: t.Reserved,
		Delayed: t.Delayed, Buried: t.Buried, TotalJobs: t.Total,
		Using: t.Using, Watching: t.Watching, Waiting: t.Waiting,
		CmdDelete: t.Deletes, CmdPause: t.Pauses,
		Pause: seconds(t.Pause), PauseTimeLeft: seconds(t.PauseLeft),
	}
}

// betweenQuotes returns a tube's name for stats-job and stats-tube, which always put double quotes
// around it. The name of a Gearman function may have bytes that need escapes, as in list-tubes.
func betweenQuotes(name string) string {
	if beanstalk.ValidTubeName([]byte(name)) {
		return name
	}
	quoted := gearman.AppendQuoted(nil, []byte(name))
	return string(quoted[1 : len(quoted)-1])
}

func seconds(t core.Time) int64 { return int64(t / core.Second) }

// Tell implements session.Teller. Tubes that the client uses or watches in name only do not count.
func (c *conn) Tell(t *session.Client, names int) {
	if c.used.ID != 0 {
		t.Used = c.used.Name
	}
	t.Watching = c.watched.Len()
	for i := range min(names, t.Watching) {
		t.Watched = append(t.Watched, c.watched.Face(i).Name())
	}
	t.Places = session.PlacesOf(&c.handles)
}

// Knows implements session.Teller.
func (c *conn) Knows(tube []byte) bool {
	return c.used.ID != 0 && c.used.Name == string(tube) || c.watched.Find(tube) >= 0
}

// Holds implements session.Teller.
func (c *conn) Holds() bool { return c.handles.Hold() }
