package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// installed has the files of every package.
var installed = []string{
	"/usr/bin/polystalk", "/usr/bin/polystalkd", "/etc/polystalkd/polystalkd.toml", "/usr/lib/sysusers.d/polystalkd.conf",
	"/usr/share/man/man1/polystalk.1.gz", "/usr/share/man/man8/polystalkd.8.gz", "/usr/share/man/man5/polystalkd.toml.5.gz",
	"/usr/share/bash-completion/completions/polystalk", "/usr/share/fish/vendor_completions.d/polystalk.fish",
	"/usr/share/doc/polystalk/README.md", "/usr/share/doc/polystalk/NOTICES.gz",
}

// units returns the paths of the units in a package.
func units(folder string) (all []string) {
	for _, name := range []string{"polystalkd.service", "polystalkd.socket", "polystalkd-http.socket", "polystalkd-gearman.socket"} {
		all = append(all, folder+"/systemd/system/"+name)
	}
	return all
}

// holds compares a package's list with the expected one.
func holds(t *testing.T, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDebianPackage(t *testing.T) {
	program := tool(t, "dpkg-deb", "dpkg")
	m := first(t)
	deb := m.the(t, "*.deb")
	if want := "polystalk_" + m.src.Version + "_" + here[0].Arch + ".deb"; filepath.Base(deb) != want {
		t.Errorf("it is named %s, want %s", filepath.Base(deb), want)
	}
	dir := t.TempDir()
	output(t, program, "-x", deb, dir)
	output(t, program, "-e", deb, filepath.Join(dir, "DEBIAN"))
	control := filesIn(t, filepath.Join(dir, "DEBIAN"))
	must(t, os.RemoveAll(filepath.Join(dir, "DEBIAN")))
	var got []string
	for name := range filesIn(t, dir) {
		got = append(got, "/"+name)
	}
	holds(t, got, slices.Concat(installed, units("/lib"), []string{
		"/usr/share/zsh/vendor-completions/_polystalk", "/usr/share/doc/polystalk/copyright", "/usr/share/doc/polystalk/changelog.gz",
		"/usr/share/lintian/overrides/polystalk",
	}))
	if got := string(control["conffiles"]); got != "/etc/polystalkd/polystalkd.toml\n" {
		t.Errorf("conffiles are %q", got)
	}
	if !strings.Contains(string(control["control"]), "\nVersion: "+m.src.Version+"\n") {
		t.Errorf("%s", control["control"])
	}
}

// TestLintianFindsNothing except overridden faults: programs in Go are linked statically.
func TestLintianFindsNothing(t *testing.T) {
	lintian := tool(t, "lintian", "lintian")
	deb := first(t).the(t, "*.deb")
	// lintian also fails for overridden faults.
	out, err := exec.Command(lintian, "--allow-root", "--no-cfg", "--show-overrides", deb).CombinedOutput()
	overridden := 0
	for _, line := range lines(string(out)) {
		switch {
		case strings.HasPrefix(line, "O: polystalk: statically-linked-binary [usr/bin/"):
			overridden++
		case !strings.HasPrefix(line, "N:"):
			t.Errorf("%s", line)
		}
	}
	if overridden != 2 {
		t.Errorf("%d programs are linked statically (%v):\n%s", overridden, err, out)
	}
}

func TestRPMPackage(t *testing.T) {
	rpm := tool(t, "rpm", "rpm")
	m := first(t)
	file := m.the(t, "*.rpm")
	query := func(args ...string) []string {
		return lines(output(t, rpm, append(append([]string{"-qp"}, args...), file)...))
	}
	holds(t, query("-l"), slices.Concat(installed, units("/usr/lib"), []string{
		"/usr/share/zsh/site-functions/_polystalk", "/usr/share/licenses/polystalk/LICENSE",
	}))
	if got := query("--configfiles"); !slices.Equal(got, []string{"/etc/polystalkd/polystalkd.toml"}) {
		t.Errorf("configuration files are %q", got)
	}
	if got := query("--qf", "%{NAME} %{VERSION} %{RELEASE} %{LICENSE} %{BUILDHOST} %{BUILDTIME}\n"); !slices.Equal(got, []string{"polystalk " + m.src.Version + " 1 MIT polystalk 1700000000"}) {
		t.Errorf("%q", got)
	}
	scripts := strings.Join(query("--scripts"), "\n")
	for _, want := range []string{"systemd-sysusers polystalkd.conf", "try-restart polystalkd.service", "preset polystalkd.service"} {
		if strings.Count(scripts, want) != 1 {
			t.Errorf("the scripts have not once %q:\n%s", want, scripts)
		}
	}
	if got := output(t, rpm, "-K", "--nosignature", file); !strings.Contains(got, "digests OK") {
		t.Errorf("%s", got)
	}
}
