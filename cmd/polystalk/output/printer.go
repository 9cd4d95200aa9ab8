package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"polystalk/cmd/internal/terminal"
	"polystalk/cmd/polystalk/fault"
)

// Formats are what -o takes; the first is what there is without it.
var Formats = []string{"table", "wide", "json", "jsonl", "name"}

// A Printer shows documents in one format. It is of one goroutine.
type Printer struct {
	Out    io.Writer
	Err    io.Writer // where it is said that a table has no rows; nil: nowhere
	Format string    // of Formats; empty: the first, or json with a filter
	JQ     *Filter
	Screen bool // Out is a terminal
}

// Check says what is wrong with the format.
func (p *Printer) Check() error {
	if p.Format == "" {
		if p.Format = Formats[0]; p.JQ != nil {
			p.Format = "json"
		}
	}
	switch {
	case !slices.Contains(Formats, p.Format):
		return fault.New(fault.Usage, "-o %q is no format: give one of %s", p.Format, strings.Join(Formats, ", "))
	case p.JQ != nil && p.Format != "json" && p.Format != "jsonl":
		return fault.New(fault.Usage, "--jq goes with -o json or -o jsonl, not with -o %s", p.Format)
	}
	return nil
}

// Show shows all of a document.
func (p *Printer) Show(document []byte, v View) error {
	l := p.List(v)
	if err := l.Page(document); err != nil {
		return err
	}
	return l.Close()
}

// A List shows the parts of a list, each as soon as it is there, but for JSON that is
// filtered: an expression is of all of it.
type List struct {
	p     *Printer
	v     View
	table table
	first map[string]json.RawMessage // members of the first part, but for the rows
	rows  []json.RawMessage          // those that wait for the end
	N     int                        // rows so far
}

// List begins one.
func (p *Printer) List(v View) *List { return &List{p: p, v: v} }

// Page shows a part.
func (l *List) Page(document []byte) error {
	rows := []json.RawMessage{document}
	if l.v.Rows != "" {
		var members map[string]json.RawMessage
		if json.Unmarshal(document, &members) != nil || json.Unmarshal(members[l.v.Rows], &rows) != nil {
			return fault.New(fault.System, "the server answers without %q: use the polystalk of its version", l.v.Rows)
		}
		delete(members, l.v.Rows)
		// What goes for a part alone says nothing of the list.
		if delete(members, "next"); l.first == nil {
			l.first = members
		}
	}
	first := l.N == 0
	l.N += len(rows)
	switch l.p.Format {
	case "json":
		return l.json(rows, document, first)
	case "jsonl":
		return l.lines(rows)
	case "name":
		return l.names(rows)
	}
	return l.tabulate(rows)
}

func (l *List) tabulate(rows []json.RawMessage) error {
	columns := l.v.Columns
	if l.p.Format == "wide" {
		columns = slices.Concat(l.v.Columns, l.v.Wide)
	}
	var cells [][]string
	for _, text := range rows {
		row, err := Decode(text)
		if err != nil {
			return err
		}
		line := make([]string, len(columns))
		for i, c := range columns {
			line[i] = c.Cell(row)
		}
		cells = append(cells, line)
	}
	if l.v.Rows == "" {
		return pairs(l.p.Out, columns, cells)
	}
	return l.table.write(l.p.Out, columns, cells)
}

func (l *List) names(rows []json.RawMessage) error {
	for _, text := range rows {
		row, err := Decode(text)
		if err != nil {
			return err
		}
		v := At(row, l.v.Name)
		if v == nil {
			continue
		}
		if _, err := fmt.Fprintln(l.p.Out, terminal.Safe(fmt.Sprint(v))); err != nil {
			return err
		}
	}
	return nil
}

func (l *List) lines(rows []json.RawMessage) error {
	for _, text := range rows {
		if l.p.JQ != nil {
			if err := l.p.JQ.run(l.p, text); err != nil {
				return err
			}
			continue
		}
		var b bytes.Buffer
		if err := json.Compact(&b, safeJSON(text)); err != nil {
			return err
		}
		b.WriteByte('\n')
		if _, err := l.p.Out.Write(b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// json shows rows as parts of one document, which Close ends.
func (l *List) json(rows []json.RawMessage, document []byte, first bool) error {
	switch {
	case l.p.JQ != nil && l.v.Rows != "":
		l.rows = append(l.rows, rows...)
		return nil
	case l.p.JQ != nil:
		return l.p.JQ.run(l.p, document)
	case l.v.Rows == "":
		return l.p.indent(document, "", "\n")
	}
	for _, text := range rows {
		before := ",\n    "
		if first {
			before = fmt.Sprintf("{\n  %q: [\n    ", l.v.Rows)
			first = false
		}
		if _, err := io.WriteString(l.p.Out, before); err != nil {
			return err
		}
		if err := l.p.indent(text, "    ", ""); err != nil {
			return err
		}
	}
	return nil
}

// indent writes a document for people, with all of its lines but the first after prefix.
func (p *Printer) indent(document []byte, prefix, end string) error {
	var b bytes.Buffer
	if err := json.Indent(&b, safeJSON(bytes.TrimSpace(document)), prefix, "  "); err != nil {
		return err
	}
	b.WriteString(end)
	_, err := p.Out.Write(b.Bytes())
	return err
}

// Close shows what was kept until the end.
func (l *List) Close() error {
	if l.N == 0 && l.v.Empty != "" && l.p.Err != nil && (l.p.Format == "table" || l.p.Format == "wide") {
		fmt.Fprintf(l.p.Err, "polystalk: %s\n", l.v.Empty)
	}
	if l.v.Rows == "" || l.p.Format != "json" {
		return nil
	}
	if l.p.JQ != nil {
		all := map[string]any{l.v.Rows: l.rows}
		if l.rows == nil {
			all[l.v.Rows] = []any{}
		}
		for name, text := range l.first {
			all[name] = text
		}
		document, err := json.Marshal(all)
		if err != nil {
			return err
		}
		return l.p.JQ.run(l.p, document)
	}
	end := "\n  ]"
	if l.N == 0 {
		end = fmt.Sprintf("{\n  %q: []", l.v.Rows)
	}
	if _, err := io.WriteString(l.p.Out, end); err != nil {
		return err
	}
	for _, name := range sorted(l.first) {
		if _, err := fmt.Fprintf(l.p.Out, ",\n  %q: ", name); err != nil {
			return err
		}
		if err := l.p.indent(l.first[name], "  ", ""); err != nil {
			return err
		}
	}
	_, err := io.WriteString(l.p.Out, "\n}\n")
	return err
}
