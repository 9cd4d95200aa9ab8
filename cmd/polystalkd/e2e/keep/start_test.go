package keep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// What an import that did not end has left is not served as if it were whole,
// and does not lie in wait for the day on which there are files to import.
func TestInterruptedImportWithoutItsFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "importing"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-l127.0.0.1", "-p0", "-b", dir)
	if got.Code != fault.Journal || strings.Count(got.Stderr, "\n") != 1 || !strings.Contains(got.Stderr, "put them back") {
		t.Errorf("exit code %d, stderr %q", got.Code, got.Stderr)
	}
}

// TestJournalReadIsLogged: the line says how many jobs are there and where they
// are kept.
func TestJournalReadIsLogged(t *testing.T) {
	dir := t.TempDir()
	s := startKept(t, dir)
	c := daemon.Client(t, s)
	for id := 1; id <= 5; id++ {
		daemon.Expect(t, c, "put 0 0 100 3\r\nabc\r\n", fmt.Sprintf("INSERTED %d\r\n", id))
	}
	daemon.Expect(t, c, "delete 2\r\n", "DELETED\r\n")
	daemon.Expect(t, c, "reserve\r\n", "RESERVED 1 3\r\nabc\r\n")
	daemon.Kill(s)
	line := startLogged(t, dir).WaitLog("journal read")
	if line == nil || line["jobs"] != 4.0 || line["dir"] != dir || line["level"] != "INFO" {
		t.Errorf("%v, want 4 jobs in %s", line, dir)
	}
}
