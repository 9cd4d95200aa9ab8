package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/itchyny/gojq"

	"polystalk/cmd/internal/program"
)

// Formats are the values of --output; the first is the default.
var Formats = []string{"table", "wide", "json", "jsonl", "name"}

// A Printer shows documents in one format. One goroutine uses it at a time.
type Printer struct {
	Out    io.Writer
	Err    io.Writer // for the message that a table has no rows; nil: none
	Format string    // of Formats; empty: the first one, or json with a filter
	Filter string    // an expression of jq; empty: none
	Screen bool      // Out is a terminal
	Width  int       // of the terminal, to which -o table is cut; 0: unknown
	Colour io.Writer // shows tables with colours, past the escapes of Out; nil: no colours

	code *gojq.Code // of Filter
}

// Check checks the format and the filter. It must be called before anything is shown.
func (p *Printer) Check() error {
	if p.Format == "" {
		if p.Format = Formats[0]; p.Filter != "" {
			p.Format = "json"
		}
	}
	switch {
	case !slices.Contains(Formats, p.Format):
		return Errorf(Usage, "-o %q is not a format: give one of %s", p.Format, strings.Join(Formats, ", "))
	case p.Filter == "":
		return nil
	case p.Format != "json" && p.Format != "jsonl":
		return Errorf(Usage, "--jq works with -o json or -o jsonl, not with -o %s", p.Format)
	}
	q, err := gojq.Parse(p.Filter)
	if err != nil {
		return Errorf(Usage, "--jq %q cannot be read: %v: see the manual of jq", p.Filter, err)
	}
	// Compiled without options, an expression reads neither files nor the environment.
	if p.code, err = gojq.Compile(q); err != nil {
		return Errorf(Usage, "--jq %q cannot be used: %v: see the manual of jq", p.Filter, err)
	}
	return nil
}

// IsTable reports whether the format is for people.
func (p *Printer) IsTable() bool { return p.Format == "table" || p.Format == "wide" }

// Show shows a complete document.
func (p *Printer) Show(document []byte, v View) error {
	l := p.List(v)
	if err := l.Page(document); err != nil {
		return err
	}
	return l.Close()
}

// filter shows the results of the expression for a document, one on a line: texts unchanged, other
// values as JSON.
func (p *Printer) filter(document []byte) error {
	v, err := Decode(document)
	if err != nil {
		return err
	}
	for results := p.code.Run(v); ; {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		if err, failed := result.(error); failed {
			if halt, ok := err.(*gojq.HaltError); ok && halt.Value() == nil {
				return nil
			}
			return Errorf(Usage, "--jq %q does not fit the server's answer: %v: -o json shows the answer", p.Filter, err)
		}
		line, isText := result.(string)
		if !isText {
			b, err := gojq.Marshal(result)
			if err != nil {
				return err
			}
			line = string(safeJSON(b))
		} else if p.Screen {
			line = program.Safe(line)
		}
		if _, err := fmt.Fprintln(p.Out, line); err != nil {
			return err
		}
	}
}

// A List shows the parts of a list as they arrive. Only JSON waits for the end: it is one document.
type List struct {
	p       *Printer
	v       View
	columns []Column
	widths  []int
	first   map[string]json.RawMessage // members of the first part, without the rows
	rows    []json.RawMessage          // rows that wait for the end
	N       int                        // rows so far
	More    bool                       // the server has more rows after the last part
}

// List starts a list.
func (p *Printer) List(v View) *List {
	l := &List{p: p, v: v, columns: v.Columns}
	if p.Format == "wide" {
		l.columns = slices.Concat(v.Columns, v.Wide)
	}
	return l
}

// Page shows a part.
func (l *List) Page(document []byte) error {
	rows := []json.RawMessage{document}
	if l.v.Rows != "" {
		var members map[string]json.RawMessage
		if json.Unmarshal(document, &members) != nil || json.Unmarshal(members[l.v.Rows], &rows) != nil {
			return Errorf(System, "the server answers without %q: use the polystalk of its version", l.v.Rows)
		}
		var next string
		_ = json.Unmarshal(members["next"], &next) // the last part has none
		l.More = next != ""
		// These two describe only this part.
		delete(members, l.v.Rows)
		if delete(members, "next"); l.first == nil {
			l.first = members
		}
	}
	first := l.N == 0
	l.N += len(rows)
	if l.p.Format == "json" {
		l.rows = append(l.rows, rows...)
		return nil
	}
	if l.p.IsTable() {
		return l.table(rows, first)
	}
	for _, row := range rows {
		if err := l.line(row); err != nil {
			return err
		}
	}
	return nil
}

// line shows a row on a line, or its name.
func (l *List) line(row json.RawMessage) error {
	if l.p.Format == "jsonl" && l.p.code != nil {
		return l.p.filter(row)
	}
	var b bytes.Buffer
	if l.p.Format == "jsonl" {
		if err := json.Compact(&b, safeJSON(row)); err != nil {
			return err
		}
	} else {
		v, err := Decode(row)
		if err != nil {
			return err
		}
		name := At(v, l.v.Name)
		if name == nil {
			return nil
		}
		b.WriteString(program.Safe(fmt.Sprint(name)))
	}
	b.WriteByte('\n')
	_, err := l.p.Out.Write(b.Bytes())
	return err
}

// Close shows the rows that had to wait for the end.
func (l *List) Close() error {
	if l.N == 0 && l.v.Empty != "" && l.p.Err != nil && l.p.IsTable() {
		fmt.Fprintf(l.p.Err, "polystalk: %s\n", l.v.Empty)
	}
	if l.p.Format != "json" {
		return nil
	}
	var whole any
	if l.v.Rows == "" {
		whole = l.rows[0]
	} else {
		all := map[string]any{l.v.Rows: l.rows}
		if l.rows == nil {
			all[l.v.Rows] = []any{}
		}
		for name, text := range l.first {
			all[name] = text
		}
		whole = all
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(whole); err != nil {
		return err
	}
	if l.p.code != nil {
		return l.p.filter(b.Bytes())
	}
	_, err := l.p.Out.Write(safeJSON(b.Bytes()))
	return err
}

// table shows rows below a head, or the members of a single document in lines. Columns are as wide
// as the widest cell so far, so a list can be shown before its end is known.
func (l *List) table(rows []json.RawMessage, first bool) error {
	var cells [][]string
	if first && len(rows) > 0 && l.v.Rows != "" {
		head := make([]string, len(l.columns))
		for i, c := range l.columns {
			head[i] = c.Head
		}
		cells, l.widths = append(cells, head), make([]int, len(l.columns))
	}
	for _, text := range rows {
		row, err := Decode(text)
		if err != nil {
			return err
		}
		line := make([]string, len(l.columns))
		for i, c := range l.columns {
			if line[i] = c.Cell(row); l.p.Colour != nil {
				line[i] = c.coloured(row)
			}
		}
		cells = append(cells, line)
	}
	var b strings.Builder
	if l.v.Rows == "" {
		width := 0
		for _, c := range l.columns {
			width = max(width, len(c.Head))
		}
		for i, c := range l.columns {
			fmt.Fprintf(&b, "%-*s  %s\n", width, c.Head, cells[0][i])
		}
		cells = nil
	}
	for _, row := range cells {
		for i, cell := range row {
			l.widths[i] = max(l.widths[i], ansi.StringWidthWc(cell))
		}
	}
	if first {
		l.omit(cells)
	}
	shown, _ := l.fit()
	for _, row := range cells {
		for i, cell := range row {
			row[i] = l.columns[i].Pad(ansi.TruncateWc(cell, shown[i], "…"), shown[i])
		}
		b.WriteString(strings.TrimRight(strings.Join(row, "  "), " ") + "\n")
	}
	if l.p.Colour == nil {
		_, err := io.WriteString(l.p.Out, b.String())
		return err
	}
	if f, ok := l.p.Out.(interface{ Flush() error }); ok {
		if err := f.Flush(); err != nil {
			return err
		}
	}
	_, err := io.WriteString(l.p.Colour, b.String())
	return err
}

// narrow is the width to which the text of a column may be cut.
const narrow = 16

// omit leaves spare columns out while a row does not fit the terminal with texts cut to narrow.
func (l *List) omit(cells [][]string) {
	for _, head := range l.v.Spare {
		_, over := l.fit()
		i := slices.IndexFunc(l.columns, func(c Column) bool { return c.Head == head })
		if over <= 0 || i < 0 {
			return
		}
		l.columns, l.widths = slices.Delete(slices.Clone(l.columns), i, i+1), slices.Delete(l.widths, i, i+1)
		for n := range cells {
			cells[n] = slices.Delete(cells[n], i, i+1)
		}
	}
}

// fit returns the widths with which a row fits the terminal, and how much too wide the row still
// is. The widest texts are cut first.
func (l *List) fit() (widths []int, over int) {
	widths = slices.Clone(l.widths)
	if l.p.Width == 0 || l.p.Format == "wide" {
		return widths, 0
	}
	over = 2*(len(widths)-1) - l.p.Width
	for _, w := range widths {
		over += w
	}
	for over > 0 {
		widest := -1
		for i, c := range l.columns {
			if (c.As == Text || c.As == body) && widths[i] > narrow && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		over--
	}
	return widths, over
}

// safeJSON escapes hidden characters of a document. This does not change the document's meaning,
// since such characters occur only in its strings.
func safeJSON(document []byte) []byte {
	if program.IsText(document) {
		return document
	}
	var b []byte
	for _, r := range string(document) {
		hidden := !program.IsText([]byte(string(r)))
		switch {
		case hidden && r > 0xFFFF:
			high, low := (r-0x10000)>>10+0xD800, (r-0x10000)&0x3FF+0xDC00
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		case hidden:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}
