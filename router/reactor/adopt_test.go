//go:build linux

package reactor

import (
	"os"
	"strings"
	"testing"
)

// TestGnetIsTheKnownOne: eventloop_linux.go uses functions and fields of gnet by name. For another
// version, read the source of these before you change this test.
func TestGnetIsTheKnownOne(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/panjf2000/gnet/v2 v2.10.0") {
		t.Error("gnet has another version than the one that eventloop_linux.go was written for")
	}
}
