package main

import "strings"

// A tilde sorts before the end of a version, in Debian's tools and in RPM's, so a pre-release sorts
// before its release.

// split returns the three parts of a semantic version: 1.2.3, rc.1 and modified for
// 1.2.3-rc.1+modified.
func split(version string) (release, before, metadata string) {
	release, metadata, _ = strings.Cut(version, "+")
	release, before, _ = strings.Cut(release, "-")
	return release, before, metadata
}

// PackageVersion returns the version for packages. It has no dash: a dash would begin a revision of
// the package alone, but the packaging belongs to the same sources.
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
