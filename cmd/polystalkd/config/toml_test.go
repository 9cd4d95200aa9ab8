package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/codec/tomlfile"
)

func writeFile(t testing.TB, path, text string) string {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestProblemsHaveALineEach: all problems are reported at once.
func TestProblemsHaveALineEach(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string // line, and words of each problem, separated by |
		keys       string   // of what is good nevertheless
	}{
		{"no value", "a = 1\nb =\nc = 2\n", []string{"2|b =|write a key"}, "a"},
		{"no equals sign", "port 11300\n", []string{"1|port 11300|expected '='|port = 11300"}, ""},
		{"open string", "a = \"x\nb = 1\n", []string{"1|a = \"x|new lines"}, ""},
		{"two on a line", "a = 1 b = 2\n", []string{"1|expected newline"}, ""},
		{"twice", "a = 1\n\n# c\na = 2\nb = 3\na = 4\n", []string{"4|a = 2|already set in line 1|leave one", "6|already set in line 1"}, "a b"},
		{"table", "a = 1\n[tube]\nb = 2\n", []string{"2|[tube]|tables such as \"tube\"|leave the table out"}, "a"},
		{"array of tables", "[[tube]]\nb = 2\n", []string{"1|tables such as \"tube\""}, ""},
		{"bad number", "a = 1__0\n", []string{"1|between underscores"}, ""},
		{"twice before a fault", "a = 1\na = 2\nb =\n", []string{"2|already set", "3|write a key"}, "a"},
		{"not UTF-8", "a = 1\nb = \"\xff\"\n", []string{"2|b = \"\ufffd\"|UTF-8"}, "a"},
		{"control byte", "a = 1\x00\n", []string{"1|"}, ""},
		{"cut off", "a = [1,", []string{"1|"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entries, problems := parseTOML("/f", []byte(tt.text))
			if len(problems) != len(tt.want) {
				t.Fatalf("%q, want %d", fmt.Sprintf("%#v", problems), len(tt.want))
			}
			for i, p := range problems {
				words := strings.Split(tt.want[i], "|")
				if place := "file /f:" + words[0] + ": "; !strings.HasPrefix(p.Error(), place) {
					t.Errorf("%v, want %s", p, place)
				}
				for _, w := range words[1:] {
					if !strings.Contains(p.Excerpt+" "+p.Error(), w) {
						t.Errorf("%q, %q does not hold %q", p.Excerpt, p, w)
					}
				}
			}
			var keys []string
			for _, e := range entries {
				keys = append(keys, e.Name)
			}
			if got := strings.Join(keys, " "); got != tt.keys {
				t.Errorf("good are %q, want %q", got, tt.keys)
			}
		})
	}
}

func TestEntriesHaveValuesAndPlaces(t *testing.T) {
	entries, problems := readFile(writeFile(t, filepath.Join(t.TempDir(), "f"), "\ufeff# c\r\nport = 0x2C24\r\nlisten = [\r\n \"a\", # one\r\n 'b']\r\nx.y = true\r\n\"q\" = [1, # one\n-2]"))
	if problems != nil {
		t.Fatal(problems)
	}
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%d %s %v", e.Line, e.Name, e.Value))
	}
	want := []string{"2 port 11300", "3 listen [a b]", "6 x.y true", "7 q [1 -2]"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if entries[0].Text != "port = 0x2C24" {
		t.Errorf("%q", entries[0].Text)
	}
}

// TestFilesThatCannotBeRead: reading never blocks, and the message names the file.
func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file",
		dir:                        "is a directory",
		pipe:                       "not a regular file",
		"/dev/zero":                "more than 1048576 bytes",
		writeFile(t, filepath.Join(dir, "big"), strings.Repeat("#", 1<<20+1)): "more than 1048576 bytes",
	} {
		began := time.Now()
		entries, problems := readFile(path)
		if len(entries) > 0 || len(problems) != 1 || problems[0].File != path || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%s: %v %+v", path, entries, problems)
		}
		if time.Since(began) > 10*time.Second {
			t.Errorf("%s: it waited", path)
		}
	}
}

func TestFilesAreListedByName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.toml")
	if files, err := listFiles(path); !slices.Equal(files, []string{path}) || err != nil {
		t.Errorf("without a directory: %q %v", files, err)
	}
	must(t, os.Mkdir(path+".d", 0o700))
	for _, name := range []string{"20.toml", "10.toml", "9.toml", "x.toml~", ".hidden.toml", "README"} {
		writeFile(t, filepath.Join(path+".d", name), "")
	}
	want := []string{path, path + ".d/10.toml", path + ".d/20.toml", path + ".d/9.toml"}
	if files, err := listFiles(path); !slices.Equal(files, want) || err != nil {
		t.Errorf("%q %v, want %q", files, err, want)
	}
	other := writeFile(t, filepath.Join(t.TempDir(), "c.toml"), "")
	writeFile(t, other+".d", "")
	if _, err := listFiles(other); err == nil || !strings.HasPrefix(err.Error(), "file "+other+".d: its files cannot be listed") {
		t.Errorf("a file instead: %v", err)
	}
}

// FuzzParse: no panic, and every entry and problem has a line of the file.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"a = 1\n", "a.b = 1\n[x]\n", "a = \"\"\"\nx\"\"\"\nb = {c = 1}\n", "a = [1,\n2]\na=", "[[x]]\n", "\"\" = 1", "=", "a = 1__0", "a = 1\r", "a = 1\na.b = 2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, problems := parseTOML("f", bytes.Clone(text))
		lines := 1 + bytes.Count(text, []byte("\n"))
		for _, e := range entries {
			if e.Line < 1 || e.Line > lines || e.Value == nil {
				t.Errorf("%+v of %d lines", e, lines)
			}
		}
		for _, p := range problems {
			if p.Line < 1 || p.Line > lines {
				t.Errorf("%+v of %d lines", p, lines)
			}
		}
	})
}

// TestLinesReadBack: a written line has the same value when it is read, for any text.
func TestLinesReadBack(t *testing.T) {
	for _, v := range []any{"", "a", `a"b'c\d`, "a\nb\tc\x01\x7f", "é \u2028", "'''", int64(-5), true, []any{"a", "b#"}, []any{`"`, "'"}} {
		written := v
		if list, ok := v.([]any); ok {
			texts := []string{}
			for _, s := range list {
				texts = append(texts, s.(string))
			}
			written = texts
		}
		line, err := tomlfile.Line("key", written)
		must(t, err)
		if strings.Contains(line, "\n") {
			t.Errorf("%v takes several lines: %q", v, line)
		}
		entries, problems := parseTOML("f", []byte(line+" # comment\n"))
		if len(problems) > 0 || len(entries) != 1 || fmt.Sprintf("%#v", entries[0].Value) != fmt.Sprintf("%#v", v) {
			t.Errorf("%#v is written as %q, and read as %+v %v", v, line, entries, problems)
		}
	}
}
