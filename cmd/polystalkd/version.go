package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// release is the version of polystalkd itself. The Makefile may set another
// with -ldflags "-X main.release=...".
var release = "0.1.0"

// spoken is the release of beanstalkd whose protocol and replies we follow.
const spoken = "1.13"

// spokenGearman is the release of gearmand whose behaviour we follow.
const spokenGearman = "2.0.0"

// statsVersion is the version key of the stats reply. Clients compare it as a
// number or as dotted numbers to learn which commands they may send, so it
// starts with the release we speak, padded to three parts for strict semantic
// version parsers. What follows "+" is build metadata, which such parsers
// ignore; beanstalkd's own builds between releases use the same sign
// ("1.10+4+gdeadbee"), so clients have met it.
func statsVersion() string { return spoken + ".0+polystalk." + release }

// gearmanVersion is what Gearman's command version answers, in the same form: its
// monitoring knows gearmand's releases, not beanstalkd's.
func gearmanVersion() string { return spokenGearman + "+polystalk." + release }

// versionLine is what -v prints.
func versionLine() string { return buildLine("beanstalkd " + spoken) }

// gearmandVersionLine is what --version prints in place of gearmand.
func gearmandVersionLine() string {
	return buildLine("Gearman as gearmand " + spokenGearman + ", beanstalkd " + spoken)
}

func buildLine(speaks string) string {
	line := fmt.Sprintf("polystalkd %s (speaks %s) %s %s/%s",
		release, speaks, runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
