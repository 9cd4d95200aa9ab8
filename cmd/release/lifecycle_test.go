package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A machine is a folder in which dpkg installs packages. It is the root directory of their
// scripts. The tools of Debian and systemd in it record their arguments.
type machine struct {
	t    *testing.T
	root string
}

// newMachine returns a machine with a shell, on which systemd seems to run.
func newMachine(t *testing.T) *machine {
	t.Helper()
	tool(t, "dpkg", "dpkg")
	busybox := tool(t, "busybox", "busybox-static")
	if os.Getuid() != 0 {
		t.Skip("no root: dpkg runs scripts in a root of their own")
	}
	m := &machine{t, t.TempDir()}
	for _, dir := range []string{"bin", "usr/bin", "usr/sbin", "run/systemd/system", "var/lib/dpkg/info", "var/lib/dpkg/updates", "tmp", "dev"} {
		must(t, os.MkdirAll(m.path(dir), 0o755))
	}
	output(t, "cp", busybox, m.path("bin/busybox"))
	for _, name := range []string{"sh", "rm"} {
		must(t, os.Symlink("busybox", m.path("bin/"+name)))
	}
	for _, name := range []string{"systemctl", "deb-systemd-helper", "deb-systemd-invoke", "systemd-sysusers"} {
		script := "#!/bin/sh\necho " + name + " \"$@\" >>/called\n"
		must(t, os.WriteFile(m.path("usr/bin/"+name), []byte(script), 0o755))
	}
	m.write("var/lib/dpkg/status", "")
	m.write("dev/null", "") // scripts write to it, and nobody reads it
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

func (m *machine) write(name, text string) {
	m.t.Helper()
	must(m.t, os.WriteFile(m.path(name), []byte(text), 0o644))
}

// read returns a file's text; a missing file is empty.
func (m *machine) read(name string) string {
	m.t.Helper()
	text, err := os.ReadFile(m.path(name))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(text)
}

// dpkg runs dpkg, and returns the commands that the scripts called.
func (m *machine) dpkg(args ...string) []string {
	m.t.Helper()
	os.Remove(m.path("called"))
	cmd := exec.Command("dpkg", append([]string{"--root=" + m.root, "--force-depends", "--force-confold"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("dpkg %q: %v\n%s", args, err, out)
	}
	return lines(m.read("called"))
}

// serve starts the installed server like the service unit, but without its sockets.
func (m *machine) serve() *server {
	m.t.Helper()
	conf := m.path("etc/polystalkd/polystalkd.toml")
	return start(m.t, exec.Command(m.path("usr/bin/polystalkd"), "--config", conf, "--log-format", "json",
		"-b", m.path("var/lib/polystalkd"), "-l", "127.0.0.1", "-p", "0"))
}

// newer returns a package of a later version, from modified sources.
func newer(t *testing.T, m made) string {
	t.Helper()
	root := filepath.Join(scratch, "newer")
	copyTree(t, root)
	writeFile(t, root, "more", "more\n")
	src, err := readSource(root, "99.0.0-rc.1", "")
	if err != nil || src.Version != "99.0.0-rc.1+modified" {
		t.Fatalf("%+v, %v", src, err)
	}
	work, out := t.TempDir(), t.TempDir()
	stage, err := gather(context.Background(), src, here, work)
	must(t, err)
	name, err := writePackage(context.Background(), stage, formatDeb, here[0], src.Date, work, out)
	must(t, err)
	if want := "polystalk_99.0.0~rc.1+modified_" + here[0].Arch + ".deb"; name != want {
		t.Errorf("it is named %s, want %s", name, want)
	}
	return filepath.Join(out, name)
}

// calls expects the scripts to have called each of want once, and none of not.
func calls(t *testing.T, when string, got, want []string, not ...string) {
	t.Helper()
	for _, w := range want {
		n := 0
		for _, g := range got {
			if g == w {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: %q was called %d times: %q", when, w, n, got)
		}
	}
	for _, n := range not {
		if slices.ContainsFunc(got, func(g string) bool { return strings.Contains(g, n) }) {
			t.Errorf("%s: %q was called: %q", when, n, got)
		}
	}
}

// TestUpgradeKeepsEveryJob: a package is upgraded while its server runs with jobs in every state.
// The server is not stopped before the upgrade, and runs the new program afterwards. The
// administrator's settings stay, and the new server has all jobs.
func TestUpgradeKeepsEveryJob(t *testing.T) {
	m := newMachine(t)
	old := first(t)
	called := m.dpkg("-i", old.the(t, "*.deb"))
	calls(t, "first installation", called, []string{
		"systemd-sysusers polystalkd.conf", "deb-systemd-helper enable polystalkd.service", "deb-systemd-helper enable polystalkd.socket",
		"deb-systemd-helper enable polystalkd-http.socket", "systemctl --system daemon-reload",
		"deb-systemd-invoke start polystalkd.socket polystalkd-http.socket polystalkd.service",
	}, "restart")
	if err := os.MkdirAll(m.path("var/lib/polystalkd"), 0o700); err != nil { // as systemd does
		t.Fatal(err)
	}
	conf := strings.Replace(m.read("etc/polystalkd/polystalkd.toml"), "#max-job-size = 65535", "max-job-size = 70000", 1)
	m.write("etc/polystalkd/polystalkd.toml", conf)

	before := m.serve()
	const each = 50
	var commands strings.Builder
	commands.WriteString("use mail\r\nwatch mail\r\nignore default\r\n")
	answers := 3
	for i := range each {
		fmt.Fprintf(&commands, "put %d 0 60 6\r\nbury%02d\r\n", i, i)
		fmt.Fprintf(&commands, "reserve-with-timeout 0\r\nbury %d %d\r\n", 3*i+1, i)
		fmt.Fprintf(&commands, "put %d 86400 60 7\r\ndelay%02d\r\n", i, i)
		fmt.Fprintf(&commands, "put %d 0 120 70000\r\n%s\r\n", 1000+i, strings.Repeat("r", 70000))
		answers += 1 + 2 + 1 + 1 + 1
		// The ready job must not be reserved in the place of the next one that is to be
		// buried: it has a larger priority.
	}
	got := before.talk(commands.String(), answers)
	if strings.Count(got, "INSERTED") != 3*each || strings.Count(got, "BURIED\r\n") != each {
		t.Fatalf("jobs were not put:\n%.2000s", got)
	}
	states := make(map[int]string)
	for id := 1; id <= 3*each; id++ {
		states[id] = before.state(id)
	}
	for word, id := range map[string]int{"state: buried": 1, "state: delayed": 2, "state: ready": 3} {
		if !strings.Contains(states[id], word) {
			t.Fatalf("job %d is not as it is to be: %s", id, states[id])
		}
	}

	called = m.dpkg("-i", newer(t, old))
	calls(t, "upgrade", called, []string{
		"systemd-sysusers polystalkd.conf", "systemctl --system daemon-reload", "deb-systemd-invoke restart polystalkd.service",
	}, " stop ", " start ", "purge")
	if got := before.talk("put 0 0 60 4\r\nlate\r\n", 1); got != fmt.Sprintf("INSERTED %d\r\n", 3*each+1) {
		t.Errorf("while it is upgraded: %q", got)
	}
	states[3*each+1] = before.state(3*each + 1)
	before.stop() // what restart does
	after := m.serve()
	if got := output(t, m.path("usr/bin/polystalkd"), "--version"); !strings.HasPrefix(got, "polystalkd 99.0.0-rc.1+modified ") {
		t.Errorf("after the upgrade it is %s", got)
	}
	for id, want := range states {
		if got := after.state(id); got != want {
			t.Errorf("job %d: %.200s, want %.200s", id, got, want)
		}
	}
	if m.read("etc/polystalkd/polystalkd.toml") != conf {
		t.Error("what the administrator has set is gone")
	}
	after.stop()

	const stop = "deb-systemd-invoke stop polystalkd.socket polystalkd-http.socket polystalkd-gearman.socket polystalkd.service"
	calls(t, "removal", m.dpkg("-r", "polystalk"), []string{stop}, "purge")
	if _, err := os.Stat(m.path("var/lib/polystalkd")); err != nil {
		t.Errorf("the journal is gone with the package: %v", err)
	}
	calls(t, "return", m.dpkg("-i", old.the(t, "*.deb")), []string{"deb-systemd-invoke restart polystalkd.service"})
	calls(t, "purge", m.dpkg("-P", "polystalk"), []string{"deb-systemd-helper purge polystalkd.service"})
	for _, gone := range []string{"var/lib/polystalkd", "etc/polystalkd", "usr/bin/polystalkd"} {
		if _, err := os.Lstat(m.path(gone)); err == nil {
			t.Errorf("%s is left", gone)
		}
	}
}
