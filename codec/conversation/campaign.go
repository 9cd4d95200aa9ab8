package conversation

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The timeouts for a reply. A history that hangs waits for one at each attempt to shrink it.
const (
	answerMax = 8 * time.Second
	shrinkMax = time.Second
)

// soonLimit is the maximum duration of a history with jobs that expire soon: in a longer one a
// difference may come from the clock.
const soonLimit = 700 * time.Millisecond

// A Campaign plays random histories, each on a pair of new servers.
type Campaign struct {
	Protocol           *Protocol
	Reference, Subject Start
	Version            string // of the reference
	Journaled          bool   // the subject keeps a journal, and the reference does not
	Dir                string // must exist; what servers keep is below it
	Patience           time.Duration
	Whole              bool // report a history as it was drawn

	// Compared counts the commands that were sent to both servers, PassedOver the commands that
	// could not be compared at their place in a history.
	Compared, PassedOver int

	played int
}

// A difference is where two servers stopped replying alike.
type difference struct {
	why  string
	log  []string // the conversation until then
	took time.Duration
}

func (d *difference) Error() string {
	return fmt.Sprintf("%s\n--- the conversation until then\n%s", d.why, strings.Join(d.log, "\n"))
}

// Compare plays the history of n commands of a seed. It returns "" if both servers sent the same
// replies, else a report of the smallest history found in which they do not. The error is about
// the harness.
func (c *Campaign) Compare(seed uint64, n int) (report string, err error) {
	h := newHistory(c.Protocol, seed, n)
	d, err := c.play(h, cmp.Or(c.Patience, answerMax))
	if d == nil || err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d connections, names %.40q, flags %q", h.Seed, h.Conns, h.Names, h.Flags)
	if c.Whole {
		fmt.Fprintf(&b, "\n%v", d)
		return b.String(), nil
	}
	end, again := time.Now().Add(30*time.Second), false
	smaller := shrink(h, 200, func(h history) bool {
		if time.Now().After(end) {
			return false
		}
		found, broken := c.play(h, shrinkMax)
		err = errors.Join(err, broken)
		if found != nil {
			d, again = found, true
		}
		return found != nil
	})
	if !again {
		b.WriteString("; no part of it fails alone")
	}
	fmt.Fprintf(&b, ", shrunk to %d of %d events\n%v", len(smaller.Events), len(h.Events), d)
	return b.String(), err
}

// play plays a history. It repeats one with jobs that expire soon if it took too long.
func (c *Campaign) play(h history, longest time.Duration) (d *difference, err error) {
	for range 5 {
		if d, err = c.playOnce(h, longest); d == nil || !h.Soon || d.took < soonLimit {
			break
		}
	}
	return d, err
}

func (c *Campaign) playOnce(h history, longest time.Duration) (*difference, error) {
	c.played++
	g := &game{c: c, h: h, max: longest}
	defer g.hangUp()
	for n, start := range []Start{c.Reference, c.Subject} {
		dir := filepath.Join(c.Dir, fmt.Sprintf("%d-%d-%d", h.Seed, c.played, n))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		s, err := start(&Conversation{Protocol: c.Protocol, Flags: h.Flags}, dir)
		if err != nil {
			return nil, err
		}
		defer s.Stop()
		if err := g.join(n, s.Address); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	if err := g.play(); err != nil {
		return &difference{err.Error(), g.log, time.Since(began)}, nil
	}
	return nil, nil
}
