package admin

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/codec/beanstalk"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

// A TubeSample is all tubes, each as of its own visit. It is never changed.
type TubeSample struct {
	Number uint64 // another whenever a row is
	At     time.Time
	Rows   []core.TubeStats // in the order of list-tubes
}

const (
	// tubesFor is how long a TubeSample serves.
	tubesFor = 2 * time.Second
	// tubesStep is how many tubes are looked at before others have the processor.
	tubesStep = 256
)

// Tubes gives all tubes as of the last two seconds.
func (o *Operator) Tubes(ctx context.Context) (*TubeSample, error) {
	s := &o.samples
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tubes != nil && time.Since(s.tubes.At) < tubesFor {
		return s.tubes, o.Ready()
	}
	err := o.run(ctx, func(c *direct.Caller) error {
		names, _ := o.opts.Host.Map.Tubes().Names()
		v := &TubeSample{At: time.Now(), Rows: make([]core.TubeStats, 0, names.Len())}
		for i := range names.Len() {
			if i%tubesStep == tubesStep-1 {
				if ctx.Err() != nil {
					return wire.Busy.Problem("to look at all tubes takes too long")
				}
				runtime.Gosched()
			}
			if row, ok := c.StatsTube([]byte(names.At(i))); ok {
				v.Rows = append(v.Rows, row)
			}
		}
		if old := s.tubes; old != nil && slices.Equal(old.Rows, v.Rows) {
			v.Number = old.Number
		} else {
			s.number++
			v.Number = s.number
		}
		s.tubes = v
		return nil
	})
	return s.tubes, err
}

// noTube is the problem of who names a tube that is not there.
func noTube(name string) error {
	return wire.NotFound.Problem(fmt.Sprintf("there is no tube %q", wire.ShownName(name)))
}

// Tube is what there is to tell about one.
func (o *Operator) Tube(ctx context.Context, name string) (s core.TubeStats, err error) {
	err = o.run(ctx, func(c *direct.Caller) error {
		var ok bool
		if s, ok = c.StatsTube([]byte(name)); !ok {
			return noTube(name)
		}
		return nil
	})
	return s, err
}

// Pause keeps reserve from a tube for so many seconds; zero: no longer.
func (o *Operator) Pause(ctx context.Context, name string, seconds uint32) error {
	return o.change(ctx, func(c *direct.Caller) (uint64, error) {
		n, ok := c.Pause([]byte(name), seconds)
		if !ok {
			return 0, noTube(name)
		}
		return n, nil
	})
}

// Kick makes up to count jobs of a tube ready: the buried ones if there are any, else the
// delayed ones.
func (o *Operator) Kick(ctx context.Context, name string, count uint32) (kicked uint32, err error) {
	err = o.change(ctx, func(c *direct.Caller) (n uint64, err error) {
		if _, ok := c.StatsTube([]byte(name)); !ok { // to kick would make it
			return 0, noTube(name)
		}
		kicked, n = c.Kick([]byte(name), count)
		return n, nil
	})
	return kicked, err
}

// checkName refuses a name for a new tube that not every client can say. A tube of another
// name, a Gearman function's, is there if somebody has made it.
func checkName(c *direct.Caller, name string) error {
	if beanstalk.ValidTubeName([]byte(name)) {
		return nil
	}
	if _, ok := c.StatsTube([]byte(name)); ok {
		return nil
	}
	return wire.Invalid.With("tube", fmt.Sprintf("%q cannot be the name of a new tube", wire.ShownName(name)),
		"give 1 to 200 letters, digits or any of -+/;.$_(), not beginning with -")
}
