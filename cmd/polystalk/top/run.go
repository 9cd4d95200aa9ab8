package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"polystalk/cmd/polystalk/client"
)

// Options configures top.
type Options struct {
	Server      string // its name
	Connections bool   // not tubes
	Match       string
	Sort        string // empty: the default of the view
	Limit       int    // rows of the text, from 1 to 1,000
	Every       time.Duration
	Count       int // updates; 0: without end
}

// Limits of Every. The server's figures are a second or two old.
const (
	everyMin = 100 * time.Millisecond
	everyMax = 24 * time.Hour
)

// check checks the options, and returns the first request.
func (o *Options) check() (wanted, error) {
	w := wanted{view: tubes, match: o.Match, sort: o.Sort, rows: o.Limit}
	if o.Connections {
		w.view = connections
	}
	if w.sort == "" {
		w.sort = w.view.sort
	}
	switch {
	case o.Every < everyMin || o.Every > everyMax:
		return w, client.Errorf(client.Usage, "-d %v is too short or too long: give a time such as 2 or 0.5, in seconds", o.Every.Seconds())
	case o.Count < 0:
		return w, client.Errorf(client.Usage, "-n is %d: give the number of updates, or 0 for no end", o.Count)
	case o.Limit < 1 || o.Limit > rowsMax:
		return w, client.Errorf(client.Usage, "--limit is %d: give a number from 1 to %d", o.Limit, rowsMax)
	case !w.view.sorts(w.sort):
		return w, client.Errorf(client.Usage, "--sort %q is not an order of %s: give %s; with - in front the largest first", o.Sort, w.view.name, w.view.help)
	}
	return w, nil
}

// Screen shows the screen until the operator quits, ctx ends, or Count updates are done.
func Screen(ctx context.Context, s *Source, o Options, in io.Reader, out io.Writer) error {
	w, err := o.check()
	if err != nil {
		return err
	}
	m := model{
		ctx: ctx, read: s.read, name: o.Server, every: o.Every, left: o.Count - 1,
		view: w.view, sorts: map[*view]string{tubes: tubes.sort, connections: connections.sort}, match: w.match,
	}
	m.sorts[w.view] = w.sort
	// A first failure ends the program with one line, as in other verbs.
	if m.sample, err = s.read(ctx, w); err != nil {
		return err
	}
	m.since = m.sample.at
	if !m.sample.whole {
		m.message = onlyPolystalkd
	}
	// The caller handles signals, and ends ctx.
	end, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler()).Run()
	if m, ok := end.(model); ok && !m.reading {
		s.Close() // otherwise an update uses the connection until the program ends
	}
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return client.Errorf(client.System, "the terminal cannot be used: %v: try --batch", err)
}

// Plain writes a table as text for each update, with an empty line between two. It passes failures
// to complain and continues, but it returns a failure of the first or last update.
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
			return nil // an interrupt is the normal end
		case err != nil && (last || n == 1 || client.ExitCode(err) == client.Usage):
			return err
		case err != nil:
			complain(err)
		default:
			if n == 1 && !sample.whole {
				complain(errors.New(onlyPolystalkd))
			}
			text := sample.text(o)
			if n > 1 {
				text = "\n" + text
			}
			if _, err := io.WriteString(out, text); err != nil {
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

// text returns a sample as text.
func (s *Sample) text(o Options) string {
	rows := s.rows[:min(len(s.rows), o.Limit)]
	head := s.head(o.Server, pace(s, o.Every), 0)
	all := append(head[:], s.caption(0, len(rows), 0))
	if len(rows) > 0 {
		top, lines := layout(s.of.view.shown(s.whole), rows, 0, s.of.sort)
		all = append(append(all, top), lines...)
	}
	return fmt.Sprintln(strings.Join(all, "\n"))
}
