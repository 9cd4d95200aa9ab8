package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestPlatforms(t *testing.T) {
	for list, want := range map[string]string{
		"": fmt.Sprint(allPlatforms), "linux/arm64": "[linux/arm64]", "darwin/arm64,linux/amd64,darwin/arm64": "[darwin/arm64 linux/amd64]",
	} {
		if got, err := parsePlatforms(list); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
	for _, bad := range []string{"linux", "linux/amd64,", "linux/riscv64", "Linux/amd64"} {
		if got, err := parsePlatforms(bad); err == nil || !strings.Contains(err.Error(), "linux/amd64 linux/arm64 darwin/arm64") {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

// TestProgramOfAnotherCommit is detected: this test's own program has no commit.
func TestProgramOfAnotherCommit(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	if err := checkRevision(&Source{}, self); err != nil {
		t.Error(err)
	}
	if err := checkRevision(&Source{Revision: strings.Repeat("ab", 20)}, self); err == nil || !strings.Contains(err.Error(), "in a clone") {
		t.Errorf("%v", err)
	}
	if err := checkRevision(&Source{}, os.DevNull); err == nil {
		t.Error("what is no program was taken for one")
	}
}
