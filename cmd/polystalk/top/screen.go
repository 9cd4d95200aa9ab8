package top

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"polystalk/cmd/internal/terminal"
	"polystalk/cmd/polystalk/client"
)

// How lines look; a terminal without colours shows them all the same, and what matters is
// said in words as well.
var (
	bold  = ansi.NewStyle().Bold()
	title = ansi.NewStyle().Reverse(true)
	stale = ansi.NewStyle().ForegroundColor(ansi.BrightBlack)
	alarm = ansi.NewStyle().Bold().ForegroundColor(ansi.Red)
	quiet = ansi.NewStyle().Faint()
)

// smallMax is how high a screen is that has room for half of the head only.
const smallMax = 12

// heads is how many lines of the head are shown.
func (m Model) heads() int {
	if m.size.height <= smallMax {
		return headLines / 2
	}
	return headLines
}

// frame is how many lines are no rows: the head, what the table is of, its head, and the keys.
func (m Model) frame() int { return m.heads() + 3 }

// View implements tea.Model.
func (m Model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	return v
}

// screen is all lines, as many as there is room for.
func (m Model) screen() []string {
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
	head := m.sample.head(m.name, m.pace(), width)
	lines := []string{bold.Styled(head[0])}
	for _, line := range head[1:m.heads()] {
		lines = append(lines, figures(line))
	}
	if m.failure != nil {
		lines[len(lines)-1] = alarm.Styled(cut(m.gone(), width))
	}
	if m.mode == helping {
		lines = append(lines, m.help()...)
	} else {
		rows := m.rows()
		top, table := lay(m.view.shown(m.sample.whole), rows, width, m.sorts[m.view])
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

// rows are those that are seen.
func (m Model) rows() []any {
	if m.sample.of.view != m.view {
		return nil // the first look at the other view is under way
	}
	all := m.sample.rows
	from := min(m.from, len(all))
	return all[from:min(from+m.height(), len(all))]
}

// gone is what is said of a server that does not answer.
func (m Model) gone() string {
	return "NOTHING NEW for " + client.FormatAge(m.until.Sub(m.since).Round(time.Second).Seconds()) + ": " + terminal.Safe(m.failure.Error())
}

// foot is the last line: what is typed, or what can be.
func (m Model) foot() string {
	switch {
	case m.mode == filtering:
		const after = "_  Enter Esc"
		typed := terminal.Safe(m.typed)
		if room := m.size.width - len(after) - 1; wide(typed) > room {
			typed = ansi.TruncateLeftWc(typed, wide(typed)-max(room, 1)+1, "…")
		}
		return cut("/"+typed+after, m.size.width)
	case m.mode == helping:
		return cut("any key goes back", m.size.width)
	case m.said != "":
		return bold.Styled(cut(terminal.Safe(m.said), m.size.width))
	}
	items := []string{"q quit", "? help", "/ filter", "p pause", "< > sort", "r reverse"}
	if m.paused {
		items[3] = "p go on"
		items = append([]string{"PAUSED"}, items...)
	}
	if m.sample.whole {
		items = append(items, "Tab "+m.other().name)
	}
	return quiet.Styled(join(items, m.size.width))
}

func (m Model) other() *view {
	if m.view == tubes {
		return connections
	}
	return tubes
}

// help is what stands in place of the table.
func (m Model) help() []string {
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
