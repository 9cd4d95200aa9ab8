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

// A size is what one thing of the module has of something that there is a limit for.
type size struct {
	of string // a struct ("router.session"), a package ("router"), or a file ("router/session.go")
	n  int
}

// A limit is kept by everything but its exceptions, which are as large as is
// said, exactly: one that has become smaller is given its new number, and one
// that has come within the limit is taken out. So the list can only shrink.
type limit struct {
	what       string
	max        int
	advice     string
	measure    func(all []*source) []size
	exceptions []size
}

var limits = []limit{
	{"fields", 25, "give what belongs together a type", fields, []size{
		{"codec/beanstalk.ServerStats", 30}, // the lines of the protocol's stats, one each
	}},
	{"lines", 499, "split it by its nouns", lines, nil},
	{"comments that begin with …", 0, "write whole sentences that can be understood where they stand", continued, nil},
}

// faults lists what is larger than its limit, and the exceptions that do not
// hold any more.
func (l limit) faults(all []*source) []string {
	var faults []string
	left := make(map[string]int)
	for _, e := range l.exceptions {
		if e.n <= l.max {
			faults = append(faults, fmt.Sprintf("%s is an exception for %d %s, and %d are allowed", e.of, e.n, l.what, l.max))
		}
		left[e.of] = e.n
	}
	for _, s := range l.measure(all) {
		n, excepted := left[s.of]
		delete(left, s.of)
		switch {
		case excepted && s.n == n || !excepted && s.n <= l.max:
		case s.n <= l.max:
			faults = append(faults, fmt.Sprintf("%s has only %d %s: it is no exception any more", s.of, s.n, l.what))
		case s.n < n:
			faults = append(faults, fmt.Sprintf("%s has %d %s: make that the number of its exception", s.of, s.n, l.what))
		default:
			faults = append(faults, fmt.Sprintf("%s has %d %s, want at most %d: %s", s.of, s.n, l.what, max(n, l.max), l.advice))
		}
	}
	for of := range left {
		faults = append(faults, fmt.Sprintf("%s is an exception for its %s, and is not there", of, l.what))
	}
	return faults
}

// fields counts what is declared in each struct; what is embedded counts one.
func fields(all []*source) []size {
	return structs(all, func(*ast.Field) bool { return true })
}

// structs counts, in each struct that is not a test's, the fields for which
// counted is true. A struct without a name of its own is named after the
// declaration that it stands in, and counted apart from it.
func structs(all []*source, counted func(*ast.Field) bool) []size {
	most := make(map[string]int) // of those that share a name, as twins for other platforms do
	for _, s := range all {
		if s.isTest() {
			continue
		}
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
						if counted(f) {
							sum += max(1, len(f.Names))
						}
					}
					most[name] = max(most[name], sum)
				}
				return true
			})
		}
	}
	return sizes(most)
}

// sizes returns the entries of m, sorted by name.
func sizes(m map[string]int) []size {
	var all []size
	for _, of := range slices.Sorted(maps.Keys(m)) {
		all = append(all, size{of, m[of]})
	}
	return all
}

func lines(all []*source) []size {
	var found []size
	for _, s := range all {
		if !s.isTest() {
			found = append(found, size{s.name, bytes.Count(s.text, []byte("\n"))})
		}
	}
	return found
}

// continued counts, in each package, the comments that go on from another one.
func continued(all []*source) []size {
	sums := make(map[string]int)
	for _, s := range all {
		sums[s.dir()] += 0
		for _, g := range s.file.Comments {
			for _, c := range g.List {
				text := strings.TrimLeft(strings.TrimLeft(c.Text, "/*"), " \t")
				if strings.HasPrefix(text, "…") || strings.HasPrefix(text, "...") {
					sums[s.dir()]++
				}
			}
		}
	}
	return sizes(sums)
}

func TestSizesAreWithinLimits(t *testing.T) {
	all := readTree(t)
	for _, l := range limits {
		for _, f := range l.faults(all) {
			t.Error(f)
		}
	}
}

func TestSizesAreMeasured(t *testing.T) {
	all := []*source{
		mustParse(t, "a/a.go", `package a
			// … goes on
			type one struct { a, b int; c bool; sync.Mutex; d atomic.Bool; e []bool } // ... and on
			type two struct { a struct { b bool; c struct { d, e bool } } } /* … */
			var table = []struct { a, b bool }{}
			func (o *one) f() { var _ struct{ a bool } } // well … so
		`),
		mustParse(t, "a/b_linux.go", "package a\n"),
		mustParse(t, "a/b_other.go", "//go:build !linux\n\npackage a\n"),
		mustParse(t, "a/b.go", "package a\n"),
		mustParse(t, "a/c_d.go", "package a\n"),
		mustParse(t, "a/a_test.go", "package a\n\n// … a test's\ntype three struct{ a, b bool }\n"),
		mustParse(t, "a/b/c.go", "package b\n"),
	}
	for _, tt := range []struct {
		measure func([]*source) []size
		want    []size
	}{
		{fields, []size{{"a._", 1}, {"a.one", 6}, {"a.table", 2}, {"a.two", 1}, {"a.two/2", 2}, {"a.two/3", 2}}},
		{lines, []size{{"a/a.go", 6}, {"a/b_linux.go", 1}, {"a/b_other.go", 3}, {"a/b.go", 1}, {"a/c_d.go", 1}, {"a/b/c.go", 1}}},
		{continued, []size{{"a", 4}, {"a/b", 0}}},
	} {
		if got := tt.measure(all); !slices.Equal(got, tt.want) {
			t.Errorf("measured %v, want %v", got, tt.want)
		}
	}
}

func TestLimitFaultsAreFound(t *testing.T) {
	for _, tt := range []struct {
		found, exceptions []size
		want              string // words of the only fault; empty: there is none
	}{
		{[]size{{"a", 2}, {"b", 3}}, nil, ""},
		{[]size{{"a", 4}}, nil, "at most 3"},
		{[]size{{"a", 4}}, []size{{"a", 4}}, ""},
		{[]size{{"a", 5}}, []size{{"a", 4}}, "at most 4"},
		{[]size{{"a", 4}}, []size{{"a", 5}}, "make that the number"},
		{[]size{{"a", 3}}, []size{{"a", 4}}, "no exception any more"},
		{[]size{{"a", 2}}, []size{{"b", 4}}, "not there"},
		{[]size{{"a", 3}}, []size{{"a", 3}}, "3 are allowed"},
	} {
		l := limit{"things", 3, "have fewer", func([]*source) []size { return tt.found }, tt.exceptions}
		got := l.faults(nil)
		if tt.want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || tt.want == "" || !strings.Contains(got[0], tt.want) {
			t.Errorf("%v with the exceptions %v: found %q, want %q", tt.found, tt.exceptions, got, tt.want)
		}
	}
}
