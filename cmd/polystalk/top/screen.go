package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"polystalk/cmd/internal/program"
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

// Styles of lines. Important states are also written as words, for terminals without colours.
var (
	bold  = ansi.NewStyle().Bold()
	title = ansi.NewStyle().Reverse(true)
	stale = ansi.NewStyle().ForegroundColor(ansi.BrightBlack)
	alarm = ansi.NewStyle().Bold().ForegroundColor(ansi.Red)
	quiet = ansi.NewStyle().Faint()
)

// headLines is the number of lines about the server. A screen of up to smallMax lines shows half.
const (
	headLines = 4
	smallMax  = 12
)

// head returns the lines about the server, cut to a width, with the most important items first.
// With width 0, everything fits.
func (s *Sample) head(server string, every time.Duration, width int) [headLines]string {
	v := &s.server
	title := []string{"polystalk top", program.Safe(server)}
	if v.Draining {
		title = append(title, "DRAINING")
	}
	if v.State != "" && v.State != "serving" {
		title = append(title, strings.ToUpper(program.Safe(v.State)))
	}
	seconds := strconv.FormatFloat(every.Seconds(), 'f', -1, 64)
	title = append(title, "up "+client.FormatAge(float64(v.UptimeSeconds)), "every "+seconds+"s", "version "+program.Safe(v.Version))
	if width > 0 && wide(title[0])+wide(title[1])+len(gap) > width {
		title = title[1:]
	}
	jobs := []string{
		fmt.Sprint("ready ", v.Jobs.Ready), fmt.Sprint("reserved ", v.Jobs.Reserved), fmt.Sprint("buried ", v.Jobs.Buried), fmt.Sprint("delayed ", v.Jobs.Delayed),
		fmt.Sprint("urgent ", v.Jobs.Urgent), fmt.Sprint("so far ", v.JobsTotal), fmt.Sprint("timeouts ", v.JobTimeouts),
	}
	rate := func(name string, of func(f *flow) float64) string {
		if s.flow == nil {
			return name + " " + client.Missing
		}
		return name + " " + strconv.FormatFloat(of(s.flow), 'f', 1, 64) + "/s"
	}
	rates := []string{rate("put", func(f *flow) float64 { return f.put })}
	if s.whole {
		rates = append(rates, rate("reserve", func(f *flow) float64 { return f.reserve }))
	}
	rates = append(rates, rate("delete", func(f *flow) float64 { return f.delete }), rate("timeout", func(f *flow) float64 { return f.timeout }))
	c := &v.Connections
	clients := []string{fmt.Sprint("connections ", c.Open), fmt.Sprint("workers ", c.Workers), fmt.Sprint("waiting ", c.Waiting), fmt.Sprint("producers ", c.Producers)}
	if c.Limit > 0 {
		clients[0] += fmt.Sprint(" of ", c.Limit)
	}
	if c.Sleeping > 0 {
		clients = append(clients, fmt.Sprint("sleeping ", c.Sleeping))
	}
	return [headLines]string{join(title, width), join(jobs, width), join(rates, width), join(clients, width)}
}

// caption describes which rows are shown.
func (s *Sample) caption(from, shown, width int) string {
	which := "no " + s.of.view.name
	if shown > 0 {
		which = fmt.Sprintf("%s %d–%d of %d", s.of.view.name, from+1, from+shown, s.matching)
	}
	if s.of.match != "" {
		which += " that match " + program.Safe(s.of.match)
	}
	return join([]string{which, "by " + s.of.sort}, width)
}

// heads returns the number of head lines on the screen.
func (m model) heads() int {
	if m.size.height <= smallMax {
		return headLines / 2
	}
	return headLines
}

// frame returns the number of lines that are not rows: the head, the caption, the head of the table
// and the keys.
func (m model) frame() int { return m.heads() + 3 }

// View implements tea.Model.
func (m model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	return v
}

// screen returns the lines of the screen.
func (m model) screen() []string {
	width, height := m.size.width, m.size.height
	if width <= 0 || height <= 0 || m.sample == nil {
		return nil
	}
	figures := func(line string) string {
		if m.failure != nil {
			return stale.Styled(line)
		}
		return line
	}
	head := m.sample.head(m.name, pace(m.sample, m.every), width)
	lines := []string{bold.Styled(head[0])}
	for _, line := range head[1:m.heads()] {
		lines = append(lines, figures(line))
	}
	if m.failure != nil {
		away := "NO UPDATE for " + client.FormatAge(m.until.Sub(m.since).Round(time.Second).Seconds()) + ": " + program.Safe(m.failure.Error())
		lines[len(lines)-1] = alarm.Styled(cut(away, width))
	}
	if m.mode == helping {
		lines = append(lines, m.help()...)
	} else {
		rows := m.rows()
		top, table := layout(m.view.shown(m.sample.whole), rows, width, m.sorts[m.view])
		lines = append(lines, quiet.Styled(m.sample.caption(m.from, len(rows), width)))
		lines = append(lines, title.Styled(top+strings.Repeat(" ", max(width-wide(top), 0))))
		for _, line := range table {
			lines = append(lines, figures(line))
		}
	}
	lines = lines[:min(len(lines), max(height-1, 0))]
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	return append(lines, m.foot())
}

// rows returns the rows on the screen.
func (m model) rows() []any {
	if m.sample.of.view != m.view {
		return nil // the first sample of the other view is not there yet
	}
	all := m.sample.rows
	from := min(m.from, len(all))
	return all[from:min(from+m.height(), len(all))]
}

// foot returns the last line: the typed filter, a message, or the keys.
func (m model) foot() string {
	switch {
	case m.mode == filtering:
		const after = "_  Enter Esc"
		typed := program.Safe(m.typed)
		if room := m.size.width - len(after) - 1; wide(typed) > room {
			typed = ansi.TruncateLeftWc(typed, wide(typed)-max(room, 1)+1, "…")
		}
		return cut("/"+typed+after, m.size.width)
	case m.mode == helping:
		return cut("any key goes back", m.size.width)
	case m.message != "":
		return bold.Styled(cut(program.Safe(m.message), m.size.width))
	}
	items := []string{"q quit", "? help", "/ filter", "p pause", "< > sort", "r reverse"}
	if m.paused {
		items[3] = "p continue"
		items = append([]string{"PAUSED"}, items...)
	}
	switch {
	case m.sample.whole && m.view == tubes:
		items = append(items, "Tab connections")
	case m.sample.whole:
		items = append(items, "Tab tubes")
	}
	return quiet.Styled(join(items, m.size.width))
}

// help returns the lines that replace the table.
func (m model) help() []string {
	width := 0
	for _, k := range keys {
		width = max(width, wide(k.key))
	}
	if m.size.width < 2*width+wide(gap) {
		width = 8
	}
	var lines []string
	for _, k := range keys {
		lines = append(lines, cut(k.key+strings.Repeat(" ", max(width-wide(k.key), 0))+gap+k.does, m.size.width))
	}
	if !m.sample.whole {
		lines = append(lines, "", cut(onlyPolystalkd, m.size.width))
	}
	return lines
}
