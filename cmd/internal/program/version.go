// Package program has what all programs share: their version, and text that is safe to show.
//
// The version is in the file VERSION; packages, the image and manuals take it from there. It is not
// a tag of the repository, so sources without a repository build the same programs. make release
// checks that the file and the tags agree.
package program

import (
	"cmp"
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

//go:embed VERSION
var file string

// stamped is the version of builds that do not use the file's: make release sets it for modified
// sources and for VERSION=, with
// -ldflags "-X polystalk/cmd/internal/program.stamped=...".
var stamped string

// Version is the semantic version of polystalk, without the "v" of tags.
var Version = cmp.Or(stamped, strings.TrimSpace(file))

// Line returns the text of a program's --version. about, which may be empty, is in brackets.
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
