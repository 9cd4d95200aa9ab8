// Package release says which polystalk this is, for all of its programs.
//
// The version stands in one place, the file VERSION beside this one: packages, the image
// and manuals are made with it as well. It is no tag of the repository, so that sources
// without a repository build the same programs; make release checks that it and the tags
// do not contradict each other.
package release

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

// stamped is set by builds whose version says more than the file: make release does so for
// sources that were modified and for VERSION=, with
// -ldflags "-X polystalk/cmd/internal/release.stamped=...".
var stamped string

// Version is that of polystalk, a semantic version without the "v" of tags.
var Version = cmp.Or(stamped, strings.TrimSpace(file))

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
