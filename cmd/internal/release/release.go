// Package release says which polystalk this is, for all of its programs.
package release

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is that of polystalk. A build may set another with
// -ldflags "-X polystalk/cmd/internal/release.Version=...".
var Version = "0.1.0"

// Line is what a program of that name prints for --version; about, which may be empty,
// goes in brackets.
func Line(program, about string) string {
	line := program + " " + Version
	if about != "" {
		line += " (" + about + ")"
	}
	line += fmt.Sprintf(" %s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if info, ok := debug.ReadBuildInfo(); ok {
		var revision, modified string
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				revision = s.Value
			case "vcs.modified":
				if s.Value == "true" {
					modified = "+modified"
				}
			}
		}
		if revision != "" {
			line += " " + revision[:min(12, len(revision))] + modified
		}
	}
	return line
}
