// Package top shows tubes or connections every few seconds: on a terminal as a screen with keys,
// elsewhere as text.
//
//	Source.read (server, rows) → Sample → layout (columns for a width) → Model.View, or Plain
//
// Model is a bubbletea model: a value from which Update makes the next one. Tests send it messages
// and read the screen. Times come with messages; the model has no clock.
//
// Watching causes little load on the server. One request runs at a time. The server sorts and cuts
// the lists if it can. Connections are read only while they are shown. By beanstalkd's protocol
// each tube needs a command, so top waits nine times as long as the last sample took.
package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"polystalk/cmd/polystalk/client"
)

// A column is a column of a view.
type column struct {
	client.Column
	rank  int    // if not all columns fit, those with the smallest ranks are shown
	least int    // minimum width of a cut text, or of a number's column
	sort  string // its name in --sort and in requests; empty: not sortable
	api   bool   // only the API reports it
}

// A view is a list of tubes or connections with its columns.
type view struct {
	name    string // of the rows, and of the member that has them
	columns []column
	sort    string // the default order; with - in front the largest first
	help    string // the possible orders
}

// pick returns a column of a list that other verbs also show.
func pick(list *client.View, head string, rank, least int, sort string) column {
	all := slices.Concat(list.Columns, list.Wide)
	head, api := strings.CutSuffix(head, "*")
	i := slices.IndexFunc(all, func(c client.Column) bool { return c.Head == head })
	return column{Column: all[i], rank: rank, least: least, sort: sort, api: api}
}

// ofTube returns a column of the list of tubes. A star marks a column that only the API reports.
func ofTube(head string, rank, least int, sort string) column {
	return pick(&client.TubesView, head, rank, least, sort)
}

func ofConnection(head string, rank, least int, sort string) column {
	return pick(&client.ConnectionsView, head, rank, least, sort)
}

// tubes are sorted by the server.
var tubes = &view{
	name: "tubes", sort: "-ready",
	help: "name, ready, delayed, reserved, buried, oldest, bytes, using, watching or waiting",
	columns: []column{
		ofTube("TUBE", 0, 12, "name"), ofTube("READY", 1, 7, "ready"), ofTube("DELAYED", 6, 7, "delayed"),
		ofTube("RESERVED", 3, 8, "reserved"), ofTube("BURIED", 2, 6, "buried"), ofTube("OLDEST*", 4, 6, "oldest"),
		ofTube("PUT/S", 7, 7, ""), ofTube("DELETE/S", 8, 8, ""), ofTube("WAIT-P99*", 10, 8, ""), ofTube("RUN-P99*", 11, 7, ""),
		ofTube("WAITING", 5, 7, "waiting"), ofTube("PAUSED", 9, 6, ""), ofTube("BYTES*", 12, 8, "bytes"),
		ofTube("RESERVE/S*", 13, 9, ""), ofTube("TIMEOUT/S*", 14, 9, ""), ofTube("WATCHING", 15, 8, "watching"), ofTube("USING", 16, 5, "using"),
	},
}

// connections are sorted here: the server lists the oldest first.
var connections = &view{
	name: "connections", sort: "-holds",
	help: "id, peer, protocol, state, open, holds, for, last, ago, waits, received, sent or unsent",
	columns: []column{
		ofConnection("ID", 5, 5, "id"), ofConnection("PEER", 0, 15, "peer"), ofConnection("PROTOCOL", 8, 10, "protocol"),
		ofConnection("STATE", 2, 7, "state"), ofConnection("OPEN", 7, 6, "open"), ofConnection("HOLDS", 1, 5, "holds"),
		ofConnection("FOR", 3, 6, "for"), ofConnection("USES", 6, 8, ""), ofConnection("WATCHES", 4, 8, ""),
		ofConnection("LAST", 9, 12, "last"), ofConnection("AGO", 10, 6, "ago"), ofConnection("WAITS", 11, 6, "waits"),
		ofConnection("CLIENT", 12, 8, ""), ofConnection("RECEIVED", 13, 8, "received"), ofConnection("SENT", 14, 8, "sent"),
		ofConnection("UNSENT", 15, 8, "unsent"),
	},
}

// onlyPolystalkd is the message about figures that beanstalkd's protocol does not report.
const onlyPolystalkd = "polystalkd's --http has more: OLDEST, P99, BYTES, RESERVE/S, TIMEOUT/S, --conns"

// shown returns the columns that the server reports. whole means all columns.
func (v *view) shown(whole bool) []column {
	return slices.DeleteFunc(slices.Clone(v.columns), func(c column) bool { return c.api && !whole })
}

// sorts reports whether the view supports an order. The server sorts names only in ascending order.
func (v *view) sorts(sort string) bool {
	by, down := cutDown(sort)
	return by != "" && !(by == "name" && down) && slices.ContainsFunc(v.columns, func(c column) bool { return c.sort == by })
}

// cutDown returns the column of an order, and whether the order is descending.
func cutDown(sort string) (by string, down bool) {
	by, down = strings.CutPrefix(sort, "-")
	return by, down
}

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
			lines[n] += c.Pad(cut(cells[i][n], widths[i]), widths[i])
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
