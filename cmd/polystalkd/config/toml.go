package config

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

	// go-toml reports the place of each key, also of a key with a wrong value. The functions of
	// its package unstable may change between releases; only this file uses them.
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// sizeMax is the size of the largest file, in bytes. It bounds the time to read a file that was
// named by mistake.
const sizeMax = 1 << 20

// A filePlace is a line of a file.
type filePlace struct {
	File string
	Line int    // from 1 on; 0: the whole file
	Text string // the line, without the blanks around it
}

// String is the place for messages, as in "file /etc/polystalkd.toml:7".
func (p filePlace) String() string {
	if p.Line == 0 {
		return "file " + p.File
	}
	return fmt.Sprintf("file %s:%d", p.File, p.Line)
}

// A fileKey is a key with its value as decoded by go-toml: a string, an int64, a float64, a
// bool, a []any, a map, or one of go-toml's times.
type fileKey struct {
	filePlace
	Key   string
	Value any
}

// A fileProblem is a fault in a file. Says has the message, with the remedy.
type fileProblem struct {
	filePlace
	Says string
}

// listFiles returns the files of a configuration in reading order: path itself, then the
// files in the directory path.d with names that end in .toml, sorted by name. The directory
// need not exist.
func listFiles(path string) (files []string, problems []fileProblem) {
	files = []string{path}
	dir := path + ".d"
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	if err != nil {
		return files, []fileProblem{{filePlace{File: dir}, fmt.Sprintf("its files cannot be listed (%v): let this user read the directory, or remove it", cause(err))}}
	}
	for _, e := range entries { // by name
		if strings.HasSuffix(e.Name(), ".toml") && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// readFile reads one file and returns all problems that it finds. Problems after a line that is
// not TOML stay hidden.
func readFile(path string) ([]fileKey, []fileProblem) {
	text, err := readRegular(path)
	if err != nil {
		return nil, []fileProblem{{filePlace{File: path}, fmt.Sprintf("it cannot be read (%v): give a file that this user may read", cause(err))}}
	}
	return parseTOML(path, bytes.TrimPrefix(text, []byte("\ufeff")))
}

var (
	errIrregular = errors.New("it is not a regular file, which a reload could read again")
	errTooLarge  = fmt.Errorf("it has more than %d bytes", sizeMax)
)

// readRegular reads a regular file. It never blocks on a pipe.
func readRegular(path string) ([]byte, error) {
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

// cause returns err without the path, which the message already has.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// A document is a file while it is parsed.
type document struct {
	path     string
	text     []byte
	lines    []string
	problems []fileProblem
}

func parseTOML(path string, text []byte) ([]fileKey, []fileProblem) {
	d := &document{path: path, text: text, lines: strings.Split(string(text), "\n")}
	var p unstable.Parser
	p.Reset(text)
	var found []fileKey
	var begin []int // offsets of each entry's line, and of the end of the last
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
			d.problem(at, fmt.Sprintf("tables such as %q are not supported: write every key before any line in brackets, and leave the table out", name))
			break
		}
		found = append(found, fileKey{filePlace: at, Key: name})
	}
	if len(begin) == len(found) {
		begin = append(begin, len(text))
	}
	if err := p.Error(); err != nil {
		begin[len(begin)-1] = d.notTOML(&p, err)
	}
	found = d.decode(found, begin)
	slices.SortStableFunc(d.problems, func(a, b fileProblem) int { return a.Line - b.Line })
	return found, d.problems
}

// decode fills in the values. It leaves out keys that occur twice or have no value.
func (d *document) decode(found []fileKey, begin []int) (good []fileKey) {
	for i, e := range found {
		var m map[string]any
		err := toml.Unmarshal(d.text[begin[i]:max(begin[i], begin[i+1])], &m)
		if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, _ := bad.Position()
			d.problem(d.line(e.Line+row-1), strings.TrimPrefix(bad.Error(), "toml: ")+": correct the value of "+e.Key)
			continue
		}
		if was := slices.IndexFunc(found[:i], func(o fileKey) bool { return o.Key == e.Key }); was >= 0 {
			d.problem(e.filePlace, fmt.Sprintf("%s is already set in line %d: leave one of the two out", e.Key, found[was].Line))
			continue
		}
		if len(m) == 0 {
			continue // the parser stopped within this entry and reported the reason
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

// notTOML reports the place where the parser stopped, and returns the offset at which the parsed
// text ends.
func (d *document) notTOML(p *unstable.Parser, err error) (end int) {
	at, says := d.line(1), strings.TrimPrefix(err.Error(), "toml: ")
	if bad, ok := errors.AsType[*unstable.ParserError](err); ok {
		end = int(p.Range(bad.Highlight).Offset)
		at, says = d.place(end), bad.Message
	}
	d.problem(at, says+`: write a key, "=" and a value in TOML, as in port = 11300 or user = "polystalk"`)
	return d.lineBegin(end)
}

func (d *document) problem(at filePlace, says string) {
	d.problems = append(d.problems, fileProblem{at, says})
}

// place returns the line that holds the byte at offset.
func (d *document) place(offset int) filePlace {
	return d.line(1 + bytes.Count(d.text[:min(offset, len(d.text))], []byte("\n")))
}

func (d *document) lineBegin(offset int) int {
	return 1 + bytes.LastIndexByte(d.text[:min(offset, len(d.text))], '\n')
}

func (d *document) line(n int) filePlace {
	n = min(max(n, 1), len(d.lines))
	return filePlace{d.path, n, strings.ToValidUTF8(strings.TrimSpace(d.lines[n-1]), "\ufffd")}
}

// tomlLine returns a key and its value as a line of a file. The key has no dots.
func tomlLine(key string, value any) (string, error) {
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
