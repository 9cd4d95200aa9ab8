package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// folder returns sources with a version and without a repository.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, dir, versionFile, "1.2.3\n")
	return dir
}

// checkout returns a repository with one commit.
func checkout(t *testing.T) string {
	t.Helper()
	dir := folder(t)
	runGit(t, dir, "init", "-q")
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-q", "-m", "first")
	return dir
}

// refused reads sources that cannot be released. The error must have these words.
func refused(t *testing.T, dir, version, epoch string, words ...string) {
	t.Helper()
	s, err := readSource(dir, version, epoch)
	if err == nil {
		t.Errorf("%q %q: %+v", version, epoch, s)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q %q: %v, without %q", version, epoch, err, w)
		}
	}
}

func TestVersionThatIsNone(t *testing.T) {
	dir := folder(t)
	for _, bad := range []string{"v1.2.3", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.3 ", "latest", "1.2.3-rc_1"} {
		refused(t, dir, bad, "1", "VERSION=", "1.2.3-rc.1")
	}
	writeFile(t, dir, versionFile, "next\n")
	refused(t, dir, "", "1", versionFile, `"next"`)
	refused(t, t.TempDir(), "", "1", "-root")
}

func TestArchiveNeedsDate(t *testing.T) {
	dir := folder(t)
	refused(t, dir, "", "", "SOURCE_DATE_EPOCH", "not a git checkout")
	for _, bad := range []string{"yesterday", "0", "-1", "1.5"} {
		refused(t, dir, "", bad, "SOURCE_DATE_EPOCH", bad)
	}
	s, err := readSource(dir, "", "1700000000")
	if err != nil || s.Version != "1.2.3" || s.Stamp != "" || s.Revision != "" || s.Day() != "2023-11-14" {
		t.Errorf("%+v, %v", s, err)
	}
	// A repository in a folder above is not the sources' own.
	around := checkout(t)
	inner := filepath.Join(around, "inner")
	writeFile(t, inner, versionFile, "4.5.6\n")
	refused(t, inner, "", "", "SOURCE_DATE_EPOCH")
}

func TestCheckoutSaysWhichCommit(t *testing.T) {
	dir := checkout(t)
	head := runGit(t, dir, "rev-parse", "HEAD")
	s, err := readSource(dir, "", "")
	if err != nil || s.Version != "1.2.3" || s.Stamp != "" || s.Revision != head || s.Date.Unix() != 1700000000 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = readSource(dir, "2.0.0-rc.1", "5"); err != nil || s.Version != "2.0.0-rc.1" || s.Stamp != s.Version || s.Date.Unix() != 5 {
		t.Errorf("%+v, %v", s, err)
	}
	// A worktree has a file in place of the repository's folder.
	tree := filepath.Join(t.TempDir(), "tree")
	runGit(t, dir, "worktree", "add", "-q", "--detach", tree)
	if s, err = readSource(tree, "", ""); err != nil || s.Revision != head {
		t.Errorf("%+v, %v", s, err)
	}
	writeFile(t, dir, "more", "more")
	if s, err = readSource(dir, "", ""); err != nil || s.Version != "1.2.3+modified" || s.Stamp != s.Version {
		t.Errorf("with another file: %+v, %v", s, err)
	}
	if s, err = readSource(dir, "1.0.0+a", ""); err != nil || s.Version != "1.0.0+a.modified" {
		t.Errorf("with another file: %+v, %v", s, err)
	}
}

func TestTagOfAnotherCommit(t *testing.T) {
	dir := checkout(t)
	runGit(t, dir, "tag", "v1.2.3")
	runGit(t, dir, "tag", "-a", "-m", "annotated", "v1.2.4")
	for _, version := range []string{"", "1.2.4"} {
		if s, err := readSource(dir, version, ""); err != nil {
			t.Errorf("tagged itself: %+v, %v", s, err)
		}
	}
	writeFile(t, dir, "more", "more")
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-q", "-m", "second")
	for _, version := range []string{"", "1.2.4"} {
		refused(t, dir, version, "", "the tag v1.2.", "raise the version")
	}
	if _, err := readSource(dir, "1.2.5", ""); err != nil {
		t.Error(err)
	}
}

func TestBrokenCheckout(t *testing.T) {
	dir := folder(t)
	writeFile(t, dir, ".git", "gitdir: /nowhere\n")
	refused(t, dir, "", "1", "git log", "repair the checkout")
	empty := folder(t)
	runGit(t, empty, "init", "-q")
	refused(t, empty, "", "1", "git log", "repair the checkout")
	t.Setenv("PATH", t.TempDir())
	refused(t, dir, "", "1", "git is not installed")
}
