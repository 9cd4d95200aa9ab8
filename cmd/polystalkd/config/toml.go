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
	"strconv"
	"strings"
	"syscall"

	// go-toml reports the place of each key, also of a key with a wrong value. The functions of
	// its package unstable may change between releases; only this file uses them.
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/fault"
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

// fault returns a fault at the place. The message has the remedy.
func (p filePlace) fault(format string, args ...any) *fault.Fault {
	f := fault.New(fault.Usage, "%s: %s", p, fmt.Sprintf(format, args...))
	f.At(p.File, p.Line, p.Text)
	return f
}

// A fileKey is a key of a file with its value: a string, an int64, a bool or a []any. Other values
// are nodes of the parser.
type fileKey struct {
	filePlace
	Key   string
	Value any

	flag  *pflag.Flag
	texts []string // for pflag.Set, one after the other
}

// listFiles returns the files of a configuration in reading order: path itself, then the
// files in the directory path.d with names that end in .toml, sorted by name. The directory
// need not exist.
func listFiles(path string) (files []string, err error) {
	files = []string{path}
	dir := path + ".d"
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	if err != nil {
		return files, filePlace{File: dir}.fault("its files cannot be listed (%v): let this user read the directory, or remove it", fault.Cause(err))
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
func readFile(path string) ([]*fileKey, fault.Faults) {
	text, err := readRegular(path)
	if err != nil {
		return nil, fault.Faults{filePlace{File: path}.fault("it cannot be read (%v): give a file that this user may read", fault.Cause(err))}
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

// parseTOML returns the keys of a file, and the faults in reading order. A key that occurs twice
// has its first value.
func parseTOML(path string, text []byte) (found []*fileKey, faults fault.Faults) {
	lines := strings.Split(string(text), "\n")
	place := func(offset int) filePlace {
		n := 1 + bytes.Count(text[:min(offset, len(text))], []byte("\n"))
		return filePlace{path, n, strings.ToValidUTF8(strings.TrimSpace(lines[n-1]), "\ufffd")}
	}
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
		k := &fileKey{filePlace: place(offset), Key: strings.Join(parts, ".")}
		if e.Kind != unstable.KeyValue {
			return found, append(faults, k.fault("tables such as %q are not supported: write every key before any line in brackets, and leave the table out", k.Key))
		}
		k.Value = tomlValue(e.Value())
		if was := slices.IndexFunc(found, func(o *fileKey) bool { return o.Key == k.Key }); was >= 0 {
			faults = append(faults, k.fault("%s is already set in line %d: leave one of the two out", k.Key, found[was].Line))
			continue
		}
		found = append(found, k)
	}
	if err := p.Error(); err != nil {
		offset, says := 0, strings.TrimPrefix(err.Error(), "toml: ")
		if bad, ok := errors.AsType[*unstable.ParserError](err); ok {
			offset, says = int(p.Range(bad.Highlight).Offset), bad.Message
		}
		faults = append(faults, place(offset).fault(`%s: write a key, "=" and a value in TOML, as in port = 11300 or user = "polystalk"`, says))
	}
	return found, faults
}

// tomlValue converts a value of the parser.
func tomlValue(n *unstable.Node) any {
	switch n.Kind {
	case unstable.String:
		return string(n.Data)
	case unstable.Bool:
		return n.Data[0] == 't'
	case unstable.Integer:
		if i, err := strconv.ParseInt(string(n.Data), 0, 64); err == nil {
			return i
		}
	case unstable.Array:
		list := []any{}
		for each := n.Children(); each.Next(); {
			if each.Node().Kind != unstable.Comment {
				list = append(list, tomlValue(each.Node()))
			}
		}
		return list
	}
	return n
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
