package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Source is a folder of sources, as readSource found it.
type Source struct {
	Root     string // the folder with go.mod, absolute
	Version  string // a semantic version, with +modified for modified sources
	Stamp    string // version to link into the programs; empty: the file's version
	Revision string // of the commit; empty: there is no repository
	Date     time.Time
}

// versionFile is the file with the version, relative to the root.
const versionFile = "cmd/internal/program/VERSION"

// semantic is the grammar of semver.org. Source: its FAQ.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
	`(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$`)

// readSource reads the sources below root. If version is not empty, it replaces the version of the
// file. If epoch is not empty, it replaces the commit's date, in seconds since 1970.
//
// Without a repository, as in an unpacked archive, only epoch gives the date. With one, a tag of
// that version must be on the commit, so no two releases have the same name.
func readSource(root, version, epoch string) (*Source, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	s := &Source{Root: root}
	text, err := os.ReadFile(filepath.Join(root, versionFile))
	if err != nil {
		return nil, fmt.Errorf("%w: give -root the folder of polystalk's sources", err)
	}
	own, from := strings.TrimSpace(string(text)), versionFile
	s.Version = own
	if version != "" {
		s.Version, from = version, "VERSION="
	}
	if !semantic.MatchString(s.Version) {
		return nil, fmt.Errorf("%s: %q is not a semantic version: write one as in 1.2.3 or 1.2.3-rc.1, without a v", from, s.Version)
	}
	modified, err := s.readRepository()
	if err != nil {
		return nil, err
	}
	if modified {
		sign := "+"
		if strings.Contains(s.Version, "+") {
			sign = "."
		}
		s.Version += sign + "modified"
	}
	if s.Version != own {
		s.Stamp = s.Version
	}
	if epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil || seconds <= 0 {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a date: give the seconds since 1970, as date +%%s prints them", epoch)
		}
		s.Date = time.Unix(seconds, 0).UTC()
	}
	if s.Date.IsZero() {
		return nil, fmt.Errorf("%s is not a git checkout, so the date of the sources is unknown: give SOURCE_DATE_EPOCH, in seconds since 1970", root)
	}
	return s, nil
}

// readRepository reads the commit that is checked out, if there is a repository.
func (s *Source) readRepository() (modified bool, err error) {
	if _, err := os.Stat(filepath.Join(s.Root, ".git")); errors.Is(err, os.ErrNotExist) {
		// A repository in a folder above does not belong to these sources.
		return false, nil
	}
	head, err := s.git("log", "-1", "--format=%H %ct")
	if err != nil {
		return false, err
	}
	revision, seconds, _ := strings.Cut(head, " ")
	committed, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return false, fmt.Errorf("git log prints %q, and no commit with its date: look at the repository with git fsck", head)
	}
	s.Revision, s.Date = revision, time.Unix(committed, 0).UTC()
	changes, err := s.git("status", "--porcelain")
	if err != nil {
		return false, err
	}
	if changes != "" {
		return true, nil
	}
	tag := "v" + s.Version
	tagged, err := s.git("tag", "--list", "--format=%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)", tag)
	if err != nil {
		return false, err
	}
	if tagged != "" && tagged != revision {
		return false, fmt.Errorf("the tag %s is on the commit %.12s, and these sources are from %.12s: raise the version in %s, or check the tag out", tag, tagged, revision, versionFile)
	}
	return false, nil
}

// git runs git in the root, and returns its output.
func (s *Source) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", s.Root}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("the sources are in a git repository, and git is not installed: install it, or make the release of an archive of the sources")
	case err != nil:
		line, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return "", fmt.Errorf("git %s: %v: %s: repair the checkout, or make the release of an archive of the sources", args[0], err, line)
	}
	return strings.TrimSpace(string(out)), nil
}

// Day returns the date in the format of manuals.
func (s *Source) Day() string { return s.Date.Format(time.DateOnly) }
