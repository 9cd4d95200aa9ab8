package admin

import (
	"context"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/router/session"
	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// A Sample has the server's figures at about one time. It is immutable, so all callers within
// SampleFor share it.
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

// SampleFor is how long a sample is reused. So callers cause at most one sum over all shards per
// second.
const SampleFor = time.Second

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

// Sample returns a sample younger than age. Callers that sample rarely give SampleFor.
func (o *Operator) Sample(ctx context.Context, age time.Duration) (*Sample, error) {
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

// Server returns the server's figures of a sample, without the program's version.
func (o *Operator) Server(v *Sample) *wire.Server {
	host, _ := os.Hostname() // empty: it has none
	s := &wire.Server{
		GoVersion: runtime.Version(), Hostname: host, PID: os.Getpid(),
		Started: v.Started.UTC(), UptimeSeconds: int64(time.Since(v.Started).Seconds()),
		State: o.opts.Life.Phase().String(), Draining: o.Draining(),
		Loops: v.Loops, Shards: len(v.Shards), MaxJobSize: o.opts.MaxJobSize(),
		MappedBytes: v.Jobs.MappedBytes, Tubes: v.Tubes,
		Jobs:      wire.Counts{Ready: v.Jobs.Ready, Urgent: v.Jobs.Urgent, Delayed: v.Jobs.Delayed, Reserved: v.Jobs.Reserved, Buried: v.Jobs.Buried},
		JobsTotal: v.Jobs.Total, JobTimeouts: v.Jobs.Timeouts,
		Events: map[string]uint64{"put": v.Flow.Puts, "delete": v.Flow.Deletes},
		Connections: wire.Connections{
			Open: v.Sums.Connections, Limit: v.Connections, Accepted: v.Sums.TotalConnections,
			Producers: v.Sums.Producers, Workers: v.Sums.Workers, Waiting: v.Sums.Waiting, Sleeping: v.Sums.Sleeping,
		},
		AsOf: v.At.UTC(),
	}
	for e, name := range EventNames {
		s.Events[name] = v.Flow.Events[e]
	}
	return s
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

// Handshakes returns the counters of TLS for clients, also on a follower.
func (o *Operator) Handshakes() *session.Handshakes { return &o.opts.Host.Handshakes }

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

// A TubeSample has all tubes, each at the time of a visit to its shard. It is immutable, so all
// callers within TubesFor share it.
type TubeSample struct {
	Number uint64 // increases when rows change, except changes that time alone causes
	At     time.Time
	Rows   []core.TubeRow // shard by shard, each in the order of its table
	Rates  []wire.Rates   // for each row; zero in the first sample of a tube
	// Changed has, for each row, the Number of the sample in which it last changed, without
	// changes that time alone causes.
	Changed []uint64

	ends []int // index after the last row of each shard
}

const (
	// TubesFor is how long a TubeSample is reused.
	TubesFor = 2 * time.Second
	// ratesOver is the decay time of the averages.
	ratesOver = time.Minute
	// ratesForgotten is the longest time between two samples from which rates are made. After a
	// longer time, the events say little about the last minute, and the rates restart at zero.
	ratesForgotten = 2 * time.Minute
)

// Tubes returns a sample younger than age. Callers that sample rarely give TubesFor.
func (o *Operator) Tubes(ctx context.Context, age time.Duration) (*TubeSample, error) {
	v, err := o.tubes.get(age, func(last *TubeSample) (v *TubeSample, err error) {
		err = o.run(ctx, func(c *direct.Caller) error {
			if v = o.sampleTubes(ctx, c); v == nil {
				return wire.Busy.Problem("reading all tubes takes too long")
			}
			v.follow(last)
			return nil
		})
		return v, err
	})
	if err == nil {
		err = o.Confirm(ctx) // without the lock, since Confirm may wait
	}
	return v, err
}

// tubesMore is the number of tubes that can be created during a sample without a larger list.
const tubesMore = 64

// inVisit returns the largest number of rows in a visit. They are allocated before the visit, so
// that 50,000 rows are not copied while a shard is owned.
func inVisit(tubes int) int { return min(core.TubesMost, tubes+tubesMore) }

// sampleTubes lists all tubes in bounded visits; nil: ctx has ended.
func (o *Operator) sampleTubes(ctx context.Context, c *direct.Caller) *TubeSample {
	tubes := o.opts.Host.Map.Tubes()
	x := core.OperatorOp{Tubes: make([]core.TubeRow, 0, tubes.Len()+tubesMore+inVisit(tubes.Len()))}
	v := &TubeSample{At: time.Now()}
	var start time.Time // of a visit
	c.Each(func(op *core.Op, first bool) {
		if first {
			x.Cursor = core.Cursor{}
		}
		x.Tubes = slices.Grow(x.Tubes, inVisit(tubes.Len()))
		start = time.Now()
		op.ListTubes(&x)
	}, func(r *core.Reply) bool {
		if r.Status != core.StatusMore {
			v.ends = append(v.ends, len(x.Tubes))
			runtime.Gosched() // event loops come first
		} else {
			o.rest(start)
		}
		return ctx.Err() == nil
	})
	if ctx.Err() != nil {
		return nil
	}
	v.Rows = x.Tubes
	return v
}

// follow sets Number, Rates and Changed. old is the last sample; it may be nil. A shard's rows are
// sorted by id, so one pass over both samples is enough. The same id with another name is another
// tube.
func (v *TubeSample) follow(old *TubeSample) {
	next := uint64(1)
	if old != nil {
		next = old.Number + 1
	}
	v.Number = next
	v.Rates = make([]wire.Rates, len(v.Rows))
	v.Changed = make([]uint64, len(v.Rows))
	for i := range v.Changed {
		v.Changed[i] = next
	}
	if old == nil || v.At.Sub(old.At) > ratesForgotten || len(old.ends) != len(v.ends) {
		return
	}
	took := v.At.Sub(old.At).Seconds()
	keep := math.Exp(-took / ratesOver.Seconds())
	i, k, same := 0, 0, 0
	for shard, end := range v.ends {
		for ; i < end; i++ {
			row := &v.Rows[i]
			for k < old.ends[shard] && old.Rows[k].ID < row.ID {
				k++
			}
			if k < old.ends[shard] && old.Rows[k].ID == row.ID && old.Rows[k].Name == row.Name {
				v.Rates[i] = nextRates(old.Rates[k], &old.Rows[k], row, took, keep)
				if v.Rates[i] == old.Rates[k] && timeless(row) == timeless(&old.Rows[k]) {
					v.Changed[i] = old.Changed[k]
					same++
				}
			}
		}
		k = old.ends[shard]
	}
	if same == len(v.Rows) && same == len(old.Rows) {
		v.Number = old.Number
	}
}

// timeless returns a row without the values that time alone changes.
func timeless(row *core.TubeRow) core.TubeRow {
	r := *row
	r.Oldest, r.PauseLeft = 0, min(r.PauseLeft, 1)
	return r
}

// nextRates returns the rates after r and took seconds, in which a tube has changed from old to now.
// They are averages with exponential decay over ratesOver.
func nextRates(r wire.Rates, old, now *core.TubeRow, took, keep float64) wire.Rates {
	mean := func(was float32, from, to uint64) float32 {
		if to < from { // a new tube of the same name
			return 0
		}
		rate := float64(was)*keep + float64(to-from)/took*(1-keep)
		if rate < 1e-4 { // an event in hours: the rates of an idle tube become zero
			return 0
		}
		return float32(rate)
	}
	return wire.Rates{
		Put:     mean(r.Put, old.Total, now.Total),
		Reserve: mean(r.Reserve, old.Events[stats.Reserve], now.Events[stats.Reserve]),
		Delete:  mean(r.Delete, old.Deletes, now.Deletes),
		Timeout: mean(r.Timeout, old.Events[stats.Timeout], now.Events[stats.Timeout]),
	}
}

// A TubeView is a tube with its histograms.
type TubeView struct {
	core.TubeRow
	wire.Rates
	Flow core.Flow
}

// View returns row i of a sample with the current histograms of its tube, which it reads in a
// visit to the shard. They are empty if the tube does not exist any more.
func (o *Operator) View(ctx context.Context, v *TubeSample, i int) (t TubeView, err error) {
	var f [1]core.Flow
	if v.Rows[i].Events != ([stats.Events]uint64{}) { // something was reserved
		err = o.Flows(ctx, v, []int{i}, f[:])
	}
	return TubeView{v.Rows[i], v.Rates[i], f[0]}, err
}

// flowOf returns the flow of a tube; false: the tube does not exist. It uses x, which can be reused.
func flowOf(c *direct.Caller, x *core.OperatorOp, name string) (f core.Flow, ok bool) {
	x.Flow, x.Tubes = core.Flow{}, x.Tubes[:0]
	c.Op().AskFlow([]byte(name), x)
	ok = c.DoTube(name).Status == core.StatusOK
	return x.Flow, ok
}

// Tube returns the current state of a tube. Its rates may be two seconds old.
func (o *Operator) Tube(ctx context.Context, name string) (t TubeView, err error) {
	err = o.read(ctx, func(c *direct.Caller) error {
		var x core.OperatorOp
		var ok bool
		if t.Flow, ok = flowOf(c, &x, name); !ok {
			return NoTube(name)
		}
		t.TubeRow = x.Tubes[0]
		return nil
	})
	if err != nil {
		return t, err
	}
	all, err := o.Tubes(ctx, TubesFor)
	if err != nil {
		return t, err
	}
	for i := range all.Rows {
		if all.Rows[i].Name == name {
			t.Rates = all.Rates[i]
		}
	}
	return t, nil
}

// Flows reads the current histograms of some rows of a sample into out, which must be as long as
// rows. Each row takes a visit to a shard. The Flow of a tube that no longer exists is empty.
func (o *Operator) Flows(ctx context.Context, v *TubeSample, rows []int, out []core.Flow) error {
	return o.read(ctx, func(c *direct.Caller) error {
		var x core.OperatorOp
		for k, i := range rows {
			out[k] = core.Flow{}
			if row := &v.Rows[i]; row.Events != ([stats.Events]uint64{}) { // something was reserved
				out[k], _ = flowOf(c, &x, row.Name)
			}
		}
		runtime.Gosched()
		return ctx.Err()
	})
}
