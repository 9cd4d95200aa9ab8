package gearmantest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An order says how much order there is in what was said in it.
type order struct {
	// actor, if not -1, has submitted one job and nothing else: then a NOOP comes
	// before the answer. Elsewhere what is not asked for has no place among the
	// answers.
	actor int
	// unordered says that jobs may have lost their worker; they are queued again in
	// any order.
	unordered bool
}

// compareStep compares what both servers have said to everyone in the step that is
// over, and the lists that an administrator can see.
func (g *play) compareStep(how order) error {
	if err := g.agree(); err != nil {
		return err
	}
	mark := g.mark()
	var asked []int
	for i := range g.k.conns {
		if c := &g.k.conns[i]; c.open && c.rest == "" {
			if err := g.write(i, packet(16, mark)); err != nil {
				return err
			}
			asked = append(asked, i)
		}
	}
	for _, i := range asked {
		for n := range g.sides {
			if err := g.sides[n].conns[i].reach(mark, g.max); err != nil {
				return fmt.Errorf("%s, on %c: %w", sideName(n), 'A'+i, err)
			}
		}
	}
	for i := range g.k.conns {
		if g.k.conns[i].open {
			if err := g.compare(i, how); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare compares what was said on connection i. What is not asked for may still
// be under way.
func (g *play) compare(i int, how order) error {
	var why string
	for end := time.Now().Add(g.max); ; time.Sleep(200 * time.Microsecond) {
		var got [2][]message
		for n := range g.sides {
			c := g.sides[n].conns[i]
			c.receive()
			got[n] = c.got
		}
		got[0] = g.normal(got[0])
		var final bool
		if why, final = differ(got[0], got[1], how.actor == i, how.unordered); why == "" {
			for _, m := range got[0] {
				if m.unasked() {
					g.note(i, "< "+m.String())
				}
			}
			break
		}
		if final || time.Now().After(end) {
			return fmt.Errorf("on %c: %s", 'A'+i, why)
		}
	}
	for n := range g.sides {
		g.sides[n].conns[i].got = nil
	}
	return nil
}

// differ says how two series of messages differ, or "". final says that they do,
// whatever is still to come.
func differ(a, b []message, ordered, unordered bool) (why string, final bool) {
	answersA, noopsA, relaysA := split(a)
	answersB, noopsB, relaysB := split(b)
	if unordered {
		relaysA, relaysB = sortMessages(relaysA), sortMessages(relaysB)
	}
	common := min(len(relaysA), len(relaysB))
	switch {
	case !slices.Equal(answersA, answersB): // a mark is the last of them
		final = true
	case !slices.Equal(relaysA[:common], relaysB[:common]):
		final = !unordered
	case len(noopsA) == len(noopsB) && len(relaysA) == len(relaysB):
		if !ordered || slices.Equal(unmarked(a), unmarked(b)) {
			return "", false
		}
		final = true
	}
	return fmt.Sprintf("gearmand %s\n\tours     %s", show(a), show(b)), final
}

func unmarked(all []message) []message {
	return slices.DeleteFunc(slices.Clone(all), isMark)
}

// wholeList makes the lines of a list one message that can be compared.
func (g *play) wholeList(list string, all []message, reference bool) (out []message) {
	var lines []string
	for _, m := range all {
		if m.kind == 0 && m.body != ".\n" {
			lines = append(lines, m.body)
			continue
		}
		if m.kind == 0 {
			if reference {
				lines = g.k.exorcise(list, lines)
			} else {
				lines = g.c.without(list, lines)
			}
			m.body = strings.Join(normalList(list, lines), "") + m.body
		}
		out = append(out, m)
	}
	return out
}

// normal is what gearmand should have said.
func (g *play) normal(all []message) []message {
	all = slices.Clone(all)
	var out []message
	for _, m := range all {
		switch m.kind {
		case packetTypes["WORK_FAIL"]:
			// The bare handle, whatever the worker sent (tag I).
			m.body = m.arg()
		}
		if m.unasked() {
			// A cancelled job has failed, and nothing follows (tag I).
			if slices.ContainsFunc(g.k.jobs, func(j *knownJob) bool { return j.silent && j.handle == m.arg() }) {
				continue
			}
		}
		out = append(out, m)
	}
	return out
}

// ask gets the lists from one server.
func (g *play) ask(n int) (got [len(lists)][]string, err error) {
	c := g.sides[n].control
	if err := c.write([]byte(strings.Join(lists[:], "\n")+"\n"), false); err != nil {
		return got, err
	}
	for end := time.Now().Add(g.max); ; {
		c.receive()
		at := 0
		for _, m := range c.got {
			if at < len(lists) && m.body == ".\n" {
				at++
			}
		}
		if at == len(lists) {
			break
		}
		if _, ended := c.pending(); ended || time.Now().After(end) {
			return got, fmt.Errorf("%s: lists do not end (closed: %t)", sideName(n), ended)
		}
		c.await(50*time.Millisecond, func(b []byte, _ bool) bool { _, n := cutMessage(b); return n > 0 })
	}
	at := 0
	for _, m := range c.got {
		if m.body == ".\n" {
			at++
			continue
		}
		got[at] = append(got[at], m.body)
	}
	c.got = nil
	return got, nil
}

// agree asks both for all lists until they say the same: ours has more than one
// thread, and may be at work for somebody else when it answers.
func (g *play) agree() error {
	open := 1
	for _, c := range g.k.conns {
		if c.open {
			open++
		}
	}
	var why string
	for end := time.Now().Add(g.max); time.Now().Before(end); time.Sleep(200 * time.Microsecond) {
		want, err := g.ask(0)
		if err != nil {
			return err
		}
		if len(want[0]) != open {
			why = fmt.Sprintf("gearmand counts %d connections, want %d", len(want[0]), open)
			continue
		}
		g.k.listed(want[3])
		got, err := g.ask(1)
		if err != nil {
			return err
		}
		why = ""
		for l, name := range lists {
			a, b := normalList(name, g.k.exorcise(name, want[l])), normalList(name, g.c.without(name, got[l]))
			if !slices.Equal(a, b) {
				why = fmt.Sprintf("%s\n\tgearmand %q\n\tours     %q", name, a, b)
				break
			}
		}
		if why == "" {
			return nil
		}
	}
	return errors.New(why)
}
