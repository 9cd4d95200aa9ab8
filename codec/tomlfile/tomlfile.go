// Package tomlfile reads the TOML files of polystalk: the daemon's configuration and the access
// file. It returns keys with the line of each, so that a message can name the place and the
// remedy. It reports all faults of a file at once.
package tomlfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	// go-toml reports the place of each key, also of a key with a wrong value. The functions of
	// its package unstable may change between releases; only this file uses them.
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A Place is a line of a file.
type Place struct {
	File string
	Line int    // from 1 on; 0: the whole file
	Text string // the line, without the blanks around it
}

// String is the place for messages, as in "file /etc/polystalkd.toml:7".
func (p Place) String() string {
	if p.Line == 0 {
		return "file " + p.File
	}
	return fmt.Sprintf("file %s:%d", p.File, p.Line)
}

// Errorf returns an error at the place. The message has the remedy.
func (p Place) Errorf(format string, args ...any) *Error {
	return &Error{p, fmt.Sprintf(format, args...)}
}

// An Error is a fault of a file.
type Error struct {
	Place
	Message string
}

func (e *Error) Error() string { return e.Place.String() + ": " + e.Message }

// Errors are the faults of a file, in reading order.
type Errors []*Error

// Error returns one line for each fault.
func (e Errors) Error() string {
	var lines []string
	for _, one := range e {
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// A Key is a key of a file with its value: a string, an int64, a float64, a bool or a []any. Other values
// are nodes of the parser.
type Key struct {
	Place
	Table string // the words in brackets above the key, joined by dots; empty: none
	Name  string // a dotted key has its dots
	Value any
}

// Parse returns the keys of a file and its faults, in reading order. A key that occurs twice in a
// table has its first value. Faults after a line that is not TOML stay hidden. table is called
// for each line in brackets; it returns the fault of the table, or nil. The text may begin with a byte
// order mark.
func Parse(path string, text []byte, table func(Place, string) *Error) (found []*Key, faults Errors) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	lines := strings.Split(string(text), "\n")
	line, begin := 1, 0 // the last place and the offset of its line; offsets rise
	place := func(offset int) Place {
		for line < len(lines) && offset > begin+len(lines[line-1]) {
			begin += len(lines[line-1]) + 1
			line++
		}
		return Place{path, line, strings.ToValidUTF8(strings.TrimSpace(lines[line-1]), "\ufffd")}
	}
	in := ""
	known := make(map[[2]string]int) // table and key to line
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		var parts []string
		offset := 0
		for key := e.Key(); key.Next(); {
			if parts == nil {
				offset = int(key.Node().Raw.Offset)
			}
			parts = append(parts, string(key.Node().Data))
		}
		if parts == nil {
			continue // a comment
		}
		at, name := place(offset), strings.Join(parts, ".")
		if e.Kind != unstable.KeyValue {
			if fault := table(at, name); fault != nil {
				return found, append(faults, fault)
			}
			if e.Kind == unstable.ArrayTable {
				return found, append(faults, at.Errorf("[[%s]] is a list of tables: write [%s], once", name, name))
			}
			in = name
			continue
		}
		k := &Key{Place: at, Table: in, Name: name, Value: value(e.Value())}
		if line := known[[2]string{in, name}]; line > 0 {
			faults = append(faults, at.Errorf("%s is already set in line %d: leave one of the two out", name, line))
			continue
		}
		known[[2]string{in, name}] = at.Line
		found = append(found, k)
	}
	if err := p.Error(); err != nil {
		offset, says := 0, strings.TrimPrefix(err.Error(), "toml: ")
		if bad, ok := errors.AsType[*unstable.ParserError](err); ok {
			offset, says = int(p.Range(bad.Highlight).Offset), bad.Message
		}
		faults = append(faults, place(offset).Errorf(`%s: write a key, "=" and a value in TOML, as in port = 11300 or user = "polystalk"`, says))
	}
	return found, faults
}

// value converts a value of the parser.
func value(n *unstable.Node) any {
	switch n.Kind {
	case unstable.String:
		return string(n.Data)
	case unstable.Bool:
		return n.Data[0] == 't'
	case unstable.Integer:
		if i, err := strconv.ParseInt(string(n.Data), 0, 64); err == nil {
			return i
		}
	case unstable.Float:
		if f, err := strconv.ParseFloat(string(n.Data), 64); err == nil {
			return f
		}
	case unstable.Array:
		list := []any{}
		for each := n.Children(); each.Next(); {
			if each.Node().Kind != unstable.Comment {
				list = append(list, value(each.Node()))
			}
		}
		return list
	}
	return n
}

// Line returns a key and its value as a line of a file. The key has no dots.
func Line(key string, value any) (string, error) {
	switch v := value.(type) {
	case string:
		if isPlain(v) {
			return key + ` = "` + v + `"`, nil
		}
	case []string:
		if !slices.ContainsFunc(v, func(s string) bool { return !isPlain(s) }) {
			return key + ` = ["` + strings.Join(v, `", "`) + `"]`, nil
		}
	}
	text, err := toml.Marshal(map[string]any{key: value})
	if err != nil {
		return "", fmt.Errorf("writing %s in TOML: %w", key, err)
	}
	return string(bytes.TrimSpace(text)), nil
}

// isPlain reports whether s needs no escapes in double quotes.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
}
