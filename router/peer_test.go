package router

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Complaints are about clients, or about the address at which they come.
func TestComplaintsNameTheClient(t *testing.T) {
	names, err := filepath.Glob("*.go")
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
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "complain" {
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
	if found < 5 {
		t.Errorf("%d complaints found", found)
	}
}

// This machine is where the command shutdown is taken from.
func TestThisMachineIsItsAddresses(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range own {
		if n, ok := o.(*net.IPNet); ok && !isHere(&net.TCPAddr{IP: n.IP, Port: 1}) {
			t.Errorf("%v is an address of this machine", n.IP)
		}
	}
	for ip, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"198.51.100.77": false, "2001:db8::1": false, "0.0.0.0": false, "::": false,
	} {
		if got := isHere(&net.TCPAddr{IP: net.ParseIP(ip), Port: 1}); got != want {
			t.Errorf("%s: %t", ip, got)
		}
	}
	if !isHere(&net.UnixAddr{Net: "unix"}) {
		t.Error("the client of a unix socket is on this machine")
	}
	if isHere(nil) {
		t.Error("nobody knows where that is")
	}
}
