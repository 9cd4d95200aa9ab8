package admin

import (
	"context"
	"fmt"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/router/ops"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// NoTube returns the problem of a request for a tube that does not exist.
func NoTube(name string) error {
	return wire.NotFound.Problem(fmt.Sprintf("there is no tube \"%s\"", wire.ShownName(name))) // %q would escape it twice
}

// checkName refuses the name of a tube into which no job can be put. It accepts any bytes, because
// a Gearman function may have any bytes in its name, and a server must be able to import the jobs
// that another server has exported.
func checkName(field, name string) error {
	if name != "" && len(name) <= wire.TubeNameMax {
		return nil
	}
	return wire.Invalid.With(field, fmt.Sprintf("the name has %d bytes", len(name)), fmt.Sprintf("give 1 to %d bytes", wire.TubeNameMax))
}

// tubeStats returns the statistics of a tube; false: the tube does not exist.
func tubeStats(c *direct.Caller, name string) (s core.TubeStats, ok bool) {
	c.Op().StatsTube([]byte(name), &s)
	return s, c.DoTube(name).Status == core.StatusOK
}

// Pause stops reservations from a tube for some seconds; zero ends a pause.
func (o *Operator) Pause(ctx context.Context, name string, seconds uint32) (err error) {
	defer func() { o.counts.add("pause", 0, 0, err) }()
	return o.change(ctx, 0, func(c *direct.Caller) (uint64, error) {
		c.Op().Pause([]byte(name), seconds)
		r := c.DoTube(name)
		if r.Status != core.StatusOK {
			return 0, NoTube(name)
		}
		return r.Commit, nil
	})
}

// Kick makes up to count jobs of a tube ready: buried jobs if there are any, else delayed jobs. The
// end of ctx ends it between two visits.
func (o *Operator) Kick(ctx context.Context, name string, count uint32) (kicked uint32, err error) {
	defer func() { o.counts.add("kick", uint64(kicked), 0, err) }()
	broken := false
	err = o.change(ctx, 0, func(c *direct.Caller) (commit uint64, err error) {
		if _, ok := tubeStats(c, name); !ok { // Use would create the tube
			return 0, NoTube(name)
		}
		c.Op().Use([]byte(name), 0)
		used := c.DoTube(name).Tube
		var k ops.Kick
		k.Start(used, count, c.Op())
		for more := true; more && !broken; {
			start := time.Now()
			r := c.DoTube(name)
			commit = max(commit, r.Commit)
			if more = k.Next(r, c.Op()); more {
				o.rest(start)
				broken = ctx.Err() != nil
			}
		}
		c.Op().Unuse(used)
		c.DoTube(name)
		kicked = k.Moved
		return commit, nil
	})
	if err == nil && broken {
		err = wire.Cancelled.With("", fmt.Sprintf("it took too long; %d jobs were kicked", kicked), "send it again for the remaining jobs")
	}
	return kicked, err
}

// EventNames are the names of job events, without put and delete.
var EventNames = [stats.Events]string{
	stats.Reserve: "reserve", stats.Release: "release", stats.Bury: "bury", stats.Kick: "kick",
	stats.Timeout: "timeout", stats.Return: "return", stats.Flush: "flush",
}

// PolicyEventNames are the names of the events of policies.
var PolicyEventNames = [core.PolicyEvents]string{
	core.PolicyDead: "dead", core.PolicyDelayed: "delayed", core.PolicyExpired: "expired", core.PolicyDropped: "dropped", core.PolicyRefused: "refused",
}

// HeldNames are the names of what holds a tube back.
var HeldNames = map[core.Held]string{core.HeldByPause: "pause", core.HeldByRunning: "running", core.HeldByRate: "rate"}

// Value returns the tube in the form of the API.
func (t *TubeView) Value() wire.Tube {
	v := wire.Tube{
		Name: wire.ShownName(t.Name), Path: wire.PathName(t.Name),
		Jobs:      wire.Counts{Ready: t.Ready, Urgent: t.Urgent, Delayed: t.Delayed, Reserved: t.Reserved, Buried: t.Buried},
		JobsTotal: t.Total, Deletes: t.Deletes, Pauses: t.Pauses,
		Using: t.Using, Watching: t.Watching, Waiting: t.Waiting,
		BodyBytes: t.Bytes, OldestReadySeconds: seconds(t.Oldest),
		Events: make(map[string]uint64, len(EventNames)),
		Rates:  t.Rates,
		Wait:   quantiles(&t.Flow.Wait), Run: quantiles(&t.Flow.Run),
		PauseSeconds: int64(t.Pause / core.Second), PauseLeftSeconds: int64(t.PauseLeft / core.Second),
	}
	for e, name := range EventNames {
		v.Events[name] = t.Events[e]
	}
	if by, ok := HeldNames[t.Held]; ok {
		v.HeldBy = &by
	}
	if t.Policy != nil {
		v.Policy = new(matchPath(t.Policy.Match))
		v.PolicyEvents = make(map[string]uint64, len(PolicyEventNames))
		for e, name := range PolicyEventNames {
			v.PolicyEvents[name] = t.Policed[e]
		}
	}
	return v
}

func quantiles(t *stats.Times) wire.Quantiles {
	p50, _ := t.Quantile(0.5) // zero if there are none
	p99, _ := t.Quantile(0.99)
	return wire.Quantiles{Count: t.Count(), P50: p50 / 1e9, P99: p99 / 1e9}
}
