package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/codec/wiretest"
)

// startKeptGearman runs the daemon with a journal and both protocols.
func startKeptGearman(t *testing.T, dir string) (s *wiretest.Server, gear string) {
	t.Helper()
	return startGearman(t, "-b", dir, "--log-level", "error")
}

// created submits a job, and returns the number in its handle.
func (c *gearmanConn) created(t *testing.T, kind gearman.Type, args ...string) (number int) {
	t.Helper()
	if err := c.send([]byte(request(kind, args...))); err != nil {
		t.Fatal(err)
	}
	// Nobody else is served on this connection: the answer ends with the mark.
	if err := c.send([]byte("getpid\n")); err != nil {
		t.Fatal(err)
	}
	text, err := c.r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(text, "H:lap:")
	text, _, ended := strings.Cut(text, "OK")
	number, err = strconv.Atoi(text)
	if !found || !ended || err != nil {
		t.Fatalf("%v %q: got %.200q", kind, args, text)
	}
	return number
}

// TestGearmanJobsSurvive: a background job is there after a crash, with all that it
// was submitted with; a foreground job is not, and nobody gets its handle.
func TestGearmanJobsSurvive(t *testing.T) {
	dir := t.TempDir()
	s, gear := startKeptGearman(t, dir)
	c := dialGearman(t, gear)
	low := c.created(t, gearman.SubmitJobLowBG, "f", "low", "l")
	normal := c.created(t, gearman.SubmitJobBG, "f", "normal", "n\x00n")
	later := c.created(t, gearman.SubmitJobEpoch, "f", "later", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10), "e")
	reduced := c.created(t, gearman.SubmitReduceJobBG, "f", "reduced", "sum", "", "r")
	high := c.created(t, gearman.SubmitJobHighBG, "f", "high", "h")
	done := c.created(t, gearman.SubmitJobHighBG, "done", "done", "")
	w := dialGearman(t, gear)
	if err := w.send([]byte(request(gearman.CanDo, "done") + request(gearman.GrabJob))); err != nil {
		t.Fatal(err)
	}
	w.hear(t, gearman.JobAssign, fmt.Sprintf("H:lap:%d\x00done\x00", done))
	w.ask(t, request(gearman.WorkComplete, fmt.Sprintf("H:lap:%d", done), "")+request(gearman.GrabJob), gearman.NoJob, "")
	last := c.created(t, gearman.SubmitJob, "f", "waited for", "w")
	kill(s)

	s, gear = startKeptGearman(t, dir)
	c, w = dialGearman(t, gear), dialGearman(t, gear)
	if again := c.created(t, gearman.SubmitJobBG, "f", "normal", "other"); again != normal {
		t.Errorf("job %d has lost its unique id: the same makes job %d", normal, again)
	}
	next := c.created(t, gearman.SubmitJobBG, "g", "", "")
	if next <= last {
		t.Errorf("job %d after the restart, job %d before", next, last)
	}
	c.ask(t, request(gearman.GetStatus, fmt.Sprintf("H:lap:%d", last)), gearman.StatusRes, fmt.Sprintf("H:lap:%d\x000\x000\x000\x000", last))
	if err := w.send([]byte(request(gearman.CanDo, "f"))); err != nil {
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
		w.ask(t, request(gearman.GrabJobAll), want.kind, want.body)
	}
	w.ask(t, request(gearman.GrabJobAll), gearman.NoJob, "")
	b := dialDaemon(t, s)
	if got := mustAsk(t, b, "stats-job %d\r\n", later); !strings.Contains(got, "state: delayed") {
		t.Errorf("the job of later: %q", got)
	}

	// Handles are used up in this life as well, in which no job was recorded behind them.
	last = c.created(t, gearman.SubmitJob, "f", "", "w")
	kill(s)
	_, gear = startKeptGearman(t, dir)
	if next := dialGearman(t, gear).created(t, gearman.SubmitJobBG, "g", "", ""); next <= last {
		t.Errorf("job %d after the second restart, job %d before", next, last)
	}
}
