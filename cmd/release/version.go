package main

import "strings"

// A tilde sorts before the end of a version, in Debian's tools and in RPM's: what comes
// before a release does so as well.

// split is a semantic version's three parts: 1.2.3, rc.1 and modified of
// 1.2.3-rc.1+modified.
func split(version string) (release, before, metadata string) {
	release, metadata, _ = strings.Cut(version, "+")
	release, before, _ = strings.Cut(release, "-")
	return release, before, metadata
}

// PackageVersion is the version as packages have it. A dash would begin a revision of the
// package's own, which it has not: what makes it is part of the same sources.
func (s *Stage) PackageVersion() string {
	release, before, metadata := split(s.src.Version)
	if before != "" {
		release += "~" + strings.ReplaceAll(before, "-", ".")
	}
	if metadata != "" {
		release += "+" + strings.ReplaceAll(metadata, "-", ".")
	}
	return release
}
