// Package cmd holds the programs, and here the rules that keep the packages of
// the module apart from each other.
package cmd

import (
	"bytes"
	"fmt"
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

const (
	module   = "polystalk"
	linesMax = 500 // of a Go file that is not a test
)

// A source is one Go file of the module.
type source struct {
	name string // from the module's root, with slashes
	text []byte
	file *ast.File
	fset *token.FileSet
}

func (s *source) dir() string  { return path.Dir(s.name) }
func (s *source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// in reports whether the file lies in the directory or below it.
func (s *source) in(dir string) bool {
	return s.dir() == dir || strings.HasPrefix(s.dir(), dir+"/")
}

func parse(name string, text []byte) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{name, text, file, fset}, nil
}

// readTree parses every Go file below the module's root.
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

// importFaults lists the imports of s that break a rule:
//
//	cmd ──► router ──► codec, shard      codec and shard know neither each other nor router
//	loadtest ──► codec                   it must be able to drive other servers
//	gnet only in router/gnet.go          sessions must work with other transports
//	  (and in loadtest/floor, the constant server it is measured against)
//	nobody ──► cmd
func importFaults(s *source) []string {
	var faults []string
	for _, spec := range s.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		ours := func(dir string) bool {
			return imported == module+"/"+dir || strings.HasPrefix(imported, module+"/"+dir+"/")
		}
		var rule string
		switch {
		case ours("cmd") && !s.in("cmd"):
			rule = "nothing imports cmd"
		case s.in("codec") && (ours("shard") || ours("router")):
			rule = "codec imports neither shard nor router"
		case s.in("shard") && (ours("codec") || ours("router")):
			rule = "shard imports neither codec nor router"
		case s.in("loadtest") && (ours("shard") || ours("router")):
			rule = "loadtest imports neither shard nor router"
		case strings.HasPrefix(imported, "github.com/panjf2000/gnet") && s.name != "router/gnet.go" && !strings.HasPrefix(s.name, "loadtest/floor/"):
			rule = "only router/gnet.go imports gnet"
		default:
			continue
		}
		faults = append(faults, fmt.Sprintf("%s imports %s: %s", s.name, imported, rule))
	}
	return faults
}

// isCore reports whether s must be deterministic: the codecs without their test
// libraries, and the state machine of a shard. The packages around it and beside it
// serve it and may know clocks and goroutines.
func isCore(s *source) bool {
	if s.isTest() || s.in("codec/wiretest") || s.in("codec/gearmantest") {
		return false
	}
	return s.in("codec") || s.dir() == "shard/core"
}

// bannedImports bring chance, and bannedTime the clock, into the core.
var (
	bannedImports = []string{"math/rand", "math/rand/v2", "crypto/rand", "hash/maphash"}
	bannedTime    = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}
)

// coreFaults lists what makes s depend on anything but its arguments. A range
// over a map is found where the file itself shows that the operand is a map;
// one whose order cannot be seen from outside says so in a comment with the
// word "order" on its line or the line above.
func coreFaults(s *source) []string {
	var faults []string
	add := func(n ast.Node, what string) {
		faults = append(faults, fmt.Sprintf("%s:%d: %s", s.name, s.fset.Position(n.Pos()).Line, what))
	}
	for _, spec := range s.file.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil && slices.Contains(bannedImports, name) {
			add(spec, "the core imports "+name)
		}
	}
	maps := mapNames(s.file)
	excused := make(map[int]bool)
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if strings.Contains(c.Text, "order") {
				line := s.fset.Position(c.Pos()).Line
				excused[line], excused[line+1] = true, true
			}
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, "the core starts a goroutine")
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains(bannedTime, n.Sel.Name) {
				add(n, "the core uses time."+n.Sel.Name)
			}
		case *ast.RangeStmt:
			if maps[lastName(n.X)] && !excused[s.fset.Position(n.Pos()).Line] {
				add(n, "the core ranges over the map "+lastName(n.X)+" in no fixed order")
			}
		}
		return true
	})
	return faults
}

// mapNames are the fields, parameters and variables that file declares as maps.
func mapNames(file *ast.File) map[string]bool {
	names := make(map[string]bool)
	note := func(idents ...*ast.Ident) {
		for _, id := range idents {
			names[id.Name] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if isMap(n.Type) {
				note(n.Names...)
			}
		case *ast.ValueSpec:
			if isMap(n.Type) || len(n.Values) == 1 && makesMap(n.Values[0]) {
				note(n.Names...)
			}
		case *ast.AssignStmt:
			for i, right := range n.Rhs {
				if id, ok := n.Lhs[i].(*ast.Ident); ok && makesMap(right) {
					note(id)
				}
			}
		}
		return true
	})
	return names
}

func isMap(e ast.Expr) bool {
	_, ok := e.(*ast.MapType)
	return ok
}

// makesMap reports whether e is a map's literal or a call of make for one.
func makesMap(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return isMap(e.Type)
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.Ident)
		return ok && f.Name == "make" && len(e.Args) > 0 && isMap(e.Args[0])
	}
	return false
}

// lastName is x of x and of a.b.x, and empty for anything else.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func TestImportsFollowTheLayers(t *testing.T) {
	for _, s := range readTree(t) {
		for _, f := range importFaults(s) {
			t.Error(f)
		}
	}
}

func TestCoreIsDeterministic(t *testing.T) {
	for _, s := range readTree(t) {
		if isCore(s) {
			for _, f := range coreFaults(s) {
				t.Error(f)
			}
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	for _, s := range readTree(t) {
		if n := bytes.Count(s.text, []byte("\n")); n >= linesMax && !s.isTest() {
			t.Errorf("%s has %d lines, want fewer than %d: split it by its nouns", s.name, n, linesMax)
		}
	}
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

// The rules above must find what they are for.
func TestRulesFindWhatTheyForbid(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       int
	}{
		{"codec/a.go", `package codec; import _ "polystalk/shard"`, 1},
		{"codec/beanstalk/a_test.go", `package beanstalk; import _ "polystalk/router"`, 1},
		{"codec/beanstalk/a.go", `package beanstalk; import _ "polystalk/codec"`, 0},
		{"shard/ring/a.go", `package ring; import _ "polystalk/codec/beanstalk"`, 1},
		{"shard/a.go", `package shard; import _ "polystalk/shard/ring"`, 0},
		{"router/a.go", `package router; import (_ "polystalk/codec"; _ "polystalk/shard")`, 0},
		{"router/a.go", `package router; import _ "polystalk/cmd/polystalkd"`, 1},
		{"router/session.go", `package router; import _ "github.com/panjf2000/gnet/v2"`, 1},
		{"router/gnet.go", `package router; import _ "github.com/panjf2000/gnet/v2/pkg/logging"`, 0},
		{"loadtest/a.go", `package main; import (_ "polystalk/codec"; _ "polystalk/router")`, 1},
		{"shardlike/a.go", `package shardlike; import _ "polystalk/codec"`, 0},

		{"shard/core/a.go", `package shard; import "time"; var t = time.Now()`, 1},
		{"shard/core/a.go", `package shard; import "time"; const d = time.Second`, 0},
		{"shard/loop.go", `package shard; import "time"; var t = time.Now()`, 0},
		{"shard/ring/a.go", `package ring; func f() { go f() }`, 0},
		{"shard/core/a.go", `package shard; func f() { go f() }`, 1},
		{"codec/a.go", `package codec; import _ "math/rand/v2"`, 1},
		{"codec/beanstalk/a_test.go", `package beanstalk; import _ "math/rand/v2"`, 0},
		{"shard/core/a.go", "package shard\ntype s struct{ m map[int]int }\nfunc (s *s) f() {\n\tfor range s.m {\n\t}\n}\n", 1},
		{"shard/core/a.go", "package shard\nfunc f() {\n\tm := make(map[int]int)\n\tfor k := range m {\n\t\t_ = k\n\t}\n}\n", 1},
		{"shard/core/a.go", "package shard\nfunc f(m map[int]int) (n int) {\n\t// A sum: the order does not show.\n\tfor _, v := range m {\n\t\tn += v\n\t}\n\treturn\n}\n", 0},
		{"shard/core/a.go", "package shard\nfunc f(m []int) {\n\tfor range m {\n\t}\n}\n", 0},
	} {
		s, err := parse(tt.name, []byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		got := importFaults(s)
		if isCore(s) {
			got = append(got, coreFaults(s)...)
		}
		if len(got) != tt.want {
			t.Errorf("%s: %s\n\tfound %q, want %d", tt.name, tt.text, got, tt.want)
		}
	}
}
