package build

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"polystalk/cmd/release/source"
)

func TestPlatforms(t *testing.T) {
	for list, want := range map[string]string{
		"": fmt.Sprint(Platforms), "linux/arm64": "[linux/arm64]", "darwin/arm64,linux/amd64,darwin/arm64": "[darwin/arm64 linux/amd64]",
	} {
		if got, err := ParsePlatforms(list); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
	for _, bad := range []string{"linux", "linux/amd64,", "linux/riscv64", "Linux/amd64"} {
		if got, err := ParsePlatforms(bad); err == nil || !strings.Contains(err.Error(), "linux/amd64 linux/arm64 darwin/arm64") {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

// TestProgramOfAnotherCommit is found out: this test's own program tells none.
func TestProgramOfAnotherCommit(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkRevision(&source.Source{}, self); err != nil {
		t.Error(err)
	}
	if err := checkRevision(&source.Source{Revision: strings.Repeat("ab", 20)}, self); err == nil || !strings.Contains(err.Error(), "in a clone") {
		t.Errorf("%v", err)
	}
	if err := checkRevision(&source.Source{}, os.DevNull); err == nil {
		t.Error("what is no program was taken for one")
	}
}
