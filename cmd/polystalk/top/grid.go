package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"polystalk/cmd/polystalk/client"
)

// gap is what stands between columns.
const gap = "  "

// lay is a table of rows for a width: its head, and a line for each row. Of the columns
// those are left out for which there is no room, and texts are cut; 0: there is room for
// all.
func lay(columns []column, rows []any, width int, sort string) (head string, lines []string) {
	by, down := cutDown(sort)
	columns = slices.Clone(columns)
	cells := make([][]string, len(columns)) // of each column: its head, then a cell for each row
	natural := make([]int, len(columns))
	for i, c := range columns {
		title := c.Head
		if c.sort == by && by != "" {
			columns[i].rank = min(c.rank, 1) // by what is sorted is to be seen
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
	out := make([]strings.Builder, len(rows)+1)
	for i, c := range columns {
		if widths[i] == 0 {
			continue
		}
		for n := range out {
			if out[n].Len() > 0 {
				out[n].WriteString(gap)
			}
			cell := cut(cells[i][n], widths[i])
			space := strings.Repeat(" ", widths[i]-wide(cell))
			if c.As.Right() {
				out[n].WriteString(space + cell)
			} else {
				out[n].WriteString(cell + space)
			}
		}
	}
	lines = make([]string, len(rows))
	for n := range lines {
		lines[n] = strings.TrimRight(out[n+1].String(), " ")
	}
	return strings.TrimRight(out[0].String(), " "), lines
}

// fit shares a width among columns; those with 0 are not shown. First all that have a place
// get what they need at least, then texts as much as they have, while it lasts.
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
			need = min(need, width) // the first is shown in any case
		}
		if need+len(gap) > left {
			break // what is less important does not take its place
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

// wide is how many columns of a terminal a text takes.
func wide(s string) int { return ansi.StringWidthWc(s) }

// cut is as much of a text as has room.
func cut(s string, width int) string {
	if wide(s) <= width {
		return s
	}
	return ansi.TruncateWc(s, width, "…")
}

// join is as many items on a line as have room, the first in any case.
func join(items []string, width int) string {
	line := ""
	for i, item := range items {
		next := line + gap + item
		if i == 0 {
			next = item
		}
		if i > 0 && width > 0 && wide(next) > width {
			break
		}
		line = next
	}
	if width > 0 {
		line = cut(line, width)
	}
	return line
}
