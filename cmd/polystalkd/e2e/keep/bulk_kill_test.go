package keep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
)

// A bulkKilling is a campaign of operations on many jobs that are killed, on one directory.
type bulkKilling struct {
	t    *testing.T
	rng  *rand.Rand
	s    *daemon.Server
	http *http.Client
	base string
	jobs map[uint64]admin.Job // as they are to be
}

// A deed is one kind of operation: what it is asked for by, and what it makes of a job that
// is selected.
type deed struct {
	action, states string
	selects        func(j *admin.Job) bool
	makes          func(j *admin.Job) (there bool)
}

var bulkDeeds = []deed{
	{`"action":"bury"`, `"ready"`, isReady, func(j *admin.Job) bool { j.State = "buried"; return true }},
	{`"action":"kick"`, `"buried"`, func(j *admin.Job) bool { return j.State == "buried" }, func(j *admin.Job) bool { j.State = "ready"; return true }},
	{`"action":"set","set":{"pri":77}`, `"ready"`, isReady, func(j *admin.Job) bool { j.Pri = 77; return true }},
	{`"action":"set","set":{"pri":5,"ttr_seconds":222}`, `"ready"`, isReady, func(j *admin.Job) bool { j.Pri, j.TTRSeconds = 5, 222; return true }},
	{`"action":"set","set":{"delay_seconds":9000}`, `"ready"`, isReady, func(j *admin.Job) bool { j.State = "delayed"; return true }},
	{`"action":"kick"`, `"delayed"`, func(j *admin.Job) bool { return j.State == "delayed" }, func(j *admin.Job) bool { j.State = "ready"; return true }},
	{`"action":"delete"`, `"ready"`, isReady, func(*admin.Job) bool { return false }},
}

func isReady(j *admin.Job) bool { return j.State == "ready" }

func (k *bulkKilling) start(args ...string) {
	k.s = daemon.Serve(k.t, append([]string{"--http", "127.0.0.1:0", "-s", "300000", "-z", "1000"}, args...)...)
	line := k.s.WaitLog("serving HTTP")
	if line == nil {
		k.t.Fatal(k.s.LogText())
	}
	k.base = "http://" + line["listen"].(string) + "/api/v1/"
}

// ask sends a request; the error is that the server is gone.
func (k *bulkKilling) ask(method, path, body string, v any) (status int, err error) {
	r, err := http.NewRequest(method, k.base+path, strings.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := k.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return 0, fmt.Errorf("%s: %w", b, err)
	}
	return resp.StatusCode, nil
}

// operation does one to its end.
func (k *bulkKilling) operation(body string) (v admin.Operation) {
	k.t.Helper()
	status, err := k.ask("POST", "operations", body, &v)
	for err == nil && v.Ended == nil {
		time.Sleep(10 * time.Millisecond)
		status, err = k.ask("GET", fmt.Sprintf("operations/%d", v.ID), "", &v)
	}
	if err != nil || status >= 300 || v.State != "done" {
		k.t.Fatalf("%s: %d, %v, %+v", body, status, err, v)
	}
	return v
}

// list is what there is, by ids.
func (k *bulkKilling) list() map[uint64]admin.Job {
	k.t.Helper()
	all := make(map[uint64]admin.Job)
	for after := ""; ; {
		var part admin.Jobs
		path := "tubes/mail/jobs?limit=1000&state=ready,delayed,buried,reserved"
		if after != "" {
			path += "&after=" + after
		}
		if status, err := k.ask("GET", path, "", &part); err != nil || status != 200 {
			k.t.Fatalf("%d, %v", status, err)
		}
		for _, j := range part.Jobs {
			all[j.ID] = j
		}
		if after = part.Next; after == "" {
			return all
		}
	}
}

// same says how two jobs differ in what an operation may change; empty: they do not.
func same(a, b *admin.Job) string {
	if a.State != b.State || a.Pri != b.Pri || a.TTRSeconds != b.TTRSeconds || a.Size != b.Size {
		return fmt.Sprintf("job %d is %s, pri %d, ttr %d, %d bytes, and was to be %s, %d, %d, %d", a.ID, a.State, a.Pri, a.TTRSeconds, a.Size, b.State, b.Pri, b.TTRSeconds, b.Size)
	}
	return ""
}

// puts adds jobs.
func (k *bulkKilling) puts(n int) {
	k.t.Helper()
	c := k.s.Client()
	defer c.Close()
	daemon.MustAsk(k.t, c, "use mail\r\n")
	size := 1 + k.rng.IntN(300)
	last := putN(k.t, c, n, fmt.Sprintf("put 9 0 100 %d\r\n%s\r\n", size, bytes.Repeat([]byte("x"), size)))
	for id := last - uint64(n) + 1; id <= last; id++ {
		k.jobs[id] = admin.Job{ID: id, State: "ready", Pri: 9, TTRSeconds: 100, Content: admin.Content{Size: size}}
	}
}

// follow begins an operation, after its dry run, and kills the server while it runs, or soon
// after. It reports how many jobs it was told of as done, and whether that is all.
func (k *bulkKilling) follow(dry uint64, body string) (told uint64, all bool) {
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		time.Sleep(time.Duration(k.rng.IntN(60)) * time.Millisecond)
		k.s.Crash()
	}()
	answered := make(chan admin.Operation, 1)
	go func() {
		var v admin.Operation
		if _, err := k.ask("POST", "operations", body, &v); err != nil {
			v = admin.Operation{}
		}
		answered <- v
	}()
	for {
		var list admin.Operations
		if _, err := k.ask("GET", "operations", "", &list); err != nil {
			break
		}
		if list.Operations[0].ID > dry {
			told = list.Operations[0].Done
			all = list.Operations[0].State == "done"
		}
	}
	v := <-answered
	<-killed
	return max(told, v.Done), all || v.State == "done"
}

// round has one operation killed, sees what has become of it, and has the same do the rest. It
// reports how many of how many jobs were done when it was killed.
func (k *bulkKilling) round(d *deed, args ...string) (done, of uint64) {
	t := k.t
	t.Helper()
	selected := `"select":{"tube":"mail","states":[` + d.states + `]`
	if d.action == `"action":"delete"` { // some of them stay
		highest := uint64(0)
		for id := range k.jobs {
			highest = max(highest, id)
		}
		most := highest - uint64(k.rng.IntN(len(k.jobs)/3))
		selected += fmt.Sprintf(`,"id_max":"%d"`, most)
		by := *d
		by.selects = func(j *admin.Job) bool { return j.ID <= most && isReady(j) }
		d = &by
	}
	counted := k.operation(fmt.Sprintf(`{%s,%s},"dry_run":true}`, d.action, selected))
	wanted := make(map[uint64]bool)
	for id, j := range k.jobs {
		if d.selects(&j) {
			wanted[id] = true
		}
	}
	if counted.Matched != uint64(len(wanted)) {
		t.Fatalf("%s: %d are counted, want %d", d.action, counted.Matched, len(wanted))
	}
	k.puts(1 + k.rng.IntN(30)) // these are left alone
	body := fmt.Sprintf(`{%s,%s},"as_of":%q,"expect_at_most":%d}`, d.action, selected, counted.AsOf, counted.Matched)
	told, all := k.follow(counted.ID, body)
	k.start(args...)
	found := k.list()
	for id, was := range k.jobs {
		now, there := found[id]
		delete(found, id)
		be := was
		stays := !wanted[id] || d.makes(&be)
		switch {
		case there && wanted[id] && stays && same(&now, &be) == "", !there && !stays:
			done++
		case !there:
			t.Errorf("%s: job %d is gone", d.action, id)
		case same(&now, &was) != "":
			t.Errorf("%s: %s", d.action, same(&now, &was))
		}
	}
	if len(found) > 0 || done < told || all && done != counted.Matched {
		t.Errorf("%s: %d of %d jobs were done, of which was told %d, all: %v; %d are there that were not", d.action, done, counted.Matched, told, all, len(found))
	}
	k.operation(body) // does the rest
	found = k.list()
	for id := range wanted {
		be := k.jobs[id]
		if delete(k.jobs, id); d.makes(&be) {
			k.jobs[id] = be
		}
	}
	for id, be := range k.jobs {
		now, there := found[id]
		if why := same(&now, &be); !there || why != "" {
			t.Errorf("%s, once more: there is job %d: %v; %s", d.action, id, there, why)
		}
	}
	if len(found) != len(k.jobs) {
		t.Errorf("%s, once more: %d jobs, want %d", d.action, len(found), len(k.jobs))
	}
	return done, counted.Matched
}

// TestKillInOperations: an operation on many jobs is killed at any moment. Of what it was
// told as done all is kept, each job is as it was or as it was to be, no other is touched,
// and the same once more does the rest.
func TestKillInOperations(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	rounds := max(7, daemon.Amount(t, "POLYSTALKD_KILLS", 51)/4)
	k := &bulkKilling{
		t: t, rng: rand.New(rand.NewPCG(12, *daemon.Seed)), jobs: make(map[uint64]admin.Job),
		http: &http.Client{Timeout: daemon.Hang, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	dir := t.TempDir()
	args := []string{"-b", dir}
	k.start(args...)
	midway := 0
	for i := range rounds {
		k.puts(max(1, 12_000-len(k.jobs)))
		d := &bulkDeeds[i%len(bulkDeeds)]
		done, of := k.round(d, append(args, "--shards", []string{"1", "2", "4", "16"}[k.rng.IntN(4)])...)
		if t.Failed() {
			t.Fatalf("in round %d of %d", i, rounds)
		}
		if done > 0 && done < of {
			midway++
		}
	}
	t.Logf("%d kills, %d of them in the midst", rounds, midway)
	k.s.Crash()
}
