package admin

import (
	"context"
	"fmt"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
)

// noTube is the problem of who names a tube that is not there.
func noTube(name string) error {
	return wire.NotFound.Problem(fmt.Sprintf("there is no tube \"%s\"", wire.ShownName(name))) // %q would escape it twice
}

// Pause keeps reserve from a tube for so many seconds; zero: no longer.
func (o *Operator) Pause(ctx context.Context, name string, seconds uint32) (err error) {
	defer func() { o.deeds.count("pause", 0, 0, err) }()
	return o.change(ctx, func(c *direct.Caller) (uint64, error) {
		n, ok := c.Pause([]byte(name), seconds)
		if !ok {
			return 0, noTube(name)
		}
		return n, nil
	})
}

// Kick makes up to count jobs of a tube ready: the buried ones if there are any, else the
// delayed ones. The end of ctx ends it between two visits.
func (o *Operator) Kick(ctx context.Context, name string, count uint32) (kicked uint32, err error) {
	defer func() { o.deeds.count("kick", uint64(kicked), 0, err) }()
	broken := false
	err = o.change(ctx, func(c *direct.Caller) (n uint64, err error) {
		if _, ok := c.StatsTube([]byte(name)); !ok { // to kick would make it
			return 0, noTube(name)
		}
		start := time.Now()
		kicked, n = c.Kick([]byte(name), count, func() (goOn bool) {
			o.rest(start)
			start = time.Now()
			broken = ctx.Err() != nil
			return !broken
		})
		return n, nil
	})
	if err == nil && broken {
		err = wire.Cancelled.With("", fmt.Sprintf("it takes too long; %d jobs are kicked", kicked), "send it again for the rest")
	}
	return kicked, err
}

// checkName refuses the name of a tube into which no job can be put. A function of Gearman may
// have any bytes in its name, so a put accepts any bytes as well: what one server exports,
// another one imports.
func checkName(field, name string) error {
	if name != "" && len(name) <= wire.TubeNameMax {
		return nil
	}
	return wire.Invalid.With(field, fmt.Sprintf("the name has %d bytes", len(name)), fmt.Sprintf("give 1 to %d bytes", wire.TubeNameMax))
}
