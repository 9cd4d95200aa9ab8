package main

import (
	"strings"
	"testing"

	"polystalk/cmd/internal/release"
)

func TestVersion(t *testing.T) {
	for _, arg := range []string{"-v", "--version", "version"} {
		if got := polystalk(t, 0, arg).stdout; !strings.HasPrefix(got, "polystalk "+release.Version+" go") || strings.Count(got, "\n") != 1 {
			t.Errorf("polystalk %s: %q", arg, got)
		}
	}
	if help := polystalk(t, 0, "--help").stdout; !strings.Contains(help, "polystalk --version\n") {
		t.Errorf("the help does not name it: %q", help)
	}
}
