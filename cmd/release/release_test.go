package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestReleaseTwiceIsTheSame: in another folder, with another umask, time zone and language.
func TestReleaseTwiceIsTheSame(t *testing.T) {
	one := first(t)
	t.Setenv("TZ", "Asia/Kathmandu")
	t.Setenv("LC_ALL", "C")
	was := syscall.Umask(0o077)
	defer syscall.Umask(was)
	two := makeRelease(t, filepath.Join("second", "further", "down"))
	if one.src.Revision == "" || one.src.Revision != two.src.Revision {
		t.Fatalf("the commits are %q and %q", one.src.Revision, two.src.Revision)
	}
	a, b := filesIn(t, one.out), filesIn(t, two.out)
	if names := differ(a, b); len(names) > 0 || len(a) != 14 {
		t.Errorf("of %d files, these differ: %q", len(a), names)
	}
}

func TestSumsAreTrue(t *testing.T) {
	m := first(t)
	cmd := exec.Command("sha256sum", "--check", "--strict", sums)
	cmd.Dir = m.out
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), ": OK\n") != 6 {
		t.Errorf("%v\n%s", err, out)
	}
}

// unpacked returns the files of this machine's archive, by their names below its folder.
func unpacked(t *testing.T, m made) map[string][]byte {
	t.Helper()
	f, err := os.Open(m.the(t, "*.tar.gz"))
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	all := make(map[string][]byte)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() != 1700000000 {
			t.Errorf("%s is %d's, of %v", h.Name, h.Uid, h.ModTime)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		_, name, _ := strings.Cut(h.Name, "/")
		if all[name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchiveHasAll(t *testing.T) {
	m := first(t)
	all := unpacked(t, m)
	for _, want := range []string{
		"bin/polystalk", "bin/polystalkd", "LICENSE", "NOTICES", "README.md", "polystalkd.toml",
		"share/man/man1/polystalk.1", "share/man/man8/polystalkd.8", "share/man/man5/polystalkd.toml.5",
		"share/bash-completion/completions/polystalk", "share/fish/vendor_completions.d/polystalk.fish", "share/zsh/vendor-completions/_polystalk",
		"systemd/polystalkd.service", "systemd/polystalkd.socket", "systemd/polystalkd-http.socket", "systemd/polystalkd-gearman.socket", "systemd/polystalkd.sysusers",
	} {
		if len(all[want]) == 0 {
			t.Errorf("there is no %s", want)
		}
		delete(all, want)
	}
	for name := range all {
		t.Errorf("%s is more than was expected", name)
	}
}

// TestProgramsAreStatic, and report their release and commit.
func TestProgramsAreStatic(t *testing.T) {
	m := first(t)
	all := unpacked(t, m)
	for _, name := range programNames {
		text := all["bin/"+name]
		f, err := elf.NewFile(bytes.NewReader(text))
		must(t, err)
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s is linked dynamically", name)
			}
		}
		if bytes.Contains(text, []byte(scratch)) {
			t.Errorf("%s knows where it was built", name)
		}
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, text, 0o755))
		got := output(t, path, "--version")
		if !strings.HasPrefix(got, name+" "+m.src.Version+" ") || !strings.Contains(got, m.src.Revision[:12]) || strings.Contains(got, "modified") {
			t.Errorf("%s", got)
		}
	}
}

// TestEverythingSaysTheVersion: programs, manuals and packages have the version of the file.
// Manuals and the configuration's keys match the sources.
func TestEverythingSaysTheVersion(t *testing.T) {
	m := first(t)
	all := unpacked(t, m)
	for name, want := range map[string]string{
		"share/man/man1/polystalk.1": "polystalk " + m.src.Version, "share/man/man8/polystalkd.8": "polystalk " + m.src.Version,
		"NOTICES": "polystalk " + m.src.Version, "polystalkd.toml": "\nbinlog-dir = \"/var/lib/polystalkd\"\n",
	} {
		if !bytes.Contains(all[name], []byte(want)) {
			t.Errorf("%s has no %q", name, want)
		}
	}
	path := filepath.Join(t.TempDir(), "polystalkd")
	must(t, os.WriteFile(path, all["bin/polystalkd"], 0o755))
	conf := filepath.Join(t.TempDir(), "polystalkd.toml")
	text := bytes.Replace(all["polystalkd.toml"], []byte("/var/lib/polystalkd"), []byte(t.TempDir()), 1)
	must(t, os.WriteFile(conf, text, 0o644))
	if got := output(t, path, "--check-config", "--config", conf); got != "" {
		t.Errorf("%s", got)
	}
}

// TestNoticesNameEveryLibrary that go list reports, with a licence.
func TestNoticesNameEveryLibrary(t *testing.T) {
	m := first(t)
	notices := string(unpacked(t, m)["NOTICES"])
	modules := linked(t, m)
	for _, module := range modules {
		_, text, found := strings.Cut(notices, "\n==== "+module+": ")
		if text, _, _ = strings.Cut(text, "\n==== "); !found || len(text) < 200 {
			t.Errorf("there is no licence of %s", module)
		}
	}
	if !strings.Contains(notices, "==== Go, with its library: LICENSE") || len(modules) < 10 {
		t.Errorf("of %d libraries, and Go:\n%.500s", len(modules), notices)
	}
}

// linked returns the modules that the programs import, with their versions, as listed by the
// go command.
func linked(t *testing.T, m made) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/polystalkd", "./cmd/polystalk")
	cmd.Dir = m.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+here[0].OS, "GOARCH="+here[0].Arch)
	out, err := cmd.Output()
	must(t, err)
	all := lines(string(out))
	slices.Sort(all)
	return slices.Compact(all)
}

// TestReleaseThatCannotBeMade reports the reason and the remedy.
func TestReleaseThatCannotBeMade(t *testing.T) {
	root := filepath.Join("..", "..")
	full := t.TempDir()
	must(t, os.WriteFile(filepath.Join(full, "old"), nil, 0o600))
	out := filepath.Join(t.TempDir(), "out")
	for _, tt := range []struct {
		args []string
		env  map[string]string
		code int
		want []string
	}{
		{nil, nil, 1, []string{"-root DIR -out DIR", "make release"}},
		{[]string{"-x"}, nil, 2, []string{"-x"}},
		{[]string{"-h"}, nil, 0, []string{"-platforms"}},
		{[]string{"-root", root, "-out", out, "more"}, nil, 1, []string{"-root DIR"}},
		{[]string{"-root", t.TempDir(), "-out", out}, nil, 1, []string{"VERSION", "-root the folder"}},
		{[]string{"-root", root, "-out", full}, nil, 1, []string{full, "not empty", "another -out"}},
		{[]string{"-root", root, "-out", out, "-platforms", "linux/amd64,plan9/386"}, nil, 1, []string{`"plan9/386"`, "linux/arm64"}},
		{[]string{"-root", root, "-out", out, "-version", "v1"}, nil, 1, []string{`"v1"`, "1.2.3"}},
		{[]string{"-root", root, "-out", out}, map[string]string{"SOURCE_DATE_EPOCH": "now"}, 1, []string{"SOURCE_DATE_EPOCH", "date +%s"}},
	} {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), tt.args, func(name string) string { return tt.env[name] }, &stdout, &stderr)
		for _, want := range tt.want {
			if code != tt.code || !strings.Contains(stderr.String(), want) {
				t.Errorf("%q: %d, %s%s, without %q", tt.args, code, &stdout, &stderr, want)
			}
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a folder was made")
	}
	if left, err := os.ReadDir(full); err != nil || fmt.Sprint(left) != "[- old]" {
		t.Errorf("%v, %v", left, err)
	}
}
