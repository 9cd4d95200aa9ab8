package router_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Complaints are about clients, or about the address at which they come.
func TestComplaintsNameTheClient(t *testing.T) {
	names, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "Complain" {
				return true
			}
			found++
			if !slices.ContainsFunc(call.Args, func(a ast.Expr) bool {
				key, ok := a.(*ast.BasicLit)
				return ok && (key.Value == `"conn"` || key.Value == `"addr"`)
			}) {
				t.Errorf("%s: a complaint names nobody: %v", name, call.Args[0])
			}
			return true
		})
	}
	if found < 12 {
		t.Errorf("%d complaints found", found)
	}
}
