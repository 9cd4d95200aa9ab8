package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalkd/config"
)

// pages returns the files that the program writes.
func pages(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	must(t, write(dir, "2026-11-22", nil))
	texts := make(map[string]string)
	for _, m := range makers {
		text, err := os.ReadFile(filepath.Join(dir, m.file+"."+m.section))
		must(t, err)
		texts[m.file] = string(text)
	}
	return texts
}

func TestPagesSayWhichReleaseAndDay(t *testing.T) {
	for name, text := range pages(t) {
		first, _, _ := strings.Cut(text, "\n")
		if want := "2026-11-22 " + quoted("polystalk "+program.Version); !strings.HasSuffix(first, want) {
			t.Errorf("%s begins with %s, which does not end with %s", name, first, want)
		}
	}
}

// TestPagesHaveEveryOption of both command lines of the daemon, with its variable and key.
func TestPagesHaveEveryOption(t *testing.T) {
	all := pages(t)
	options, err := config.Options()
	must(t, err)
	theirs, own, unused := config.GearmandOptions()
	shown := 0
	for _, list := range [][]config.Option{options, theirs, own, unused} {
		for _, o := range list {
			shown++
			if term := option(o.Short, o.Name, o.Value) + "\n"; !strings.Contains(all["polystalkd"], ".TP\n"+term) {
				t.Errorf("polystalkd(8) has no %s", term)
			}
			if o.Variable != "" && !strings.Contains(all["polystalkd"], bold(o.Variable)) {
				t.Errorf("polystalkd(8) has no %s", o.Variable)
			}
			key, _, _ := strings.Cut(o.Line, " = ")
			if key != "" && !strings.Contains(all["polystalkd.toml"], ".TP\n"+bold(key)+" = ") {
				t.Errorf("polystalkd.toml(5) has no %s", key)
			}
		}
	}
	if shown < 80 {
		t.Errorf("only %d options", shown)
	}
}

// TestPageHasEveryCommand of the client, with its flags.
func TestPageHasEveryCommand(t *testing.T) {
	text := pages(t)["polystalk"]
	commands := 0
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		commands++
		if !strings.Contains(text, ".TP\n"+bold(c.CommandPath())) {
			t.Errorf("polystalk(1) has no %s", c.CommandPath())
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !strings.Contains(text, bold("--"+f.Name)) {
				t.Errorf("polystalk(1) has no --%s of %s", f.Name, c.Name())
			}
		})
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	for _, c := range (&cli.App{Out: io.Discard, Err: io.Discard}).Tree().Commands() {
		look(c)
	}
	if commands < 30 {
		t.Errorf("only %d commands", commands)
	}
}

// TestFormattersFindNoFault: mandoc's lint reports nothing.
func TestFormattersFindNoFault(t *testing.T) {
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("no mandoc: install Debian's mandoc")
	}
	dir := t.TempDir()
	for name, text := range pages(t) {
		file := filepath.Join(dir, name)
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if out, err := exec.Command(mandoc, "-T", "lint", file).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestTextMeansNothingToTheFormatter: requests, escapes and quotes in texts are shown as text.
func TestTextMeansNothingToTheFormatter(t *testing.T) {
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("no mandoc: install Debian's mandoc")
	}
	said := []string{".so /etc/passwd", "'br", `back\slash \fB`, `"quotes" 'and' ` + "`ticks`", "a-b --c ~ ^ ¹", strings.Repeat("long ", 30) + ".end", strings.Repeat("a,", 60)}
	p := newPage("test", "1", "2026-11-22", `a "b"`)
	p.name("test", "is a test")
	p.section(`the "end"`)
	for _, s := range said {
		p.paragraphs(s)
		p.item(bold(s), s)
	}
	p.paragraphs("filled\nin\n  kept   as\n  .it is\nand filled")
	file := filepath.Join(t.TempDir(), "test.1")
	must(t, os.WriteFile(file, p.text(), 0o600))
	out, err := exec.Command(mandoc, "-T", "utf8", "-O", "width=200", file).Output()
	must(t, err)
	shown := string(bytes.ReplaceAll(out, []byte("\n"), []byte(" ")))
	// A bold letter is struck twice.
	for i := strings.IndexByte(shown, '\b'); i >= 0; i = strings.IndexByte(shown, '\b') {
		shown = shown[:i-1] + shown[i+1:]
	}
	shown = strings.Join(strings.Fields(shown), " ")
	for _, s := range append(said, `THE "END"`, "filled in kept as .it is and filled") {
		if want := strings.Join(strings.Fields(s), " "); !strings.Contains(shown, want) && !strings.Contains(strings.ReplaceAll(shown, " ", ""), strings.ReplaceAll(want, " ", "")) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestManualCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 1, "manual -o DIR"},
		{[]string{"-o", dir, "more"}, 1, "manual -o DIR"},
		{[]string{"-o", dir, "-date", "today"}, 1, `"today" is not a day`},
		{[]string{"-o", filepath.Join(dir, "none")}, 1, "directory that exists"},
		{[]string{"-x"}, 2, "-x"},
		{[]string{"-h"}, 0, "-date"},
		{[]string{"-o", dir}, 0, ""},
	} {
		var stderr bytes.Buffer
		if code := run(tt.args, &stderr); code != tt.code || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%q: %d, %s", tt.args, code, &stderr)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != len(makers) {
		t.Error(fmt.Sprint("the directory holds ", left, err))
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
