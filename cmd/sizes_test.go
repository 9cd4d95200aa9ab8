package cmd

import (
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A budget is the most lines that the Go files of a folder may have, blank lines and tests
// not counted. It covers the folders below that have no budget of their own. A change that
// needs more raises the number in the same commit, and says why.
type budget struct {
	folder string
	lines  int
}

var budgets = []budget{
	{"cmd", 120},
	{"cmd/manual", 430},
	{"cmd/manual/guide", 75}, // the recipe in Go
	{"cmd/polystalk", 10061},
	{"cmd/polystalkd", 3078},
	{"cmd/polystalkd/config", 2124},
	{"cmd/polystalkd/e2e", 650},
	{"cmd/polystalkd/member", 2300},
	{"cmd/release", 1660},
	{"codec", 4847},
	{"codec/conversation", 3860},
	{"loadtest", 35},
	{"loadtest/bench", 4345},
	{"loadtest/faults", 2680},
	{"router", 801},
	{"router/access", 1369},
	{"router/admin", 3759},
	{"router/beanstalkd", 1565},
	{"router/cluster", 7124},
	{"router/direct", 301},
	{"router/gearmand", 1821},
	{"router/http", 5276},
	{"router/ops", 1655},
	{"router/reactor", 2760},
	{"router/restore", 480},
	{"router/session", 3695},
	{"router/routertest", 620},
	{"router/sim", 700},
	{"router/trend", 824},
	{"shard", 690},
	{"shard/commit", 1080},
	{"shard/core", 7545},
	{"shard/slab", 626},
	{"shard/stats", 263},
	{"shard/record", 750},
	{"shard/wal", 5865},
}

const (
	fileLines    = 499 // the most lines of a file that is no test
	structFields = 25  // the most fields of a struct that is no test's
)

// wideStructs may have that many fields.
var wideStructs = map[string]int{
	"codec/beanstalk.ServerStats": 30, // one for each line of the protocol's stats
}

// budgetFaults lists the folders that exceed their budget, the files without a budget, and
// the budgets without a file.
func budgetFaults(all []*source, budgets []budget) []string {
	var faults []string
	used := make(map[string]int)
	for _, s := range all {
		if s.isTest() {
			continue
		}
		folder := ""
		for _, b := range budgets {
			if within(s.dir(), b.folder) && len(b.folder) > len(folder) {
				folder = b.folder
			}
		}
		if folder == "" {
			faults = append(faults, s.name+" has no budget")
			continue
		}
		for line := range bytes.Lines(s.text) {
			if len(bytes.TrimSpace(line)) > 0 {
				used[folder]++
			}
		}
	}
	for _, b := range budgets {
		switch n := used[b.folder]; {
		case n == 0:
			faults = append(faults, b.folder+" has a budget and no file")
		case n > b.lines:
			faults = append(faults, fmt.Sprintf("%s has %d lines, and its budget is %d: remove some, or raise the budget and say why", b.folder, n, b.lines))
		}
	}
	return faults
}

// fileFaults lists files that are too long, and comments that begin with an ellipsis.
func fileFaults(s *source) []string {
	var faults []string
	if n := bytes.Count(s.text, []byte("\n")); n > fileLines && !s.isTest() {
		faults = append(faults, fmt.Sprintf("%s has %d lines, want at most %d: split it by its nouns", s.name, n, fileLines))
	}
	for _, g := range s.file.Comments {
		for _, c := range g.List {
			text := strings.TrimLeft(strings.TrimLeft(c.Text, "/*"), " \t")
			if strings.HasPrefix(text, "…") || strings.HasPrefix(text, "...") {
				faults = append(faults, fmt.Sprintf("%s:%d: write whole sentences that can be understood where they stand", s.name, s.line(c)))
			}
		}
	}
	return faults
}

// fields counts the fields of each struct of s. An embedded type counts as one. A struct
// without a name is named after its declaration, and counted by itself.
func fields(s *source) map[string]int {
	sums := make(map[string]int)
	for _, d := range s.file.Decls {
		in := ""
		inner := 0
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				in = n.Name.Name + "()"
			case *ast.TypeSpec:
				in, inner = n.Name.Name, 0
			case *ast.ValueSpec:
				in, inner = n.Names[0].Name, 0
			case *ast.StructType:
				name := s.dir() + "." + in
				if inner++; inner > 1 {
					name += fmt.Sprintf("/%d", inner)
				}
				sum := 0
				for _, f := range n.Fields.List {
					sum += max(1, len(f.Names))
				}
				sums[name] = max(sums[name], sum)
			}
			return true
		})
	}
	return sums
}

func TestSizesAreWithinBudgets(t *testing.T) {
	all := readTree(t)
	faults := budgetFaults(all, budgets)
	for _, s := range all {
		faults = append(faults, fileFaults(s)...)
		if s.isTest() {
			continue
		}
		for name, n := range fields(s) {
			if most := max(structFields, wideStructs[name]); n > most {
				faults = append(faults, fmt.Sprintf("%s has %d fields, want at most %d: give fields that belong together a type", name, n, most))
			}
		}
	}
	for _, f := range faults {
		t.Error(f)
	}
}

func TestSizeFaultsAreFound(t *testing.T) {
	s := mustParse(t, "a/a.go", `package a
		// … goes on
		type one struct { a, b int; c bool; sync.Mutex; d atomic.Bool } // ... and on
		type two struct { a struct { b bool; c struct { d, e bool } } } /* … */
		var table = []struct { a, b bool }{}

		func (o *one) f() { var _ struct{ a bool } } // well … so
	`)
	if got := fileFaults(s); len(got) != 3 {
		t.Errorf("%q, want three comments", got)
	}
	long := mustParse(t, "a/b.go", "package a\n"+strings.Repeat("\n", fileLines))
	if got := fileFaults(long); len(got) != 1 || !strings.Contains(got[0], "split it") {
		t.Errorf("%q, want one long file", got)
	}
	want := map[string]int{"a._": 1, "a.one": 5, "a.table": 2, "a.two": 1, "a.two/2": 2, "a.two/3": 2}
	if got := fields(s); !maps.Equal(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}
	deep := mustParse(t, "a/b/c/c.go", "package c\n\nvar x int\n")
	test := mustParse(t, "a/a_test.go", "package a\n")
	for _, tt := range []struct {
		budgets []budget
		want    []string
	}{
		{[]budget{{"a", 8}}, nil}, // blank lines and tests do not count
		{[]budget{{"a", 7}}, []string{"a has 8 lines, and its budget is 7"}},
		{[]budget{{"a", 6}, {"a/b", 2}}, nil},
		{[]budget{{"a", 6}, {"a/b", 1}}, []string{"a/b has 2 lines"}},
		{[]budget{{"a/b", 2}}, []string{"a/a.go has no budget"}},
		{[]budget{{"a", 8}, {"ab", 1}}, []string{"ab has a budget and no file"}},
	} {
		got := budgetFaults([]*source{s, deep, test}, tt.budgets)
		if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
			t.Errorf("%v: %q, want %q", tt.budgets, got, tt.want)
		}
	}
}
