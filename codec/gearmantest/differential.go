package gearmantest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Lockstep is a Start for the gearmand of that name as a reference: one thread, so
// that requests that arrive one after the other run so, and functions that take
// turns as 2.0.0 always has it (tag V).
func Lockstep(program string) Start {
	return func(c *Case, dir string) (*Server, error) {
		with := *c
		with.Opts = append(slices.Clone(c.Opts), "--threads", "1", "--round-robin")
		return StartGearmand(program)(&with, dir)
	}
}

// A Campaign plays random histories, each on a pair of new servers.
type Campaign struct {
	Reference, Subject Start
	Dir                string // which must exist, for what servers keep
	// Patience is how long either server may take over an answer; zero: 8 s.
	Patience time.Duration
	// Whole reports are of the history as it was drawn.
	Whole bool
	// Compared counts the requests by Op that were sent to both, PassedOver those
	// that could not be compared where a history had them.
	Compared, PassedOver [NumOps]int
	// Without, if not nil, takes from a list of the subject's the lines that are about jobs
	// of somebody who uses it besides, with functions of his own.
	Without func(list string, lines []string) []string

	played int
}

// without is a list of the subject's that can be compared.
func (c *Campaign) without(list string, lines []string) []string {
	if c.Without == nil {
		return lines
	}
	return c.Without(list, slices.Clone(lines))
}

// Compare plays the history that n requests of the seed make. It returns "" if
// both servers said the same, else a report of the smallest history found in which
// they do not. The error is about the harness.
func (c *Campaign) Compare(seed uint64, n int) (report string, err error) {
	h := NewHistory(seed, n)
	d, err := c.play(h, cmp.Or(c.Patience, answerMax))
	if d == nil || err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d connections, functions %.40q, %q", h.Seed, h.Conns, h.Functions, h.Opts)
	if c.Whole {
		fmt.Fprintf(&b, "\n%v", d)
		return b.String(), nil
	}
	// A server that does not answer makes each try long.
	end := time.Now().Add(30 * time.Second)
	again := false
	smaller := shrink(h, 200, func(h History) bool {
		if time.Now().After(end) {
			return false
		}
		found, broken := c.play(h, shrinkMax)
		if broken != nil {
			err = broken
		}
		if found != nil {
			d, again = found, true
		}
		return found != nil
	})
	if !again {
		fmt.Fprintf(&b, "; no part of it fails alone")
	}
	fmt.Fprintf(&b, ", shrunk to %d of %d events\n%v", len(smaller.Events), len(h.Events), d)
	return b.String(), err
}

func (c *Campaign) play(h History, longest time.Duration) (*difference, error) {
	c.played++
	var addresses [2]string
	for n, start := range []Start{c.Reference, c.Subject} {
		dir := filepath.Join(c.Dir, fmt.Sprintf("%d-%d-%d", h.Seed, c.played, n))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		s, err := start(&Case{Opts: h.Opts}, dir)
		if err != nil {
			return nil, err
		}
		defer s.Stop()
		addresses[n] = s.Address
	}
	err := c.playOn(h, addresses, longest)
	var d *difference
	if err == nil || errors.As(err, &d) {
		return d, nil
	}
	return nil, err
}
