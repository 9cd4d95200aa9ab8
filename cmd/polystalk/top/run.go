package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"polystalk/cmd/polystalk/client"
)

// Options say what is shown, and how often.
type Options struct {
	Server      string // its name
	Connections bool   // rather than tubes
	Match       string
	Sort        string // empty: what most people look for
	Limit       int    // rows, as text; at most 1,000
	Every       time.Duration
	Count       int // looks; 0: until somebody ends it
}

// Limits of Every: what is shown is as of a second or two ago, and nobody waits for a day.
const (
	EveryMin = 100 * time.Millisecond
	EveryMax = 24 * time.Hour
)

// check says what is wrong with the options, and what is to be looked at first.
func (o *Options) check() (wanted, error) {
	w := wanted{view: tubes, match: o.Match, sort: o.Sort, rows: o.Limit}
	if o.Connections {
		w.view = connections
	}
	if w.sort == "" {
		w.sort = w.view.sort
	}
	switch {
	case o.Every < EveryMin || o.Every > EveryMax:
		return w, client.Errorf(client.Usage, "-d %v is too short or too long: give a time such as 2 or 0.5, in seconds", o.Every.Seconds())
	case o.Count < 0:
		return w, client.Errorf(client.Usage, "-n is %d: give how many tables are to be shown, or 0 for no end", o.Count)
	case o.Limit < 1 || o.Limit > rowsMax:
		return w, client.Errorf(client.Usage, "--limit is %d: give a number up to %d", o.Limit, rowsMax)
	case !w.view.sorts(w.sort):
		return w, client.Errorf(client.Usage, "--sort %q is no order of %s: give %s; with - before it the largest first", o.Sort, w.view.name, w.view.help)
	}
	return w, nil
}

// Screen shows it on a terminal until somebody quits, ctx ends, or it was shown Count times.
func Screen(ctx context.Context, s *Source, o Options, in io.Reader, out io.Writer) error {
	w, err := o.check()
	if err != nil {
		return err
	}
	m := Model{
		ctx: ctx, look: s.read, name: o.Server, every: o.Every, left: o.Count - 1,
		view: w.view, sorts: map[*view]string{tubes: tubes.sort, connections: connections.sort}, match: w.match,
	}
	m.sorts[w.view] = w.sort
	// What is wrong from the beginning is said on a line, as by other commands.
	if m.sample, err = s.read(ctx, w); err != nil {
		return err
	}
	m.since = m.sample.at
	if !m.sample.whole {
		m.said = onlyPolystalkd
	}
	// Signals are the caller's, who ends ctx.
	end, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler()).Run()
	if m, ok := end.(Model); ok && !m.looking {
		s.Close() // a look under way has the connection, and ends with the program
	}
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return client.Errorf(client.System, "the terminal cannot be used: %v: try --batch", err)
}

// Plain writes it as text: a table for each look, with an empty line between. What a look
// has failed for is given to complain, and the next one comes in its time; the last one's
// failure is returned.
func Plain(ctx context.Context, s *Source, o Options, out io.Writer, flush func() error, complain func(error)) error {
	w, err := o.check()
	if err != nil {
		return err
	}
	defer s.Close()
	for n := 1; ; n++ {
		sample, err := s.read(ctx, w)
		last := n == o.Count
		switch {
		case ctx.Err() != nil:
			return nil // somebody has seen enough
		case err != nil && (last || n == 1 || client.ExitCode(err) == client.Usage):
			return err
		case err != nil:
			complain(err)
		default:
			if n == 1 && !sample.whole {
				complain(errors.New(onlyPolystalkd))
			}
			if err := sample.write(out, o, n == 1); err != nil {
				return err
			}
			if err := flush(); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pace(sample, o.Every)):
		}
	}
}

// write writes a sample as text.
func (s *Sample) write(out io.Writer, o Options, first bool) error {
	if !first {
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
	}
	rows := s.rows[:min(len(s.rows), o.Limit)]
	head := s.head(o.Server, pace(s, o.Every), 0)
	top, lines := lay(s.of.view.shown(s.whole), rows, 0, s.of.sort)
	all := append(head[:], s.caption(0, len(rows), 0))
	if len(rows) > 0 {
		all = append(append(all, top), lines...)
	}
	for _, line := range all {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}
