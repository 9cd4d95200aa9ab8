package wire

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
	"polystalk/codec/gearman"
)

// startKeptGearman runs the daemon with a journal and both protocols.
func startKeptGearman(t *testing.T, dir string) (s *conversation.Server, gear string) {
	t.Helper()
	return daemon.StartGearman(t, "-b", dir, "--log-level", "error")
}

// TestGearmanJobsSurvive: a background job is there after a crash, with all that it
// was submitted with; a foreground job is not, and nobody gets its handle.
func TestGearmanJobsSurvive(t *testing.T) {
	dir := t.TempDir()
	s, gear := startKeptGearman(t, dir)
	c := daemon.DialGearman(t, gear)
	low := c.Created(t, gearman.SubmitJobLowBG, "f", "low", "l")
	normal := c.Created(t, gearman.SubmitJobBG, "f", "normal", "n\x00n")
	later := c.Created(t, gearman.SubmitJobEpoch, "f", "later", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10), "e")
	reduced := c.Created(t, gearman.SubmitReduceJobBG, "f", "reduced", "sum", "", "r")
	high := c.Created(t, gearman.SubmitJobHighBG, "f", "high", "h")
	done := c.Created(t, gearman.SubmitJobHighBG, "done", "done", "")
	w := daemon.DialGearman(t, gear)
	if err := w.Send([]byte(daemon.Request(gearman.CanDo, "done") + daemon.Request(gearman.GrabJob))); err != nil {
		t.Fatal(err)
	}
	w.Hear(t, gearman.JobAssign, fmt.Sprintf("H:lap:%d\x00done\x00", done))
	w.Ask(t, daemon.Request(gearman.WorkComplete, fmt.Sprintf("H:lap:%d", done), "")+daemon.Request(gearman.GrabJob), gearman.NoJob, "")
	last := c.Created(t, gearman.SubmitJob, "f", "waited for", "w")
	daemon.Kill(s)

	s, gear = startKeptGearman(t, dir)
	c, w = daemon.DialGearman(t, gear), daemon.DialGearman(t, gear)
	if again := c.Created(t, gearman.SubmitJobBG, "f", "normal", "other"); again != normal {
		t.Errorf("job %d has lost its unique id: the same makes job %d", normal, again)
	}
	next := c.Created(t, gearman.SubmitJobBG, "g", "", "")
	if next <= last {
		t.Errorf("job %d after the restart, job %d before", next, last)
	}
	c.Ask(t, daemon.Request(gearman.GetStatus, fmt.Sprintf("H:lap:%d", last)), gearman.StatusRes, fmt.Sprintf("H:lap:%d\x000\x000\x000\x000", last))
	if err := w.Send([]byte(daemon.Request(gearman.CanDo, "f"))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		kind gearman.Type
		body string
	}{
		{gearman.JobAssignUniq, fmt.Sprintf("H:lap:%d\x00f\x00high\x00h", high)},
		{gearman.JobAssignUniq, fmt.Sprintf("H:lap:%d\x00f\x00normal\x00n\x00n", normal)},
		{gearman.JobAssignAll, fmt.Sprintf("H:lap:%d\x00f\x00reduced\x00sum\x00r", reduced)},
		{gearman.JobAssignUniq, fmt.Sprintf("H:lap:%d\x00f\x00low\x00l", low)},
	} {
		w.Ask(t, daemon.Request(gearman.GrabJobAll), want.kind, want.body)
	}
	w.Ask(t, daemon.Request(gearman.GrabJobAll), gearman.NoJob, "")
	b := daemon.Client(t, s)
	if got := daemon.MustAsk(t, b, "stats-job %d\r\n", later); !strings.Contains(got, "state: delayed") {
		t.Errorf("the job of later: %q", got)
	}

	// Handles are used up in this life as well, in which no job was recorded behind them.
	last = c.Created(t, gearman.SubmitJob, "f", "", "w")
	daemon.Kill(s)
	_, gear = startKeptGearman(t, dir)
	if next := daemon.DialGearman(t, gear).Created(t, gearman.SubmitJobBG, "g", "", ""); next <= last {
		t.Errorf("job %d after the second restart, job %d before", next, last)
	}
}
