package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"polystalk/cmd/polystalk/client"
)

// A mode is what keys do.
type mode int

const (
	browsing  mode = iota
	filtering      // they are typed into the filter
	helping        // the next one goes back
)

// A Model is all that is on the screen, and what is to be looked at next.
type Model struct {
	ctx   context.Context
	look  func(context.Context, wanted) (*Sample, error)
	name  string // of the server
	every time.Duration
	left  int // looks until it ends; negative: it goes on

	view  *view
	sorts map[*view]string
	match string
	from  int // the first row that is seen
	size  struct{ width, height int }

	mode   mode
	typed  string // into the filter
	paused bool
	said   string // what somebody has to know until the next key

	sample  *Sample
	failure error     // of the newest look; nil: it went well
	since   time.Time // the newest look that went well
	until   time.Time // the newest look

	looking bool // one is under way
	hurry   bool // another one is wanted as soon as it has ended
	turn    int  // of the newest wait; earlier ones are of no use any more
}

// A looked is what came of a look.
type looked struct {
	sample *Sample
	err    error
	at     time.Time
}

// A due is the end of a wait.
type due struct{ turn int }

// Init implements tea.Model. The first look was taken before.
func (m Model) Init() tea.Cmd { return m.wait() }

// Update implements tea.Model.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.size.width, m.size.height = msg.Width, msg.Height
		return m.scroll(0)
	case looked:
		return m.saw(msg)
	case due:
		switch {
		case msg.turn != m.turn || m.paused:
			return m, nil
		case m.left == 0:
			return m, tea.Quit
		}
		m.left = max(m.left-1, -1)
		return m.again()
	case tea.KeyPressMsg:
		m.said = ""
		return m.press(msg)
	case tea.PasteMsg:
		if m.mode == filtering {
			return m.typing("", msg.Content)
		}
	}
	return m, nil
}

// again begins a look, or has one begin when the one under way has ended.
func (m Model) again() (Model, tea.Cmd) {
	if m.looking {
		m.hurry = true
		return m, nil
	}
	m.looking, m.hurry = true, false
	m.turn++
	ctx, look, w := m.ctx, m.look, m.wanted()
	return m, func() tea.Msg {
		sample, err := look(ctx, w)
		return looked{sample, err, time.Now()}
	}
}

// wanted is what is seen.
func (m Model) wanted() wanted {
	return wanted{m.view, m.match, m.sorts[m.view], m.from + max(m.height(), 1)}
}

// saw takes what came of a look.
func (m Model) saw(msg looked) (Model, tea.Cmd) {
	m.looking, m.failure, m.until = false, msg.err, msg.at
	switch {
	case msg.err == nil:
		m.sample, m.since = msg.sample, msg.at
		m.from = max(min(m.from, m.last()), 0)
	case client.ExitCode(msg.err) == client.Usage:
		// What was asked for is not to be had; what is shown stays as it was.
		m.said, m.failure = msg.err.Error(), nil
	}
	if m.hurry {
		return m.again()
	}
	return m, m.wait()
}

// wait ends when the next look is due.
func (m Model) wait() tea.Cmd {
	turn := m.turn
	return tea.Tick(m.pace(), func(time.Time) tea.Msg { return due{turn} })
}

// politeness is how many times as long as a look took is waited for until the next one, by
// a protocol in which looking at many tubes is work for the server.
const politeness = 9

// pace is how long is waited for between two looks.
func (m Model) pace() time.Duration { return pace(m.sample, m.every) }

func pace(s *Sample, every time.Duration) time.Duration {
	if s == nil || s.whole {
		return every
	}
	return max(every, (politeness * s.took).Round(100*time.Millisecond))
}

// height is how many rows are seen.
func (m Model) height() int { return max(m.size.height-m.frame(), 0) }

// last is the first row that is seen at the end of the list.
func (m Model) last() int {
	if m.sample == nil {
		return 0
	}
	return max(min(m.sample.matching, rowsMax)-m.height(), 0)
}

// scroll moves what is seen. What was not looked at yet is looked at now.
func (m Model) scroll(by int) (Model, tea.Cmd) {
	m.from = max(min(m.from+by, m.last()), 0)
	if m.sample == nil || m.paused || m.from+m.height() <= len(m.sample.rows) || len(m.sample.rows) >= min(m.sample.matching, rowsMax) {
		return m, nil
	}
	return m.again()
}

// changed begins at the first row of another list.
func (m Model) changed() (Model, tea.Cmd) {
	m.from, m.paused = 0, false
	return m.again()
}
