//go:build linux

package reactor

import (
	"os"
	"strings"
	"testing"
)

// TestGnetIsTheKnownOne: eventloop_linux.go calls functions and reads fields of gnet by name. With
// another version, read what it uses in gnet's source before this test is changed.
func TestGnetIsTheKnownOne(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/panjf2000/gnet/v2 v2.10.0") {
		t.Error("gnet has another version than the one that eventloop_linux.go was written for")
	}
}
