package journal

import (
	"os"
	"os/exec"
	"path/filepath"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"slices"
	"strings"
	"testing"
)

// TestTargetIsDurable: salvage and export sync the files and the directory's entry before they end.
// salvage writes the first segment after the others are durable.
func TestTargetIsDurable(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: apt-get install strace")
	}
	parent, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	program := daemon.CLI(t)
	old := filepath.Join(parent, "old")
	must(t, os.Mkdir(old, 0o700))
	p := keep(t, old)
	for range 400 {
		p.ask("put 0 0 100 60000\r\n%s\r\n", strings.Repeat("x", 60000))
	}
	p.Stop()
	for _, command := range [][]string{{"journal", "salvage"}, {"journal", "export", "--format", "v7"}} {
		to := filepath.Join(parent, command[1])
		trace := filepath.Join(parent, "trace")
		args := []string{"-f", "-y", "-o", trace, "-e", "trace=mkdir,mkdirat,rename,renameat,renameat2,fsync,fdatasync", program}
		args = append(args, command...)
		if out, err := exec.Command(strace, append(args, old, to)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		b, err := os.ReadFile(trace)
		must(t, err)
		var did []string
		for line := range strings.Lines(string(b)) {
			switch {
			case strings.Contains(line, "mkdir") && strings.Contains(line, to+"\""):
				did = append(did, "make")
			case strings.Contains(line, "sync(") && strings.Contains(line, "<"+to+">"):
				did = append(did, "sync")
			case strings.Contains(line, "sync(") && strings.Contains(line, "<"+parent+">"):
				did = append(did, "sync above")
			case strings.Contains(line, "rename") && strings.Contains(line, to+"/journal.0000000001\""):
				did = append(did, "first")
			case strings.Contains(line, "rename") && strings.Contains(line, to+"/"):
				did = append(did, "another")
			}
		}
		did = slices.Compact(did)
		want := "make another sync first sync sync above"
		if command[1] == "export" {
			want = "make another sync sync above"
		}
		if got := strings.Join(did, " "); got != want {
			t.Errorf("%s: %s\nwant %s\n%s", command[1], got, want, b)
		}
	}
}
