//go:build linux

package reactor

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGnetIsTheKnownOne: what adopt_linux.go calls and reads by name is declared in
// gnet's source as it is here. With another version this fails: compare the functions,
// what they call and what calls them, before the new text goes here.
func TestGnetIsTheKnownOne(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "github.com/panjf2000/gnet/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	version, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if version != "v2.10.0" {
		t.Errorf("gnet is %s: read the functions of adopt_linux.go in it, then change this test", version)
	}
	for file, wants := range map[string][]string{
		"connection_unix.go": {
			"func newStreamConn(proto string, fd int, el *eventloop, sa unix.Sockaddr, localAddr, remoteAddr net.Addr) (c *conn)",
		},
		"eventloop_unix.go": {
			"func (el *eventloop) register0(c *conn) error",
			"poller *netpoll.Poller",
		},
		"pkg/netpoll/poller_epoll_default.go": {"fd int"},
		"connection_linux.go":                 {"func (c *conn) processIO(_ int, ev netpoll.IOEvent, _ netpoll.IOFlags) error"},
	} {
		has := declarations(t, filepath.Join(dir, file))
		for _, want := range wants {
			if !has[want] {
				t.Errorf("%s has no %q", file, want)
			}
		}
	}
}

// declarations are the functions, without bodies, and the fields of structures.
func declarations(t *testing.T, file string) map[string]bool {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	text := func(n any) string {
		var b bytes.Buffer
		if err := printer.Fprint(&b, fset, n); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	all := make(map[string]bool)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			n.Body, n.Doc = nil, nil
			all[text(n)] = true
		case *ast.StructType:
			for _, field := range n.Fields.List {
				for _, name := range field.Names {
					all[name.Name+" "+text(field.Type)] = true
				}
			}
		}
		return true
	})
	return all
}
