package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"polystalk/cmd/polystalk/client"
)

const gap = "  " // between columns

// layout returns the head of a table, and a line for each row. It omits columns that do not fit
// into the width, and cuts texts; with width 0, everything fits.
func layout(columns []column, rows []any, width int, sort string) (head string, lines []string) {
	by, down := cutDown(sort)
	columns = slices.Clone(columns)
	cells := make([][]string, len(columns)) // of each column: its head, then a cell for each row
	natural := make([]int, len(columns))    // widths
	for i, c := range columns {
		title := c.Head
		if c.sort == by && by != "" {
			columns[i].rank = min(c.rank, 1) // the sorted column is always shown
			if title += "▲"; down {
				title = c.Head + "▼"
			}
		}
		cells[i] = append(cells[i], title)
		for _, row := range rows {
			cells[i] = append(cells[i], c.Cell(row))
		}
		if c.As != client.Text {
			natural[i] = c.least
		}
		for _, cell := range cells[i] {
			natural[i] = max(natural[i], wide(cell))
		}
	}
	widths := fit(columns, natural, width)
	lines = make([]string, len(rows)+1)
	for i, c := range columns {
		if widths[i] == 0 {
			continue
		}
		for n := range lines {
			if lines[n] != "" {
				lines[n] += gap
			}
			cell := cut(cells[i][n], widths[i])
			space := strings.Repeat(" ", widths[i]-wide(cell))
			if c.As.Right() {
				lines[n] += space + cell
			} else {
				lines[n] += cell + space
			}
		}
	}
	for n := range lines {
		lines[n] = strings.TrimRight(lines[n], " ")
	}
	return lines[0], lines[1:]
}

// fit distributes a width among columns; 0 means that a column is not shown. The columns with the
// smallest ranks get their minimum width first. Then texts get the width they need, while there is
// some left.
func fit(columns []column, natural []int, width int) []int {
	if width <= 0 {
		return natural
	}
	order := make([]int, len(columns))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(columns[a].rank, columns[b].rank) })
	widths := make([]int, len(columns))
	left := width + len(gap)
	for _, i := range order {
		need := natural[i]
		if columns[i].As == client.Text {
			need = min(need, max(columns[i].least, len(columns[i].Head)+1))
		}
		if left == width+len(gap) {
			need = min(need, width) // the first column is always shown
		}
		if need+len(gap) > left {
			break // a less important column does not take its place
		}
		widths[i] = need
		left -= need + len(gap)
	}
	for _, i := range order {
		if more := min(natural[i]-widths[i], left); widths[i] > 0 && more > 0 {
			widths[i] += more
			left -= more
		}
	}
	return widths
}

// wide returns the width of a text on a terminal.
func wide(s string) int { return ansi.StringWidthWc(s) }

// cut shortens a text to a width.
func cut(s string, width int) string {
	if wide(s) <= width {
		return s
	}
	return ansi.TruncateWc(s, width, "…")
}

// join puts as many items on a line as fit, at least the first.
func join(items []string, width int) string {
	line := items[0]
	for _, item := range items[1:] {
		if width > 0 && wide(line+gap+item) > width {
			break
		}
		line += gap + item
	}
	if width > 0 {
		line = cut(line, width)
	}
	return line
}
