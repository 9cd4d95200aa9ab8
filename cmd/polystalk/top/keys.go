package top

import (
	"maps"
	"slices"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

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
