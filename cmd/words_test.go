package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestOneWordForAServer: what operators read of a cluster calls its servers so, and nothing else;
// flags, keys of the log, labels of metrics and fields of JSON that say node are names.
func TestOneWordForAServer(t *testing.T) {
	word := regexp.MustCompile(`(^|[^-\w{/"=])[nN]odes?($|[^-\w}="])`)
	for _, folder := range []string{"router/cluster", "router/restore", "cmd/polystalkd", "cmd/polystalk"} {
		err := filepath.WalkDir(filepath.Join("..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING || strings.HasPrefix(lit.Value, "`json:") {
					return true
				}
				if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, " ") && word.MatchString(text) {
					t.Errorf("%s: %q: say server", files.Position(lit.Pos()), text)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
