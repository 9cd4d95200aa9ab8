package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"polystalk/cmd/internal/program"
)

// A View describes how to show a document.
type View struct {
	Rows    string   // the member with the rows; empty: the document is the only row
	Columns []Column // of -o table
	Wide    []Column // additional ones of -o wide
	Name    string   // the member that -o name shows
	Empty   string   // the message about a table without rows
}

// A Column shows a member of each row.
type Column struct {
	Head string
	// Path has member names separated by dots, or several such paths separated by |. The first path
	// that the row has counts.
	Path string
	As   kind
}

// A kind is the way to show a member.
type kind int

// The kinds of members.
const (
	Text   kind = iota // unchanged
	Number             // unchanged, aligned to the right
	Bytes              // 12.3 kB
	Age                // a duration in seconds: 3m12s
	Rate               // a number per second
	Moment             // a time: 2026-01-02 15:04:05
	body               // the member body or body_base64 of a job
	role               // leader, or the member kind of a server
	free               // Bytes, and whether the disk is full
)

// Right reports whether the column is aligned to the right.
func (k kind) Right() bool { return k != Text && k != Moment && k != body && k != role && k != free }

// Missing stands for a value that the server does not report.
const Missing = "-"

// Decode decodes a document. Numbers keep their digits.
func Decode(document []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// At returns the member at a path; nil: none. For a list it returns the members of the elements.
func At(v any, path string) any {
	if first, rest, several := strings.Cut(path, "|"); several {
		if found := At(v, first); found != nil {
			return found
		}
		return At(v, rest)
	}
	name, rest, deeper := strings.Cut(path, ".")
	object, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	v = object[name]
	list, isList := v.([]any)
	switch {
	case !deeper:
		return v
	case !isList:
		return At(v, rest)
	}
	members := make([]any, 0, len(list))
	for _, e := range list {
		if m := At(e, rest); m != nil {
			members = append(members, m)
		}
	}
	return members
}

// Cell returns the text of a column in a form that is safe on a terminal.
func (c Column) Cell(row any) string {
	switch c.As {
	case body:
		return bodyCell(row)
	case role:
		if leads, _ := At(row, "leads").(bool); leads {
			return "leader"
		}
	case free:
		cell := Column{Path: c.Path, As: Bytes}.Cell(row)
		if full, _ := At(row, "disk_full").(bool); full {
			cell += " (full)"
		}
		return cell
	}
	switch v := At(row, c.Path).(type) {
	case nil:
		return Missing
	case string:
		if c.As == Moment {
			if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
				return t.Local().Format(time.DateTime)
			}
		}
		if v == "" {
			return Missing
		}
		return program.Safe(v)
	case json.Number:
		n, err := v.Float64()
		if err != nil {
			return program.Safe(v.String())
		}
		switch c.As {
		case Bytes:
			return formatBytes(n)
		case Age:
			return FormatAge(n)
		case Rate:
			return strconv.FormatFloat(n, 'f', 1, 64)
		}
		return v.String()
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case []any:
		var all []string
		for _, e := range v {
			text, isText := e.(string)
			if !isText {
				b, _ := json.Marshal(e) // it was read as JSON
				text = string(b)
			}
			all = append(all, text)
		}
		if len(all) == 0 {
			return Missing
		}
		return program.Safe(strings.Join(all, ","))
	case map[string]any:
		b, _ := json.Marshal(v) // it was read as JSON
		return program.Safe(string(b))
	}
	return Missing
}

// bodyCellMax is the number of characters of a body in a table: with other columns, about a line.
const bodyCellMax = 60

// bodyCell returns the beginning of the body of a job.
func bodyCell(row any) string {
	text, ok := At(row, "body").(string)
	if coded, isCoded := At(row, "body_base64").(string); isCoded {
		b, err := base64.StdEncoding.DecodeString(coded)
		if err != nil {
			return Missing
		}
		text, ok = string(b), true
	}
	if !ok {
		return Missing
	}
	truncated, _ := At(row, "body_truncated").(bool)
	shown := []rune(program.Safe(text))
	if len(shown) > bodyCellMax {
		shown, truncated = shown[:bodyCellMax], true
	}
	if truncated {
		shown = append(shown, '…')
	}
	return string(shown)
}

// formatBytes returns a size with a unit, such as 12.3 kB.
func formatBytes(n float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	i := 0
	for n >= 999.95 && i < len(units)-1 {
		n /= 1000
		i++
	}
	if i == 0 {
		return strconv.FormatFloat(n, 'f', -1, 64) + " B"
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + " " + units[i]
}

// FormatAge returns a duration in seconds in its two largest units.
func FormatAge(seconds float64) string {
	if seconds < 0 || math.IsNaN(seconds) || seconds > math.MaxInt64/2 {
		return Missing
	}
	switch s := int64(seconds); {
	case seconds == 0:
		return "0s"
	case seconds < 1:
		return strconv.FormatFloat(seconds*1000, 'f', 0, 64) + "ms"
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
	}
}
