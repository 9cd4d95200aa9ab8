package cmd

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// isCore reports whether s must be deterministic: the codecs without their test
// libraries, the state machine of a shard, and what it imports, and a journal's
// arithmetic. The packages around the core serve it and may know clocks and goroutines.
func isCore(s *source) bool { return !s.isTest() && isCoreFolder(s.dir()) }

func isCoreFolder(dir string) bool {
	if within(dir, "codec/conversation") || within(dir, "codec/wiretest") {
		return false
	}
	return slices.ContainsFunc([]string{"codec", "shard/core", "shard/listindex", "shard/record", "shard/slab", "shard/stats", "shard/wal/space"}, func(folder string) bool {
		return within(dir, folder)
	})
}

// bannedImports bring chance, and bannedTime the clock, into the core.
var (
	bannedImports = []string{"math/rand", "math/rand/v2", "crypto/rand", "hash/maphash"}
	bannedTime    = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}
)

// coreFaults lists what makes s depend on anything but its arguments. A range
// over a map is a fault if the file shows that the operand is a map. It is allowed with a
// comment that has the word "order", on its line or the line above.
func coreFaults(s *source) []string {
	var faults []string
	add := func(n ast.Node, what string) {
		faults = append(faults, fmt.Sprintf("%s:%d: %s", s.name, s.line(n), what))
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
				line := s.line(c)
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
			if maps[lastName(n.X)] && !excused[s.line(n)] {
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

func TestCoreIsDeterministic(t *testing.T) {
	for _, s := range readTree(t) {
		if isCore(s) {
			for _, f := range coreFaults(s) {
				t.Error(f)
			}
		}
	}
}

// What the core imports could else bring in what is kept out of its own files.
func TestCoreImportsTheCoreAlone(t *testing.T) {
	for _, r := range rows(readTree(t)) {
		if r.folder != "shard/core" && !(within(r.folder, "codec") && isCoreFolder(r.folder)) {
			continue
		}
		for name := range strings.FieldsSeq(r.imports) {
			if _, library := libraries[name]; !library && !isCoreFolder(name) {
				t.Errorf("%s imports %s, which need not be deterministic", r.folder, name)
			}
		}
	}
}

func TestCoreFaultsAreFound(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       int
	}{
		{"shard/core/a.go", `package core; import "time"; var t = time.Now()`, 1},
		{"shard/core/a.go", `package core; import "time"; const d = time.Second`, 0},
		{"shard/core/a.go", `package core; import "time"; var t = time.NewTimer(1)`, 1},
		{"shard/loop.go", `package shard; import "time"; var t = time.Now()`, 0},
		{"shard/wal/a.go", `package wal; func f() { go f() }`, 0},
		{"shard/core/a.go", `package core; func f() { go f() }`, 1},
		{"shard/core/loop.go", `package core; func f() { go f() }`, 1},
		{"shard/record/a.go", `package record; func f() { go f() }`, 1},
		{"codec/a.go", `package codec; import _ "math/rand/v2"`, 1},
		{"shard/core/a.go", `package core; import _ "hash/maphash"`, 1},
		{"shard/core/a_test.go", `package core; import _ "hash/maphash"`, 0},
		{"codec/beanstalk/a_test.go", `package beanstalk; import _ "math/rand/v2"`, 0},
		{"codec/conversation/a.go", `package conversation; import _ "math/rand/v2"`, 0},
		{"shard/core/a.go", "package core\ntype s struct{ m map[int]int }\nfunc (s *s) f() {\n\tfor range s.m {\n\t}\n}\n", 1},
		{"shard/core/a.go", "package core\nfunc f() {\n\tm := make(map[int]int)\n\tfor k := range m {\n\t\t_ = k\n\t}\n}\n", 1},
		{"shard/core/a.go", "package core\nfunc f(m map[int]int) (n int) {\n\t// A sum: the order does not show.\n\tfor _, v := range m {\n\t\tn += v\n\t}\n\treturn\n}\n", 0},
		{"shard/core/a.go", "package core\nfunc f(m []int) {\n\tfor range m {\n\t}\n}\n", 0},
	} {
		s := mustParse(t, tt.name, tt.text)
		var got []string
		if isCore(s) {
			got = coreFaults(s)
		}
		if len(got) != tt.want {
			t.Errorf("%s: %s\n\tfound %q, want %d", tt.name, tt.text, got, tt.want)
		}
	}
}
