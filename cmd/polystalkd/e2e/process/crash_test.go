package process

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
	"polystalk/codec/conversation"
)

// The fault harness (make faults) has kill rounds that judge whole histories. These are the smoke
// tests of a crash.

// A traffic records what the server told clients between two kills.
type traffic struct {
	mu      sync.Mutex
	put     map[string]bool // bodies of jobs that must be there
	deleted map[string]bool // bodies of jobs that must be gone
	given   map[string]bool // bodies that a worker received; their puts may be unanswered
}

// run puts jobs and deletes every second one, until the server has ended.
func (r *traffic) run(c *conversation.Client, prefix string) {
	for i := 0; ; i++ {
		body := fmt.Sprintf("%s %d", prefix, i)
		var id uint64
		reply, err := c.Ask(fmt.Sprintf("put 7 0 1000 %d\r\n%s\r\n", len(body), body))
		if _, scan := fmt.Sscanf(string(reply), "INSERTED %d\r\n", &id); err != nil || scan != nil {
			return
		}
		if i%2 == 0 {
			r.mu.Lock()
			r.put[body] = true
			r.mu.Unlock()
			continue
		}
		if reply, err := c.Ask(fmt.Sprintf("delete %d\r\n", id)); err != nil || string(reply) != "DELETED\r\n" {
			return
		}
		r.mu.Lock()
		r.deleted[body] = true
		r.mu.Unlock()
	}
}

// work reserves jobs of the tube "given", which a producer puts without reading the replies.
func (r *traffic) work(c, producer *conversation.Client, prefix string) {
	if reply, err := c.Ask("watch given\r\n"); err != nil || string(reply) != "WATCHING 2\r\n" {
		return
	}
	if reply, err := c.Ask("ignore default\r\n"); err != nil || string(reply) != "WATCHING 1\r\n" {
		return
	}
	for i := 0; ; i++ {
		body := fmt.Sprintf("%s given %d", prefix, i)
		if producer.Say(fmt.Appendf(nil, "use given\r\nput 0 0 1000 %d\r\n%s\r\n", len(body), body)) != nil {
			return
		}
		reply, err := c.Ask("reserve\r\n")
		if err != nil {
			return
		}
		_, got, _ := strings.Cut(strings.TrimSuffix(string(reply), "\r\n"), "\r\n")
		r.mu.Lock()
		r.given[got] = true
		r.mu.Unlock()
	}
}

// TestKillKeepsWhatWasAcknowledged ends the server under load, with each sync policy: by kill -9,
// and once by SIGTERM. Jobs in each state and the pause survive. Acknowledged jobs exist, deleted
// jobs do not, and each job that a worker reserved is in the journal.
func TestKillKeepsWhatWasAcknowledged(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for i, policy := range [][]string{nil, {"-f", "5"}, {"-F"}} {
		t.Run("policy="+strings.Join(policy, ""), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(i), *daemon.Seed))
			dir := t.TempDir()
			args := append([]string{"-s", "300000", "-z", "200000"}, policy...)
			s := startKept(t, dir, args...)
			c := daemon.Client(t, s)
			putN(t, c, 7, "put 9 0 1000 4\r\njob!\r\n")
			putN(t, c, 1, "put 9 2000 1000 100000\r\n"+strings.Repeat("l", 100_000)+"\r\n")
			for id, end := range map[int]string{2: "bury 2 5\r\n", 3: "release 3 4 3000\r\n", 4: "release 4 3 0\r\n", 5: "bury 5 1\r\nkick-job 5\r\n"} {
				daemon.MustAsk(t, c, "reserve-job %d\r\n", id)
				for line := range strings.SplitAfterSeq(strings.TrimSuffix(end, "\r\n"), "\r\n") {
					daemon.MustAsk(t, c, "%s\r\n", strings.TrimSuffix(line, "\r\n"))
				}
			}
			daemon.Expect(t, c, "pause-tube default 4000\r\n", "PAUSED\r\n")
			states := see(t, c, upTo(8))
			r := &traffic{put: make(map[string]bool), deleted: make(map[string]bool), given: make(map[string]bool)}
			for round := range 5 {
				daemon.MustAsk(t, c, "reserve-job 6\r\n") // the reservation ends with the process
				var wg sync.WaitGroup
				for n := range 3 {
					client := daemon.Client(t, s)
					wg.Go(func() { r.run(client, fmt.Sprintf("%d.%d", round, n)) })
				}
				worker, producer := daemon.Client(t, s), daemon.Client(t, s)
				wg.Go(func() { r.work(worker, producer, fmt.Sprint(round)) })
				time.Sleep(time.Duration(20+rng.IntN(150)) * time.Millisecond)
				if round == 2 {
					s.Stop()
				} else {
					daemon.Kill(s)
				}
				wg.Wait()
				s = startKept(t, dir, append(args, "--shards", []string{"1", "2", "4", "16"}[rng.IntN(4)])...)
				c = daemon.Client(t, s)
				sameJobs(t, see(t, c, upTo(8)), states)
				if left := fields(daemon.MustAsk(t, c, "stats-tube default\r\n"))["pause-time-left"]; left < "3" || len(left) != 4 {
					t.Errorf("the pause has %s s left", left)
				}
				r.check(t, c)
				if t.Failed() {
					t.Fatalf("in round %d", round)
				}
			}
		})
	}
}

// check compares the remaining bodies with what clients were told.
func (r *traffic) check(t *testing.T, c *conversation.Client) {
	t.Helper()
	there := make(map[string]bool)
	for _, j := range see(t, c, upTo(uint64(20+2*len(r.put)+2*len(r.deleted)+2*len(r.given)))) {
		there[j.body] = true
	}
	for _, must := range []map[string]bool{r.put, r.given} {
		for body := range must {
			if !there[body] {
				t.Errorf("%q was acknowledged, or given to a worker, and is gone", body)
			}
		}
	}
	for body := range r.deleted {
		if there[body] {
			t.Errorf("%q is back", body)
		}
	}
}

// TestKillAmidOperations kills the server during an operation on many jobs. Each job has its old or
// its new state, and all effects of an answered operation survive. Repeating the operation does the
// rest, and changes no other job.
func TestKillAmidOperations(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const jobs = 8000
	for _, o := range []struct{ name, method, path, body, becomes string }{
		{"flush", "DELETE", "tubes/from/jobs?state=ready", "", ""},
		{"delete", "POST", "operations", `{"action":"delete","select":{"tube":"from"}}`, ""},
		{"bury", "POST", "operations", `{"action":"bury","select":{"tube":"from","states":["ready"]}}`, "from buried"},
		{"move", "POST", "operations", `{"action":"move","select":{"tube":"from"},"to":"to"}`, "to ready"},
	} {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, api := startAPI(t, dir)
			c := s.Client()
			daemon.MustAsk(t, c, "use other\r\n")
			putN(t, c, 10, "put 9 0 100 5\r\nother\r\n")
			daemon.MustAsk(t, c, "use from\r\n")
			putN(t, c, jobs, "put 9 0 100 4\r\nbody\r\n")
			answered := make(chan bool, 1)
			go func() { answered <- operate(api, o.method, o.path, o.body) == nil }()
			time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
			s.Crash()
			done := <-answered
			s, api = startAPI(t, dir)
			was, is := count(t, s, o.becomes)
			switch {
			case o.becomes == "" && was > jobs, o.becomes != "" && o.name != "move" && was+is != jobs, o.name == "move" && was+is < jobs:
				t.Errorf("%d jobs are as they were, %d as they were to be, of %d", was, is, jobs)
			case done && o.method == "DELETE" && was > 0:
				t.Errorf("the operation was answered, and %d jobs are as before", was)
			}
			if err := operate(api, o.method, o.path, o.body); err != nil {
				t.Fatal(err)
			}
			if was, is := count(t, s, o.becomes); was > 0 || o.becomes != "" && is < jobs {
				t.Errorf("once more: %d jobs are as they were, %d as they were to be", was, is)
			}
			if n := fields(daemon.MustAsk(t, s.Client(), "stats-tube other\r\n"))["current-jobs-ready"]; n != "10" {
				t.Errorf("%s other jobs, want 10", n)
			}
		})
	}
}

// startAPI also serves HTTP on a unix socket.
func startAPI(t *testing.T, dir string) (*daemon.Server, *daemon.API) {
	t.Helper()
	socket := filepath.Join(dir, "http")
	s := startLogged(t, dir, "-s", "300000", "--http", "unix:"+socket)
	if s.WaitLog("serving HTTP") == nil {
		t.Fatal(s.LogText())
	}
	return s, daemon.NewAPI(socket)
}

// operate starts an operation and waits for its end. An error means no answer or a refusal. For a
// tube that does not exist nothing is left to do.
func operate(api *daemon.API, method, path, body string) error {
	var in, out any
	if body != "" {
		in = json.RawMessage(body)
	}
	var v admin.Operation
	if method == "POST" {
		out = &v
	}
	for {
		status, _, err := api.Do(method, "/api/v1/"+path, "", in, out, 404)
		if err != nil || status == 404 || out == nil || v.Ended != nil {
			return err
		}
		method, path, in = "GET", fmt.Sprintf("operations/%d", v.ID), nil
		time.Sleep(5 * time.Millisecond)
	}
}

// count returns how many jobs of the tube "from" are ready, and how many jobs have the tube and
// state in becomes.
func count(t *testing.T, s *daemon.Server, becomes string) (was, is int) {
	t.Helper()
	c := s.Client()
	defer c.Close()
	in := func(tube, state string) (n int) {
		fmt.Sscan(fields(daemon.MustAsk(t, c, "stats-tube %s\r\n", tube))["current-jobs-"+state], &n)
		return n
	}
	was = in("from", "ready")
	if tube, state, ok := strings.Cut(becomes, " "); ok {
		is = in(tube, state)
	}
	return was, is
}
