package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The tests make releases only for this machine's processor; make release-check makes all.
var here = []Platform{{OS: "linux", Arch: hostPlatform.Arch}}

// scratch is a folder that several tests share.
var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "release-test-")
	if err != nil {
		panic(err)
	}
	scratch = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// tool finds a program that a test needs, or skips the test.
func tool(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s: install Debian's %s", name, pkg)
	}
	return path
}

// output runs a program to its end, and returns its output on both streams.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// copyTree copies the sources to a new repository with one commit, which is the same each time.
func copyTree(t *testing.T, to string) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(from string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, from)
		if err != nil {
			return err
		}
		path := filepath.Join(to, name)
		switch {
		case name == ".git" || name == "bin" || name == filepath.Join(".ci", "tmp"):
			// What else git ignores here, it ignores there.
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(path, 0o755)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
		return os.Chmod(path, 0o644|info.Mode().Perm()&0o111) // whatever the umask is
	})
	must(t, err)
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "all"}} {
		runGit(t, to, args...)
	}
}

// runGit runs git with its own author and date.
func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "tag.gpgSign=false", "-c", "commit.gpgSign=false", "-c", "core.autocrlf=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// writeFile writes a file below dir.
func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A made is a finished release.
type made struct {
	root, out string
	src       *Source
}

// makeRelease makes a release in folders with that name.
func makeRelease(t *testing.T, name string) made {
	t.Helper()
	m := made{root: filepath.Join(scratch, name, "sources"), out: filepath.Join(scratch, name, "out")}
	copyTree(t, m.root)
	var err error
	if m.src, err = readSource(m.root, "", ""); err != nil {
		t.Fatal(err)
	}
	must(t, release(context.Background(), m.src, order{platforms: here, out: m.out}, io.Discard))
	return m
}

var (
	firstOnce sync.Once
	firstMade made
)

// first returns the release that most tests use.
func first(t *testing.T) made {
	t.Helper()
	firstOnce.Do(func() { firstMade = makeRelease(t, "first") })
	if firstMade.src == nil {
		t.Fatal("the release was not made: see the first test that failed")
	}
	return firstMade
}

// the returns the one file of the release with a name that matches.
func (m made) the(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(m.out, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

// filesIn returns the names and contents of a folder's files.
func filesIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir+"/")] = text
		return err
	})
	must(t, err)
	return all
}

// lines returns the lines of text, without empty ones.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// differ names the files in which two releases differ.
func differ(a, b map[string][]byte) (names []string) {
	for name, text := range a {
		if !bytes.Equal(text, b[name]) {
			names = append(names, name)
		}
	}
	for name := range b {
		if a[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
