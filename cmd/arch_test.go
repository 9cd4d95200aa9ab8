// Package cmd holds the programs, and here the rules that hold for the source
// of the whole module: which package may import which (imports_test.go), what keeps the
// core deterministic (core_test.go), how large things may become
// (sizes_test.go), which words its comments avoid (language_test.go), and what may lie at
// the top.
package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "polystalk"

// A source is one Go file of the module.
type source struct {
	name string // from the module's root, with slashes
	text []byte
	file *ast.File
	fset *token.FileSet
}

func (s *source) dir() string         { return path.Dir(s.name) }
func (s *source) isTest() bool        { return strings.HasSuffix(s.name, "_test.go") }
func (s *source) line(p ast.Node) int { return s.fset.Position(p.Pos()).Line }

// imports are the paths that s imports.
func (s *source) imports() []string {
	var all []string
	for _, spec := range s.file.Imports {
		// The parser has seen that it is a string.
		name, _ := strconv.Unquote(spec.Path.Value)
		all = append(all, name)
	}
	return all
}

// within reports whether the directory dir is folder or lies below it.
func within(dir, folder string) bool {
	return dir == folder || strings.HasPrefix(dir, folder+"/")
}

func parse(name string, text []byte) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{name, text, file, fset}, nil
}

// mustParse is parse for the small sources that the rules themselves are tested with.
func mustParse(t *testing.T, name, text string) *source {
	t.Helper()
	s, err := parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readTree parses every Go file below the module's root, also those that are
// not built on this platform.
func readTree(t *testing.T) []*source {
	t.Helper()
	var all []*source
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() && name != ".." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(base, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("..", name)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(rel), text)
		if err != nil {
			return err
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no Go file found")
	}
	return all
}

func TestTopLevelIsFixed(t *testing.T) {
	allowed := []string{"cmd", "shard", "codec", "router", "loadtest", "go.mod", "go.sum", "Makefile", "README.md", "LICENSE"}
	ignored := []string{"bin", "*.test", "*.prof", "*.out"} // as in .gitignore
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		skip := strings.HasPrefix(name, ".") || slices.Contains(allowed, name)
		for _, pattern := range ignored {
			if ok, err := path.Match(pattern, name); err != nil {
				t.Fatal(err)
			} else if ok {
				skip = true
			}
		}
		if !skip {
			t.Errorf("%s does not belong at the top level: put it below one of %q", name, allowed[:5])
		}
	}
}
