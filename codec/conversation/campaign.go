package conversation

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// soonLimit is how long a session with one-second jobs may last before its
// result may be the clock's doing.
const soonLimit = 700 * time.Millisecond

// Compare plays count sessions of n commands, seeded seed, seed+1 …, against
// two programs, subject started with args. It returns "" if all replies were
// equal, else a report of the first session that differs, in its shrunk form,
// and that session's seed. The error is about the harness.
func Compare(reference, subject string, args []string, unquoted bool, seed uint64, count, n int) (report string, failed uint64, err error) {
	c := campaign{reference: reference, subject: subject, args: args, unquoted: unquoted}
	return c.run(seed, count, n)
}

// CompareKept is Compare with a journal in the subject, each time in a new
// directory that dir makes.
func CompareKept(reference, subject string, args []string, dir func() (string, error), unquoted bool, seed uint64, count, n int) (report string, failed uint64, err error) {
	c := campaign{reference: reference, subject: subject, args: args, dir: dir, unquoted: unquoted}
	return c.run(seed, count, n)
}

func (c *campaign) run(seed uint64, count, n int) (report string, failed uint64, err error) {
	defer func() {
		if wrong := c.stop(); err == nil {
			err = wrong
		}
	}()
	for ; count > 0; seed, count = seed+1, count-1 {
		s := NewSession(seed, n)
		d, err := c.playInTime(s)
		if err != nil {
			return "", seed, err
		}
		if d != nil {
			report, err = c.explain(s, d)
			return report, seed, err
		}
	}
	return "", 0, nil
}

// A campaign is a pair of server processes that lives from session to session,
// and is started anew after a failure.
type campaign struct {
	reference, subject string
	args               []string
	dir                func() (string, error) // for the journal; nil: none
	companion          func() Companion       // nil: there is none
	unquoted           bool
	servers            []*Server
	pair               *Pair
}

func (c *campaign) start() error {
	var beside Companion
	if c.companion != nil {
		beside = c.companion()
	}
	for i, program := range []string{c.reference, c.subject} {
		var args []string
		if i == 1 {
			args = c.args
			if beside != nil {
				args = append(beside.Flags(), args...)
			}
			if c.dir != nil {
				dir, err := c.dir()
				if err != nil {
					return err
				}
				args = append([]string{"-b", dir}, args...)
			}
		}
		s, err := StartServer(program, args...)
		if err != nil {
			return err
		}
		c.servers = append(c.servers, s)
	}
	pair, err := NewPair(c.servers[0].Address, c.servers[1].Address, c.unquoted)
	if err == nil {
		pair.Kept = c.dir != nil
		c.pair = pair
		if beside != nil {
			err = pair.Accompany(beside)
		}
	}
	return err
}

// stop ends what start has begun. The error is what a companion has found.
func (c *campaign) stop() (err error) {
	if c.pair != nil {
		if c.pair.companion != nil {
			err = c.pair.companion.End()
		}
		c.pair.Close()
	}
	for _, s := range c.servers {
		s.Stop()
	}
	c.pair, c.servers = nil, nil
	return err
}

// play runs one session on the present pair, or on a fresh one if there is
// none.
func (c *campaign) play(s Session) (*Difference, error) {
	if c.pair == nil {
		if err := c.start(); err != nil {
			return nil, err
		}
	}
	err := c.pair.Play(s)
	if err == nil {
		return nil, nil
	}
	if wrong := c.stop(); wrong != nil {
		return nil, fmt.Errorf("%w, and then %w", wrong, err)
	}
	var d *Difference
	if errors.As(err, &d) {
		return d, nil
	}
	return nil, err
}

// playInTime repeats a session of one-second jobs that a busy machine drew out.
func (c *campaign) playInTime(s Session) (d *Difference, err error) {
	for range 5 {
		if d, err = c.play(s); d == nil || err != nil || !s.Soon || d.Took < soonLimit {
			break
		}
	}
	return d, err
}

// explain shrinks a failing session on fresh servers.
func (c *campaign) explain(s Session, d *Difference) (string, error) {
	var harness error
	fails := func(smaller Session) bool {
		c.stop()
		found, err := c.playInTime(smaller)
		if err != nil {
			harness = err
		}
		if found != nil {
			d = found
		}
		return found != nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d connections, %d tubes", s.Seed, s.Conns, s.Tubes)
	if first := d; !fails(s) {
		fmt.Fprintf(&b, "; not again on fresh servers\n%v", first)
		return b.String(), harness
	}
	// A server that waits for a reply that never comes makes each try long.
	budget, end := 150, time.Now().Add(30*time.Second)
	smaller := Shrink(s, budget, func(s Session) bool { return time.Now().Before(end) && fails(s) })
	fmt.Fprintf(&b, ", shrunk to %d of %d events\n%v", len(smaller.Events), len(s.Events), d)
	return b.String(), harness
}
