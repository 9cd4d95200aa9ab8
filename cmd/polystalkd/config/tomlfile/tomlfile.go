// Package tomlfile reads files of keys and values, in TOML, and knows where each stands:
// whoever judges a value can name its file and line. It knows no key itself.
//
// TOML is parsed by go-toml, since that tells where a key stands, also one that turns out
// to be wrong; its package unstable is named so because its functions may change, which
// nothing but this package would notice. Source: https://toml.io/en/v1.0.0
package tomlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// sizeMax is the largest file in bytes: who names another file by mistake does not wait
// for all of it to be read.
const sizeMax = 1 << 20

// A Place is where something stands.
type Place struct {
	File string
	Line int    // from 1 on; 0: the file as a whole
	Text string // the line, without the blanks around it
}

// String is the place for messages, as in "file /etc/polystalkd.toml:7".
func (p Place) String() string {
	if p.Line == 0 {
		return "file " + p.File
	}
	return fmt.Sprintf("file %s:%d", p.File, p.Line)
}

// An Entry is a key with its value, which is as go-toml decodes it: a string, an int64, a
// float64, a bool, a []any, a map, or one of its times.
type Entry struct {
	Place
	Key   string
	Value any
}

// A Problem is what is wrong with a file. Says tells what, and what to do about it.
type Problem struct {
	Place
	Says string
}

// List names the files that a configuration consists of, in the order in which they are to
// be read: path itself, then those of the directory path.d whose names end in .toml, by
// their names. The directory need not be there.
func List(path string) (files []string, problems []Problem) {
	files = []string{path}
	dir := path + ".d"
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	if err != nil {
		return files, []Problem{{Place{File: dir}, fmt.Sprintf("its files cannot be listed (%v): let this user read the directory, or remove it", cause(err))}}
	}
	for _, e := range entries { // by name
		if strings.HasSuffix(e.Name(), ".toml") && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// Read reads one file. Problems are listed as far as they can be told at once: a line that
// is no TOML hides what is behind it.
func Read(path string) ([]Entry, []Problem) {
	text, err := readFile(path)
	if err != nil {
		return nil, []Problem{{Place{File: path}, fmt.Sprintf("it cannot be read (%v): give a file that this user may read", cause(err))}}
	}
	return parse(path, bytes.TrimPrefix(text, []byte("\ufeff")))
}

var (
	errIrregular = errors.New("it is no regular file, and is to be read again at any time")
	errTooLarge  = fmt.Errorf("it has more than %d bytes", sizeMax)
)

// readFile does not wait for the other end of a pipe.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, syscall.EISDIR
	}
	if info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return nil, errIrregular
	}
	text, err := io.ReadAll(io.LimitReader(f, sizeMax+1))
	if err == nil && len(text) > sizeMax {
		err = errTooLarge
	}
	return text, err
}

// cause leaves the path out, which the message has already.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// A document is a file that is parsed.
type document struct {
	path     string
	text     []byte
	lines    []string
	problems []Problem
}

func parse(path string, text []byte) ([]Entry, []Problem) {
	d := &document{path: path, text: text, lines: strings.Split(string(text), "\n")}
	var p unstable.Parser
	p.Reset(text)
	var found []Entry
	var begin []int // of each entry's line, and of the end of the last
	for p.NextExpression() {
		e := p.Expression()
		name, first := "", -1
		for key := e.Key(); key.Next(); {
			if first < 0 {
				first = int(key.Node().Raw.Offset)
			} else {
				name += "."
			}
			name += string(key.Node().Data)
		}
		if first < 0 {
			continue
		}
		at := d.place(first)
		begin = append(begin, d.lineBegin(first))
		if e.Kind != unstable.KeyValue {
			d.problem(at, fmt.Sprintf("there is no table %q: every key stands by itself, before any line in brackets; leave it out", name))
			break
		}
		found = append(found, Entry{Place: at, Key: name})
	}
	if len(begin) == len(found) {
		begin = append(begin, len(text))
	}
	if err := p.Error(); err != nil {
		begin[len(begin)-1] = d.notTOML(&p, err)
	}
	found = d.decode(found, begin)
	slices.SortStableFunc(d.problems, func(a, b Problem) int { return a.Line - b.Line })
	return found, d.problems
}

// decode fills in the values, and leaves out what is there twice or has none.
func (d *document) decode(found []Entry, begin []int) (good []Entry) {
	for i, e := range found {
		var m map[string]any
		err := toml.Unmarshal(d.text[begin[i]:max(begin[i], begin[i+1])], &m)
		if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, _ := bad.Position()
			d.problem(d.line(e.Line+row-1), strings.TrimPrefix(bad.Error(), "toml: ")+": correct the value of "+e.Key)
			continue
		}
		if was := slices.IndexFunc(found[:i], func(o Entry) bool { return o.Key == e.Key }); was >= 0 {
			d.problem(e.Place, fmt.Sprintf("%s stands in line %d already: leave one of the two out", e.Key, found[was].Line))
			continue
		}
		if len(m) == 0 {
			continue // the parser has stopped in the middle of it, and said why
		}
		e.Value = m
		for part := range strings.SplitSeq(e.Key, ".") {
			if table, ok := e.Value.(map[string]any); ok && table[part] != nil {
				e.Value = table[part]
			}
		}
		good = append(good, e)
	}
	return good
}

// notTOML is for where the parser stops. It returns where what was parsed ends.
func (d *document) notTOML(p *unstable.Parser, err error) (end int) {
	at, says := d.line(1), strings.TrimPrefix(err.Error(), "toml: ")
	if bad, ok := errors.AsType[*unstable.ParserError](err); ok {
		end = int(p.Range(bad.Highlight).Offset)
		at, says = d.place(end), bad.Message
	}
	d.problem(at, says+`: write a key, "=" and a value in TOML, as in port = 11300 or user = "polystalk"`)
	return d.lineBegin(end)
}

func (d *document) problem(at Place, says string) {
	d.problems = append(d.problems, Problem{at, says})
}

// place is where the byte at that offset stands.
func (d *document) place(offset int) Place {
	return d.line(1 + bytes.Count(d.text[:min(offset, len(d.text))], []byte("\n")))
}

func (d *document) lineBegin(offset int) int {
	return 1 + bytes.LastIndexByte(d.text[:min(offset, len(d.text))], '\n')
}

func (d *document) line(n int) Place {
	n = min(max(n, 1), len(d.lines))
	return Place{d.path, n, strings.ToValidUTF8(strings.TrimSpace(d.lines[n-1]), "\ufffd")}
}

// Line is a key with its value as a file has it. The key has no dots.
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

// isPlain reports whether a text can stand in double quotes as it is.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
}
