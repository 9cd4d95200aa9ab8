package config

import (
	"strings"
	"testing"

	"polystalk/cmd/internal/program"
)

// TestVersionsOfRepliesAreSemantic: a version has at most one "+", and ours follows it.
func TestVersionsOfRepliesAreSemantic(t *testing.T) {
	defer func(was string) { program.Version = was }(program.Version)
	program.Version = "0.2.0-rc.1+modified"
	for got, want := range map[string]string{
		statsVersion(): "1.13.0+polystalk.0.2.0-rc.1.modified", gearmanVersion(): "2.0.0+polystalk.0.2.0-rc.1.modified",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if line := VersionLine(); !strings.HasPrefix(line, "polystalkd 0.2.0-rc.1+modified (speaks ") {
		t.Errorf("%s", line)
	}
}
