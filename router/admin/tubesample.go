package admin

import (
	"context"
	"math"
	"runtime"
	"slices"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// A TubeSample is all tubes, each as of a visit to its shard. It is never changed, so all
// who ask within tubesFor share one.
type TubeSample struct {
	Number uint64 // another whenever a row is, but for what only time has changed
	At     time.Time
	Rows   []core.TubeRow // shard by shard, each in the order of its table
	Rates  []Rates        // of each row
	// Changed is the Number of the sample in which each row was last another than before,
	// but for what only time has changed.
	Changed []uint64

	ends []int // where each shard's rows end
}

// Rates are how often something happens in a tube, a second: means in which the past counts
// the less the longer it is ago, by e after ratesOver. Zero in the first sample of a tube.
type Rates struct {
	Put, Reserve, Delete, Timeout float32
}

const (
	// tubesFor is how long a TubeSample serves.
	tubesFor = 2 * time.Second
	// ratesOver is the time over which rates are means.
	ratesOver = time.Minute
	// ratesForgotten is after how long without a sample rates begin anew: what is known of
	// the time between would be no rate of the last minute.
	ratesForgotten = 2 * time.Minute
)

// Tubes gives all tubes as of the last two seconds. Nothing is looked at unless somebody
// asks.
func (o *Operator) Tubes(ctx context.Context) (*TubeSample, error) {
	return o.TubesWithin(ctx, tubesFor)
}

// TubesWithin returns a sample that is younger than age, for callers that ask as time goes by.
func (o *Operator) TubesWithin(ctx context.Context, age time.Duration) (*TubeSample, error) {
	v, err := o.takeTubes(ctx, age)
	if err == nil {
		err = o.Confirm(ctx) // without the lock, since Confirm may wait
	}
	return v, err
}

func (o *Operator) takeTubes(ctx context.Context, age time.Duration) (*TubeSample, error) {
	s := &o.samples
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tubes != nil && time.Since(s.tubes.At) < age {
		return s.tubes, nil
	}
	err := o.run(ctx, func(c *direct.Caller) error {
		v := o.sampleTubes(ctx, c)
		if v == nil {
			return wire.Busy.Problem("to look at all tubes takes too long")
		}
		v.follow(s.tubes, s.number+1)
		s.number = max(s.number, v.Number)
		s.tubes = v
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.tubes, nil
}

// tubesMore tubes may come while others are listed, without the list growing.
const tubesMore = 64

// inVisit is for how many tubes, of so many that there are, there must be room before a visit:
// 50,000 rows are not copied while a shard is owned.
func inVisit(tubes int) int { return min(core.TubesMost, tubes+tubesMore) }

// sampleTubes looks at all tubes, in visits that are bounded; nil: ctx has ended.
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
	}, func(_ int, r *core.Reply) bool {
		if r.Status != core.StatusMore {
			v.ends = append(v.ends, len(x.Tubes))
			runtime.Gosched() // event loops come first
		} else {
			o.rest(start)
		}
		return ctx.Err() == nil
	})
	c.Op().Operator = nil
	if ctx.Err() != nil {
		return nil
	}
	v.Rows = x.Tubes
	return v
}

// follow works out the rates and what has changed, from the sample before, which may be nil;
// v has the number next unless nothing has. A shard's rows are in the order of their ids, so
// both samples are walked once. An id whose name is another is another tube.
func (v *TubeSample) follow(old *TubeSample, next uint64) {
	v.Number = next
	v.Rates = make([]Rates, len(v.Rows))
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
				v.Rates[i] = old.Rates[k].next(&old.Rows[k], row, took, keep)
				if v.Rates[i] == old.Rates[k] && settled(row) == settled(&old.Rows[k]) {
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

// settled is a row without what time alone changes.
func settled(row *core.TubeRow) core.TubeRow {
	r := *row
	r.Oldest, r.PauseLeft = 0, min(r.PauseLeft, 1)
	return r
}

// next are the rates after a time in seconds, in which a tube has gone from old to now.
func (r Rates) next(old, now *core.TubeRow, took, keep float64) Rates {
	mean := func(was float32, from, to uint64) float32 {
		if to < from { // a tube of the same name that was made anew
			return 0
		}
		rate := float64(was)*keep + float64(to-from)/took*(1-keep)
		if rate < 1e-4 { // less than one in hours: so that a tube at rest comes to rest here
			return 0
		}
		return float32(rate)
	}
	return Rates{
		mean(r.Put, old.Total, now.Total),
		mean(r.Reserve, old.Events[stats.Reserve], now.Events[stats.Reserve]),
		mean(r.Delete, old.Deletes, now.Deletes),
		mean(r.Timeout, old.Events[stats.Timeout], now.Events[stats.Timeout]),
	}
}

// A TubeView is one tube.
type TubeView struct {
	core.TubeRow
	Rates
	Flow core.Flow
}

// View completes a row with the histograms of its tube, as of now; for a tube that has gone
// meanwhile they are empty. Each is a visit to a shard.
func (o *Operator) View(ctx context.Context, v *TubeSample, i int) (t TubeView, err error) {
	t.TubeRow, t.Rates = v.Rows[i], v.Rates[i]
	if t.Events == ([stats.Events]uint64{}) {
		return t, nil // nothing was ever reserved
	}
	err = o.read(ctx, func(c *direct.Caller) error {
		t.Flow, _ = c.FlowOf([]byte(t.Name))
		return nil
	})
	return t, err
}

// Tube is what there is to tell about one, as of now; its rates are those of the last two
// seconds' sample.
func (o *Operator) Tube(ctx context.Context, name string) (t TubeView, err error) {
	err = o.read(ctx, func(c *direct.Caller) error {
		var ok bool
		if t.TubeStats, ok = c.StatsTube([]byte(name)); !ok {
			return noTube(name)
		}
		if t.Flow, ok = c.FlowOf([]byte(name)); !ok {
			return noTube(name) // it has gone between the visits
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	t.Bytes, t.Oldest, t.Events = t.Flow.Bytes, t.Flow.Oldest, t.Flow.Events
	all, err := o.Tubes(ctx)
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

// Flows reads the histograms of some rows of a sample into out, as of now, each by a visit to
// a shard: of a tube that has gone they are empty. out has place for all of them.
func (o *Operator) Flows(ctx context.Context, v *TubeSample, rows []int, out []core.Flow) error {
	return o.read(ctx, func(c *direct.Caller) error {
		for k, i := range rows {
			out[k] = core.Flow{}
			if row := &v.Rows[i]; row.Events != ([stats.Events]uint64{}) { // something was reserved
				out[k], _ = c.FlowOf([]byte(row.Name))
			}
		}
		runtime.Gosched()
		return ctx.Err()
	})
}
