package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// An endless is a server with an operation that ends only when it is cancelled.
type endless struct {
	cancelled, polled atomic.Int64
}

func (e *endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	state, status := "running", http.StatusOK
	switch {
	case r.Method == "DELETE":
		e.cancelled.Add(1)
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method == "POST":
		var asked struct {
			DryRun bool `json:"dry_run"`
		}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		if status = http.StatusAccepted; asked.DryRun {
			state, status = "done", http.StatusOK
		}
	default:
		e.polled.Add(1)
		if e.cancelled.Load() > 0 {
			state = "cancelled"
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"id":"7","action":"kick","state":%q,"to_look_at":1000,"looked_at":400,"matched":400,"done":300,"skipped":{"gone":2},"as_of":"x"}`, state)
}

// A question is a writer that closes asked when a question is written.
type question struct {
	asked chan struct{}
}

func (q *question) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "[y/N]") {
		close(q.asked)
	}
	return len(b), nil
}

// TestOnlyCountedJobsAreTouched, even if more jobs are put before the confirmation.
func TestOnlyCountedJobsAreTouched(t *testing.T) {
	p, _ := polystalkd(t)
	p.must(0, "put", "mail", "--body", "a")
	for _, args := range [][]string{{"delete", "--tube", "mail"}, {"flush", "mail"}} {
		in, answer := io.Pipe()
		errs := &question{asked: make(chan struct{})}
		code := make(chan int, 1)
		go func() {
			a := &cli.App{In: in, Out: io.Discard, Err: errs, Screens: cli.Screens{In: true, Err: true}, Getenv: func(string) string { return "" }}
			code <- cli.Run(t.Context(), a, append(args, "--server", p.server))
		}()
		<-errs.asked
		p.must(0, "put", "mail", "--body", "b")
		_, _ = io.WriteString(answer, "y\n")
		if got := <-code; got != 0 {
			t.Fatalf("%q: exit code %d", args, got)
		}
		p.prints("b\n", "jobs", "mail", "-o", "jsonl", "--jq", ".body")
	}
}

// TestConnectionsWithJobsAreListedAndClosed.
func TestConnectionsWithJobsAreListedAndClosed(t *testing.T) {
	p := asAdmin(t)
	c, err := conversation.Dial("tcp", p.queue)
	must(t, err)
	defer c.Close()
	p.must(0, "put", "mail", "--body", "x")
	for _, command := range []string{"auth " + p.token + "\r\n", "watch mail\r\n", "reserve\r\n"} {
		if _, err := c.Ask(command); err != nil {
			t.Fatal(err)
		}
	}
	id := strings.TrimSpace(p.must(0, "conns", "--holding", "--tube", "mail", "-o", "name").stdout)
	if got := p.must(0, "conns").stdout; !strings.Contains(got, c.LocalAddr().String()) || !strings.Contains(got, "reserve") {
		t.Errorf("%s", got)
	}
	p.prints(id+"\n", "job", "1", "--jq", ".holder.connection")
	p.says("worker", client.NotDone, "delete", "1")
	p.must(0, "kill", id)
	p.must(client.Nothing, "kill", id)
	p.prints("ready\n", "job", "1", "--jq", ".state")
	if got := p.must(0, "audit", "-o", "jsonl", "--jq", ".action").stdout; !strings.Contains(got, "DELETE /api/v1/connections/{id}") {
		t.Errorf("%q", got)
	}
	if got := p.must(0, "history", "--last", "1h", "-o", "wide").stdout; !strings.HasPrefix(got, "TIME ") || !strings.Contains(got, "WAIT-P99") {
		t.Errorf("%.200q", got)
	}
	// A table starts at the first known figure; the whole hour is 720 lines.
	if table, all := p.must(0, "history", "--last", "1h").stdout, p.must(0, "history", "--last", "1h", "-o", "jsonl").stdout; strings.Count(table, "\n") > 600 || strings.Count(all, "\n") < 700 {
		t.Errorf("a table of %d lines, and all of %d", strings.Count(table, "\n"), strings.Count(all, "\n"))
	}
}

// TestEditorChangesAJobThatNobodyElseHasChanged.
func TestEditorChangesAJobThatNobodyElseHasChanged(t *testing.T) {
	p, _ := polystalkd(t)
	p.must(0, "put", "mail", "--body", "before")
	p.env = map[string]string{"EDITOR": fmt.Sprintf(`curl -sf -X PATCH -H 'Content-Type: application/json' -d '{"pri": 9}' %s/api/v1/jobs/1; printf new >`, p.server)}
	o := p.must(client.NotDone, "edit", "1", "--editor")
	_, file, _ := strings.Cut(o.stderr, "is in ")
	if b, err := os.ReadFile(strings.TrimSpace(file)); err != nil || string(b) != "new" {
		t.Errorf("what was written is lost: %q, %v", o.stderr, err)
	}
	os.RemoveAll(filepath.Dir(strings.TrimSpace(file)))
	p.prints("before", "body", "1")
}

// TestTubesAreCompleted, if the server answers in time.
func TestTubesAreCompleted(t *testing.T) {
	p, _ := polystalkd(t)
	p.must(0, "put", "mail", "--body", "x")
	p.must(0, "put", "m.2", "--body", "x")
	// A shell would run these names.
	for _, name := range []string{"$(reboot)a", "$(reboot)b", "m;reboot", "m$HOME", "(m)"} {
		p.must(0, "put", name, "--body", "x")
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"tube", "ma"}, "mail\n"}, {[]string{"tube", ""}, "default\nm.2\nmail\n"}, {[]string{"flush", "m."}, "m.2\n"}, {[]string{"kick", "--tube", "ma"}, "mail\n"},
		{[]string{"tube", "m*"}, ""}, {[]string{"tube", "$"}, ""}, {[]string{"tube", "--path", ""}, "%28m%29\ndefault\nm.2\nm%3Breboot\nmail\n"}, {[]string{"jobs", "mail", "--state", ""}, "ready\ndelayed\nreserved\nburied\n"}, {[]string{"stats", "-o", ""}, "table\nwide\njson\njsonl\nname\n"},
		{[]string{"stats", "--server", fake(t, "http", "hangs", ""), "tube", ""}, ""},
	} {
		var got string
		for end := time.Now().Add(daemon.Hang); ; { // on a busy machine the server may be too late
			got, _, _ = strings.Cut(p.polystalk(append([]string{"__complete"}, tt.args...)...).stdout, ":")
			if got != "" || tt.want == "" || time.Now().After(end) {
				break
			}
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := p.must(0, "completion", shell).stdout; !strings.Contains(got, "polystalk") {
			t.Errorf("%s: %q", shell, got)
		}
	}
}
