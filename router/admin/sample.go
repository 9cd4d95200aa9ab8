package admin

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/router/session"
	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
)

// A Sample has the server's figures at about one time. It is immutable, so all callers within
// sampleFor share it.
type Sample struct {
	Number   uint64 // increases with each sample
	At       time.Time
	Started  time.Time
	Draining bool

	Jobs        core.Counts
	Flow        core.Flow // of all tubes, since the start
	Tubes       int
	Shards      []shard.Counters
	Loops       int
	Sums        *session.Sums
	Commands    []protocol
	Connections int // the connection limit

	Journal  *commit.Stats // nil: there is none
	Pressure commit.Pressure
}

// A protocol counts the well-formed commands of a protocol by kind, and its error replies. Kinds
// and errors without a name are omitted.
type protocol struct {
	Name     string
	Kinds    []Count
	Errors   []Count
	Open     int64  // connections
	Accepted uint64 // connections since the start
}

// A Count is a named counter.
type Count struct {
	Name  string
	Count uint64
}

// counted pairs names with the first counters of n, and returns the other counters.
func counted(names []string, n []uint64) (list []Count, rest []uint64) {
	for i, name := range names {
		if name != "" {
			list = append(list, Count{name, n[i]})
		}
	}
	return list, n[len(names):]
}

// sampleFor is how long a sample is reused. So callers cause at most one sum over all shards per
// second.
const sampleFor = time.Second

// A cached value is replaced when it is too old.
type cached[T any] struct {
	mu sync.Mutex // held while the value is made
	at time.Time
	v  *T // nil: not made yet
}

// get returns a value younger than age. If there is none, fresh makes one, given the last value.
func (c *cached[T]) get(age time.Duration, fresh func(last *T) (*T, error)) (*T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := time.Now(); c.v == nil || at.Sub(c.at) >= age {
		v, err := fresh(c.v)
		if err != nil {
			return nil, err
		}
		c.v, c.at = v, at
	}
	return c.v, nil
}

// Sample returns the figures of the last second.
func (o *Operator) Sample(ctx context.Context) (*Sample, error) {
	return o.SampleWithin(ctx, sampleFor)
}

// SampleWithin returns a sample younger than age, for callers that sample regularly.
func (o *Operator) SampleWithin(ctx context.Context, age time.Duration) (*Sample, error) {
	v, err := o.samples.get(age, func(last *Sample) (v *Sample, err error) {
		err = o.run(ctx, func(c *direct.Caller) error {
			v = o.sample(c)
			return nil
		})
		if err == nil && last != nil {
			v.Number = last.Number + 1
		}
		return v, err
	})
	if err == nil {
		err = o.Confirm(ctx) // without the lock, since Confirm may wait
	}
	return v, err
}

func (o *Operator) sample(c *direct.Caller) *Sample {
	h := o.opts.Host
	v := &Sample{
		Number: 1, At: time.Now(), Started: o.started, Draining: o.Draining(),
		Jobs: c.Counts(), Tubes: h.Map.Tubes().Len(), Loops: len(h.Loops()), Sums: h.Sums(),
	}
	var x core.OperatorOp
	c.Each(func(op *core.Op, _ bool) { op.AskFlow(nil, &x) }, func(*core.Reply) bool {
		v.Flow.Add(&x.Flow)
		return true
	})
	for _, sh := range h.Map.Shards() {
		v.Shards = append(v.Shards, sh.Counters())
	}
	commands, errors := v.Sums.Commands, v.Sums.Errors
	for _, f := range o.opts.Fronts {
		p := protocol{Name: f.Name()}
		p.Kinds, commands = counted(f.Kinds(), commands)
		p.Errors, errors = counted(f.Errors(), errors)
		for _, s := range v.Sums.Fronts {
			if s.Front == f {
				p.Open, p.Accepted = s.Open, s.Accepted
			}
		}
		v.Commands = append(v.Commands, p)
	}
	v.Connections, _ = o.opts.ConnectionLimit()
	v.Journal, v.Pressure = o.Kept()
	return v
}

// Server returns the server's figures of a sample, without the program's version and the counts
// of events.
func (o *Operator) Server(v *Sample) *wire.Server {
	host, _ := os.Hostname() // empty: it has none
	return &wire.Server{
		GoVersion: runtime.Version(), Hostname: host, PID: os.Getpid(),
		Started: v.Started.UTC(), UptimeSeconds: int64(time.Since(v.Started).Seconds()),
		State: o.opts.Life.Phase().String(), Draining: o.Draining(),
		Loops: v.Loops, Shards: len(v.Shards), MaxJobSize: o.opts.MaxJobSize(),
		MappedBytes: v.Jobs.MappedBytes, Tubes: v.Tubes,
		Jobs:      wire.Counts{Ready: v.Jobs.Ready, Urgent: v.Jobs.Urgent, Delayed: v.Jobs.Delayed, Reserved: v.Jobs.Reserved, Buried: v.Jobs.Buried},
		JobsTotal: v.Jobs.Total, JobTimeouts: v.Jobs.Timeouts,
		Connections: wire.Connections{
			Open: v.Sums.Connections, Limit: v.Connections, Accepted: v.Sums.TotalConnections,
			Producers: v.Sums.Producers, Workers: v.Sums.Workers, Waiting: v.Sums.Waiting, Sleeping: v.Sums.Sleeping,
		},
		AsOf: v.At.UTC(),
	}
}

// pressures has the names of commit.Pressure.
var pressures = [...]string{commit.Open: "open", commit.Wait: "wait", commit.Full: "full"}

// Journal returns the current state of the journal, also on a follower.
func (o *Operator) Journal() (*wire.Journal, error) {
	if err := o.Ready(); err != nil && o.opts.Life.Phase() != Following {
		return nil, err
	}
	s, p := o.Kept()
	return journalValue(s, p), nil
}

// Kept returns the state of the journal, also on a follower; nil: there is none, it is being read,
// or the server stops. It blocks while it reads the free space of the disk. The pressure of a
// follower is Full or Open, since a follower has no clients that could wait.
func (o *Operator) Kept() (*commit.Stats, commit.Pressure) {
	j, p := o.kept()
	if j == nil {
		return nil, p
	}
	s := j.Stats()
	s.Room = j.Room()
	return &s, p
}

// kept returns the journal for Kept, and its pressure. It never blocks.
func (o *Operator) kept() (j commit.Storage, p commit.Pressure) {
	phase := o.opts.Life.Phase()
	switch phase {
	case Following:
		j = o.opts.Followed()
	case Serving:
		j = o.journal()
	}
	if j == nil {
		return nil, commit.Open
	}
	if p = j.Pressure(); phase == Following && p == commit.Wait {
		p = commit.Open
	}
	return j, p
}

// JournalOf returns the state of the journal in a sample.
func JournalOf(v *Sample) *wire.Journal { return journalValue(v.Journal, v.Pressure) }

// journalValue returns the state of a journal for a reply; s is nil if there is none.
func journalValue(s *commit.Stats, p commit.Pressure) *wire.Journal {
	if s == nil {
		return &wire.Journal{Pressure: pressures[commit.Open]}
	}
	return &wire.Journal{
		Enabled: true, Pressure: pressures[p],
		Segments: s.Segments, OldestSegment: s.Oldest, CurrentSegment: s.Current,
		Bytes: s.Bytes, LiveBytes: s.Live, PendingBytes: s.Pending, PromisedBytes: s.Promised, RoomBytes: s.Room,
		Batches: s.Batches, Records: s.Records, Migrated: s.Migrated, Commits: s.Commits,
	}
}
