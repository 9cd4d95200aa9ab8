package output

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// A table writes rows below a head. Columns are as wide as what they have had so far, so that
// a list can be shown before its end is known.
type table struct {
	widths []int
}

func (t *table) write(w io.Writer, columns []Column, cells [][]string) error {
	if len(cells) == 0 {
		return nil
	}
	if t.widths == nil {
		t.widths = make([]int, len(columns))
		head := make([]string, len(columns))
		for i, c := range columns {
			head[i] = c.Head
		}
		cells = slices.Insert(cells, 0, head)
	}
	for _, row := range cells {
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], ansi.StringWidthWc(cell))
		}
	}
	var b strings.Builder
	for _, row := range cells {
		for i, cell := range row {
			space := strings.Repeat(" ", t.widths[i]-ansi.StringWidthWc(cell))
			switch {
			case columns[i].As.Right():
				b.WriteString(space + cell)
			case i == len(row)-1:
				b.WriteString(cell)
			default:
				b.WriteString(cell + space)
			}
			if i < len(row)-1 {
				b.WriteString("  ")
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pairs writes the members of one thing below each other.
func pairs(w io.Writer, columns []Column, cells [][]string) error {
	width := 0
	for _, c := range columns {
		width = max(width, len(c.Head))
	}
	var b strings.Builder
	for _, row := range cells {
		for i, cell := range row {
			b.WriteString(columns[i].Head + strings.Repeat(" ", width-len(columns[i].Head)+2) + cell + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
