package process

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

const unitsDir = "../../systemd"

// unit returns the text of one of our units.
func unit(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(unitsDir, name))
	must(t, err)
	return string(text)
}

// values returns the values of a key of a unit, in order.
func values(unit, key string) (all []string) {
	for line := range strings.Lines(unit) {
		if value, ok := strings.CutPrefix(line, key+"="); ok {
			all = append(all, strings.TrimSpace(value))
		}
	}
	return all
}

// units returns the names of the units that systemd reads.
func units(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.service", "*.socket"} {
		found, err := filepath.Glob(filepath.Join(unitsDir, pattern))
		must(t, err)
		for _, path := range found {
			names = append(names, filepath.Base(path))
		}
	}
	if len(names) != 4 {
		t.Fatalf("the units are %q", names)
	}
	return names
}

// TestUnitsBelongTogether: each socket unit names a protocol and starts the service. The service
// names no address itself, so there is one path for clients. No unit makes systemd remove the
// directory of the sockets when the service stops.
func TestUnitsBelongTogether(t *testing.T) {
	service := unit(t, "polystalkd.service")
	for name, want := range map[string]struct{ spoken, at string }{
		"polystalkd.socket":         {"beanstalkd", "/run/polystalkd/polystalkd.sock"},
		"polystalkd-http.socket":    {"http", "/run/polystalkd/http.sock"},
		"polystalkd-gearman.socket": {"gearman", "127.0.0.1:4730"},
	} {
		socket := unit(t, name)
		if got := values(socket, "FileDescriptorName"); !slices.Equal(got, []string{want.spoken}) {
			t.Errorf("%s names its sockets %q", name, got)
		}
		if got := values(socket, "ListenStream"); !slices.Contains(got, want.at) {
			t.Errorf("%s listens on %q, not on %s", name, got, want.at)
		}
		if got := values(socket, "Service"); name != "polystalkd.socket" && !slices.Equal(got, []string{"polystalkd.service"}) {
			t.Errorf("%s leads to %q", name, got)
		}
		if !strings.Contains(strings.Join(values(service, "After"), " ")+" ", name+" ") {
			t.Errorf("the service does not start after %s, and would go without its sockets", name)
		}
	}
	start := strings.Fields(values(service, "ExecStart")[0])
	for _, bad := range []string{"-l", "-p", "--http", "--gearman-listen"} {
		if slices.Contains(start, bad) {
			t.Errorf("the service unit has %s beside the socket units: %s", bad, start)
		}
	}
	if got := values(service, "RuntimeDirectory"); got != nil {
		t.Errorf("RuntimeDirectory is %q", got)
	}
	// Otherwise a server that was removed from its cluster would be restarted again and again.
	if got := values(service, "RestartPreventExitStatus"); !slices.Equal(got, []string{strconv.Itoa(fault.Removed)}) {
		t.Errorf("the unit does not start the server again after %q, want %d", got, fault.Removed)
	}
	if got := run(t, nil, append(startLine(t), "--check-args")...); got != (daemon.Outcome{}) {
		t.Errorf("%+v", got)
	}
}

// startLine returns the program's arguments in the service unit, with the file that it names. The
// journal's directory exists.
func startLine(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../polystalkd.toml")
	must(t, err)
	conf := confFile(t, strings.Replace(string(text), "#binlog-dir = \"/var/lib/polystalkd\"", "binlog-dir = "+strconv.Quote(t.TempDir()), 1))
	line := values(unit(t, "polystalkd.service"), "ExecStart")[0]
	args := strings.Fields(strings.Replace(line, "/etc/polystalkd/polystalkd.toml", conf, 1))
	if args[0] != "/usr/bin/polystalkd" || !slices.Contains(args, conf) {
		t.Fatalf("ExecStart=%s", line)
	}
	return args[1:]
}

// TestSystemdFindsNoFaultInUnits, and the service has few rights on its machine.
func TestSystemdFindsNoFaultInUnits(t *testing.T) {
	analyze := daemon.Tool(t, "systemd-analyze", "systemd")
	dir := t.TempDir()
	files := []string{"verify", "--man=no"}
	for _, name := range units(t) {
		file := filepath.Join(dir, name)
		write(t, file, strings.ReplaceAll(unit(t, name), "/usr/bin/polystalkd", daemon.Binary))
		files = append(files, file)
	}
	out, err := exec.Command(analyze, files...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, dir) || strings.HasPrefix(line, "polystalkd") {
			t.Errorf("systemd-analyze: %s", line)
		}
	}
	if err != nil {
		t.Logf("systemd-analyze: %v\n%s", err, out) // of other units of this machine
	}

	const exposureMax = 1.5 // of 10
	out, err = exec.Command(analyze, "security", "--offline=true", "--no-pager", filepath.Join(dir, "polystalkd.service")).CombinedOutput()
	m := regexp.MustCompile(`Overall exposure level for polystalkd.service: ([0-9.]+)`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	exposure, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil || exposure > exposureMax {
		t.Errorf("the exposure is %s (%v), want at most %v:\n%s", m[1], err, exposureMax, out)
	}

	users := daemon.Tool(t, "systemd-sysusers", "systemd")
	path, err := filepath.Abs(filepath.Join(unitsDir, "polystalkd.sysusers"))
	must(t, err)
	out, err = exec.Command(users, "--dry-run", "--root="+t.TempDir(), path).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("Creating user 'polystalkd'")) {
		t.Errorf("systemd-sysusers: %v\n%s", err, out)
	}
}

// TestSystemCallsAreWithinTheFilter: the service unit allows all system calls of a working server.
// The filter itself works only where systemd is process 1.
func TestSystemCallsAreWithinTheFilter(t *testing.T) {
	analyze := daemon.Tool(t, "systemd-analyze", "systemd")
	strace := daemon.Tool(t, "strace", "strace")
	filters := values(unit(t, "polystalkd.service"), "SystemCallFilter")
	if !slices.Equal(filters, []string{"@system-service", "~@privileged @resources"}) {
		t.Fatalf("the filters are %q: teach the test what they let through", filters)
	}
	allowed := systemCalls(t, analyze, "@system-service")
	for call := range systemCalls(t, analyze, "@privileged", "@resources") {
		delete(allowed, call)
	}

	calls := filepath.Join(t.TempDir(), "calls")
	args := append([]string{"-D", "-f", "-qq", "-o", calls, daemon.Binary}, startLine(t)...)
	cmd := exec.Command(strace, append(args, "--log-format", "json", "-l", "127.0.0.1", "-p", "0", "--gearman-listen", "127.0.0.1:0", "--http", "127.0.0.1:0")...)
	cmd.Env = daemon.CleanEnv()
	s := daemon.Await(t, cmd)
	work := daemon.Dial(t, s.Listen[0])
	daemon.Says(t, work, "put 0 0 60 1\r\nx\r\nreserve\r\ndelete 1\r\n", "INSERTED 1\r\nRESERVED 1 1\r\nx\r\nDELETED\r\n")
	for _, page := range []string{"/metrics", "/readyz?verbose", "/api/v1/journal"} {
		if status, body := getHTTP(t, "http://"+httpOf(t, s)+page, ""); status != 200 {
			t.Errorf("%s: %d %s", page, status, body)
		}
	}
	s.Signal(syscall.SIGHUP)
	logged(t, s, "the configuration was read again")
	ends(t, s, syscall.SIGTERM)

	text, err := os.ReadFile(calls)
	must(t, err)
	made := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\d+ +([a-z0-9_]+)\(`).FindAllSubmatch(text, -1) {
		made[string(m[1])] = true
	}
	if !made["accept4"] || !made["fdatasync"] {
		t.Errorf("it is not seen at work: only %v", made)
	}
	for call := range made {
		if !allowed[call] {
			t.Errorf("the server calls %s, which the unit does not let through", call)
		}
	}
}

// systemCalls returns the system calls in systemd's groups, and in nested groups.
func systemCalls(t *testing.T, analyze string, groups ...string) map[string]bool {
	t.Helper()
	calls := make(map[string]bool)
	for len(groups) > 0 {
		out, err := exec.Command(analyze, append([]string{"syscall-filter", "--no-pager"}, groups...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		groups = nil
		for line := range strings.Lines(string(out)) {
			indented := strings.HasPrefix(line, " ")
			switch word := strings.TrimSpace(line); {
			case word == "" || !indented || strings.HasPrefix(word, "#"):
			case strings.HasPrefix(word, "@"):
				groups = append(groups, word)
			default:
				calls[word] = true
			}
		}
	}
	return calls
}
