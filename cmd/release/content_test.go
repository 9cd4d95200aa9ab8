package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestVersionsSortAsTheyCome: by the rules of Debian and RPM a tilde sorts before the end,
// and a dash would begin a package's own revision.
func TestVersionsSortAsTheyCome(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3~rc.1", "1.2.3+modified": "1.2.3+modified",
		"1.2.3-rc-1.x+a-b.c": "1.2.3~rc.1.x+a.b.c",
	} {
		s := &Stage{src: &Source{Version: version}}
		if got := s.PackageVersion(); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}

// TestChangelogSaysOfWhat sources a package is made.
func TestChangelogSaysOfWhat(t *testing.T) {
	src := &Source{Version: "1.2.3-rc.1", Revision: strings.Repeat("ab", 20), Date: time.Unix(1700000000, 0).UTC()}
	got := string((&Stage{src: src}).changelog())
	want := "polystalk (1.2.3~rc.1) stable; urgency=medium\n\n  * Release 1.2.3-rc.1, of commit abababababab.\n\n -- " + maintainer + "  Tue, 14 Nov 2023 22:13:20 +0000\n"
	if got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	src.Revision = ""
	if got := string((&Stage{src: src}).changelog()); !strings.Contains(got, "sources without a repository") {
		t.Errorf("%q", got)
	}
}

// TestConfigurationNeedsItsLine: a changed example is not packaged without a journal.
func TestConfigurationNeedsItsLine(t *testing.T) {
	root := t.TempDir()
	s := &Stage{src: &Source{Root: root}}
	for text, want := range map[string]string{
		"a\n#binlog-dir = \"/var/lib/polystalkd\"\nb\n": "a\nbinlog-dir = \"/var/lib/polystalkd\"\nb\n",
		"a\n#binlog-dir = \"/elsewhere\"\n":             "",
		"":                                              "",
	} {
		writeFile(t, root, "cmd/polystalkd/polystalkd.toml", text)
		got, err := s.configuration()
		if want != "" && (err != nil || string(got) != want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if want == "" && (err == nil || !strings.Contains(err.Error(), "binlog-dir")) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// TestWorkWithoutLicence is not distributed.
func TestWorkWithoutLicence(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"README", "license_test.go", "mylicense"} {
		writeFile(t, dir, name, "text")
	}
	must(t, os.Mkdir(filepath.Join(dir, "LICENSES"), 0o755))
	var b bytes.Buffer
	if err := notice(&b, "example.org/a v1", dir); err == nil || !strings.Contains(err.Error(), "example.org/a v1 has no licence") {
		t.Errorf("%v %s", err, &b)
	}
	for _, name := range []string{"LICENSE.md", "COPYING", "NOTICE", "Licence-MIT"} {
		writeFile(t, dir, name, "text of "+name+"\n\n")
	}
	must(t, notice(&b, "a v1", dir))
	for _, want := range []string{"\n==== a v1: LICENSE.md\n\ntext of LICENSE.md\n", "a v1: COPYING", "a v1: NOTICE", "a v1: Licence-MIT"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in %q", want, &b)
		}
	}
}
