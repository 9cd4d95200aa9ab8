package router

import (
	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// gathering is what a command with several replies remembers between them.
type gathering struct {
	at     int // shard or watch list entry asked last
	kicked uint32
	spread bool // the entries of the watch list before at were asked for their keys
	sum    *core.Counts
}

// statsCost is what one shard's part of stats takes of a turn's budget.
const statsCost = 4

// stats starts the walk over the shards.
func (s *session) stats() {
	s.gather.at = 0
	s.gather.sum = new(core.Counts)
	s.req.Op.Counts = new(core.Counts)
	s.statsNext()
}

func (s *session) statsNext() {
	op := &s.req.Op
	op.Kind, op.Client = core.OpStats, 0
	s.loop.round.budget -= statsCost
	s.submit(s.gather.at, stepStats)
}

// gathered takes the reply of a stats operation.
func (s *session) gathered(r *core.Reply) {
	op := &s.req.Op
	out := &s.loop.out
	switch {
	case s.step == stepStats:
		s.gather.sum.Add(op.Counts)
		if s.gather.at++; s.gather.at < len(s.loop.srv.places.Shards()) {
			s.statsNext()
			return
		}
		st := s.loop.srv.stats(s.gather.sum)
		*out = beanstalk.AppendServerStats(*out, st)
		s.gather.sum = nil
	case r.Status == core.StatusNotFound:
		s.say(beanstalk.MsgNotFound)
	case s.step == stepStatsJob:
		st := jobStats(op.JobStats)
		if j := s.loop.srv.journal; j != nil {
			st.File = int(j.Segment(op.JobStats.Commit))
		}
		*out = beanstalk.AppendJobStats(*out, &st)
	default:
		st := tubeStats(op.TubeStats)
		*out = beanstalk.AppendTubeStats(*out, &st)
	}
	op.Name, op.JobStats, op.TubeStats, op.Counts = nil, nil, nil, nil
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

// betweenQuotes is a tube's name for stats-job and stats-tube, which put it in double
// quotes whatever it is. That of a function may have bytes that need escapes, as in
// list-tubes.
func betweenQuotes(name string) string {
	if beanstalk.ValidTubeName([]byte(name)) {
		return name
	}
	quoted := gearman.AppendQuoted(nil, []byte(name))
	return string(quoted[1 : len(quoted)-1])
}

func seconds(t core.Time) int64 { return int64(t / core.Second) }
