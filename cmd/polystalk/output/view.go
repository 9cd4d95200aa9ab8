package output

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"polystalk/cmd/internal/terminal"
)

// A View says how a document is shown.
type View struct {
	Rows    string   // the member that is a list of rows; empty: the document itself is the only one
	Columns []Column // of -o table
	Wide    []Column // that -o wide has besides
	Name    string   // the member that -o name shows
	Empty   string   // what is said, on standard error, of a table without rows
}

// A Column is a member of each row.
type Column struct {
	Head string
	Path string // names of members, with dots between them; of several with | between, the first that is there
	As   Kind
}

// A Kind is how a member is shown.
type Kind int

// The kinds of members.
const (
	Text   Kind = iota // or whatever it is
	Number             // as it is, to the right
	Bytes              // such as 12.3 kB
	Age                // seconds, such as 3m12s
	Rate               // a second
	Moment             // a time of day, such as 2026-01-02 15:04:05
	Body               // of a job: the member body, or body_base64
)

// Right reports whether it stands at the right of its column.
func (k Kind) Right() bool { return k != Text && k != Moment && k != Body }

// Missing stands for what the server does not tell.
const Missing = "-"

// Decode reads a row, with numbers as they were written.
func Decode(document []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// At is the member at a path, of a list that of each of its elements; nil: it is not there.
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

// Cell is what a column shows of a row, without anything that a terminal would not only show.
func (c Column) Cell(row any) string {
	if c.As == Body {
		return body(row)
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
		return terminal.Safe(v)
	case json.Number:
		n, err := v.Float64()
		if err != nil {
			return terminal.Safe(v.String())
		}
		switch c.As {
		case Bytes:
			return FormatBytes(n)
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
		return terminal.Safe(strings.Join(all, ","))
	case map[string]any:
		b, _ := json.Marshal(v) // it was read as JSON
		return terminal.Safe(string(b))
	}
	return Missing
}

// bodyMax is as many characters of a body as a table shows: with the other columns, about a
// line.
const bodyMax = 60

// body is the beginning of the body of a job.
func body(row any) string {
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
	shown := []rune(terminal.Safe(text))
	if len(shown) > bodyMax {
		shown, truncated = shown[:bodyMax], true
	}
	if truncated {
		shown = append(shown, '…')
	}
	return string(shown)
}

// FormatBytes is a size with a unit, such as 12.3 kB.
func FormatBytes(n float64) string {
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

// FormatAge is a length of time of so many seconds, in its two largest units.
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
