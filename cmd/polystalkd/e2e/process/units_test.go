package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// readmeUnits are the units that the README shows, by file name.
func readmeUnits(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	units := make(map[string]string)
	for _, block := range strings.Split(string(text), "```ini\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		first, _, _ := strings.Cut(block, "\n")
		if path, ok := strings.CutPrefix(first, "# /etc/systemd/system/"); ok {
			units[path] = block
		}
	}
	if len(units) != 2 {
		t.Fatalf("the README shows %d units", len(units))
	}
	return units
}

// TestReadmesUnitsArePair: the service unit names no address of its own beside those
// of the socket unit, so that there is one path for clients; what it gives the server
// are good arguments; and systemd finds no fault in the two.
func TestReadmesUnitsArePair(t *testing.T) {
	units := readmeUnits(t)
	service, socket := units["polystalkd.service"], units["polystalkd.socket"]
	if !strings.Contains(socket, "ListenStream=/run/polystalkd/polystalkd.sock\n") {
		t.Errorf("the socket unit names another path:\n%s", socket)
	}
	for _, bad := range []string{" -l ", " -p ", "RuntimeDirectory"} {
		if strings.Contains(service, bad) {
			t.Errorf("the service unit has %q beside the socket unit:\n%s", bad, service)
		}
	}
	_, start, _ := strings.Cut(service, "ExecStart=")
	start, _, _ = strings.Cut(start, "\n")
	program, args, _ := strings.Cut(start, " ")
	args = strings.ReplaceAll(args, "/var/lib/polystalkd", t.TempDir())
	if got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), append(strings.Fields(args), "--check-args")...); got != (daemon.Outcome{}) {
		t.Errorf("%s: %+v", start, got)
	}

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // the rest needs it; it is not worth to be installed for this
	}
	dir := t.TempDir()
	var files []string
	for name, text := range units {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, program, daemon.Binary)), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, files...)...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, dir) || strings.HasPrefix(line, "polystalkd.") {
			t.Errorf("systemd-analyze: %s", line)
		}
	}
	if err != nil {
		t.Logf("systemd-analyze: %v\n%s", err, out) // of other units of this machine
	}
}
