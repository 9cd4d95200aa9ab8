package top

import (
	"context"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"polystalk/cmd/polystalk/client"
)

// A mode is the meaning of keys.
type mode int

const (
	browsing  mode = iota
	filtering      // the operator types the filter
	helping        // the next key ends the help
)

// A model is the content of the screen and the state of the updates.
type model struct {
	ctx   context.Context
	read  func(context.Context, wanted) (*Sample, error)
	name  string // of the server
	every time.Duration
	left  int // updates until the end; negative: no end

	view  *view
	sorts map[*view]string
	match string
	from  int // the first row on the screen
	size  struct{ width, height int }

	mode    mode
	typed   string // text of the filter so far
	paused  bool
	message string // shown until the next key

	sample  *Sample
	failure error     // of the last update; nil: it succeeded
	since   time.Time // the last update that succeeded
	until   time.Time // the last update

	reading bool // an update is running
	hurry   bool // another update follows without a pause
	turn    int  // of the newest wait; older ones have no effect
}

// A result is the message at the end of an update.
type result struct {
	sample *Sample
	err    error
	at     time.Time
}

// A due is the message at the end of a pause between updates.
type due struct{ turn int }

// Init implements tea.Model. The first sample has already been read.
func (m model) Init() tea.Cmd { return m.wait() }

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.size.width, m.size.height = msg.Width, msg.Height
		return m.scroll(0)
	case result:
		return m.show(msg)
	case due:
		switch {
		case msg.turn != m.turn || m.paused:
			return m, nil
		case m.left == 0:
			return m, tea.Quit
		}
		m.left = max(m.left-1, -1)
		return m.update()
	case tea.KeyPressMsg:
		m.message = ""
		return m.press(msg)
	case tea.PasteMsg:
		if m.mode == filtering {
			return m.typing("", msg.Content)
		}
	}
	return m, nil
}

// update starts an update at once, or after the running one.
func (m model) update() (model, tea.Cmd) {
	if m.reading {
		m.hurry = true
		return m, nil
	}
	m.reading, m.hurry = true, false
	m.turn++
	ctx, read, w := m.ctx, m.read, m.wanted()
	return m, func() tea.Msg {
		sample, err := read(ctx, w)
		return result{sample, err, time.Now()}
	}
}

// wanted returns the request for the rows on the screen.
func (m model) wanted() wanted {
	return wanted{m.view, m.match, m.sorts[m.view], m.from + max(m.height(), 1)}
}

// show handles the result of an update.
func (m model) show(msg result) (model, tea.Cmd) {
	m.reading, m.failure, m.until = false, msg.err, msg.at
	switch {
	case msg.err == nil:
		m.sample, m.since = msg.sample, msg.at
		m.from = max(min(m.from, m.last()), 0)
	case client.ExitCode(msg.err) == client.Usage:
		m.message, m.failure = msg.err.Error(), nil // only the request was wrong: the figures are good
	}
	if m.hurry {
		return m.update()
	}
	return m, m.wait()
}

// wait returns a command that ends when the next update is due.
func (m model) wait() tea.Cmd {
	turn := m.turn
	return tea.Tick(pace(m.sample, m.every), func(time.Time) tea.Msg { return due{turn} })
}

// restFactor is the factor of the pause after a sample, as a multiple of the sample's duration. It
// applies to a protocol in which each tube is work for the server.
const restFactor = 9

// pace returns the time between two updates.
func pace(s *Sample, every time.Duration) time.Duration {
	if s == nil || s.whole {
		return every
	}
	return max(every, (restFactor * s.took).Round(100*time.Millisecond))
}

// height returns the number of rows that fit on the screen.
func (m model) height() int { return max(m.size.height-m.frame(), 0) }

// last returns the first row of the last page.
func (m model) last() int {
	if m.sample == nil {
		return 0
	}
	return max(min(m.sample.matching, rowsMax)-m.height(), 0)
}

// scroll moves the rows, and reads missing ones.
func (m model) scroll(by int) (model, tea.Cmd) {
	m.from = max(min(m.from+by, m.last()), 0)
	if m.sample == nil || m.paused || m.from+m.height() <= len(m.sample.rows) || len(m.sample.rows) >= min(m.sample.matching, rowsMax) {
		return m, nil
	}
	return m.update()
}

// changed shows a changed list from its first row.
func (m model) changed() (model, tea.Cmd) {
	m.from, m.paused = 0, false
	return m.update()
}

// keys are the lines of the help.
var keys = []struct{ key, does string }{
	{"Tab", "tubes, or connections"},
	{"← → or < >", "sort by the column to the left or right"},
	{"r", "the largest first, or the smallest"},
	{"/", "show what matches: a part of a name, or a pattern with * ? [a-z]"},
	{"Esc", "show all again"},
	{"↑ ↓ PgUp PgDn Home End", "move; j k, Space b and g G do the same"},
	{"p", "pause or continue"},
	{"Enter", "update now"},
	{"q", "quit"},
}

// press handles a key.
func (m model) press(k tea.KeyPressMsg) (model, tea.Cmd) {
	key := k.String()
	switch {
	case key == "ctrl+c":
		return m, tea.Quit
	case key == "ctrl+z":
		return m, tea.Suspend
	case m.mode == filtering:
		return m.typing(key, k.Text)
	case m.mode == helping:
		m.mode = browsing
		return m, nil
	}
	page := max(m.height()-1, 1)
	switch key {
	case "q":
		return m, tea.Quit
	case "?", "h":
		m.mode = helping
	case "/":
		m.mode, m.typed = filtering, m.match
	case "esc":
		if m.match != "" {
			m.match = ""
			return m.changed()
		}
	case "p":
		if m.paused = !m.paused; !m.paused {
			return m.update()
		}
	case "enter", "ctrl+l":
		return m.update()
	case "tab", "shift+tab", "t", "c":
		return m.turnTo(key)
	case "right", ">":
		return m.sortBy(1)
	case "left", "<":
		return m.sortBy(-1)
	case "r":
		by, down := cutDown(m.sorts[m.view])
		if by != "name" {
			return m.sorted(by, !down)
		}
		m.message = "names are sorted from the first to the last only: select another column with < or >"
	case "down", "j":
		return m.scroll(1)
	case "up", "k":
		return m.scroll(-1)
	case "pgdown", "space", "ctrl+f":
		return m.scroll(page)
	case "pgup", "b", "ctrl+b":
		return m.scroll(-page)
	case "home", "g":
		return m.scroll(-rowsMax)
	case "end", "G":
		return m.scroll(rowsMax)
	}
	return m, nil
}

// filterMax is longer than any name.
const filterMax = 250

// typing handles a key while the operator types the filter.
func (m model) typing(key, text string) (model, tea.Cmd) {
	switch key {
	case "esc":
		m.mode = browsing
	case "enter":
		m.mode = browsing
		if m.match != m.typed {
			m.match = m.typed
			return m.changed()
		}
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(m.typed)
		m.typed = m.typed[:len(m.typed)-n]
	case "ctrl+u":
		m.typed = ""
	default:
		if len(m.typed)+len(text) <= filterMax {
			m.typed += text
		}
	}
	return m, nil
}

// turnTo shows the view of the key: t or c, or Tab for the other view.
func (m model) turnTo(key string) (model, tea.Cmd) {
	to := tubes
	if key == "c" || key != "t" && m.view == tubes {
		to = connections
	}
	switch {
	case to == m.view:
		return m, nil
	case to == connections && m.sample != nil && !m.sample.whole:
		m.message = onlyPolystalkd
		return m, nil
	}
	m.view, m.match = to, ""
	return m.changed()
}

// sortBy sorts by the next column to the right (1) or left (-1).
func (m model) sortBy(step int) (model, tea.Cmd) {
	var all []string
	for _, c := range m.view.shown(m.sample == nil || m.sample.whole) {
		if c.sort != "" {
			all = append(all, c.sort)
		}
	}
	by, down := cutDown(m.sorts[m.view])
	i := slices.Index(all, by) + step
	if i < 0 || i >= len(all) {
		return m, nil
	}
	return m.sorted(all[i], down || by == "name") // numbers begin with the largest
}

// sorted changes the order.
func (m model) sorted(by string, down bool) (model, tea.Cmd) {
	if down && by != "name" {
		by = "-" + by
	}
	m.sorts = maps.Clone(m.sorts)
	m.sorts[m.view] = by
	return m.changed()
}
