package top

import (
	"context"
	"time"

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
