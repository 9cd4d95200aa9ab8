package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"polystalk/codec/admin"
)

// A scene is what an operator, or somebody worse, does.
type act struct {
	name string
	play func(a *actor) error
	// prepare, if not nil, has the server have what the scene needs, before it begins.
	prepare func(a *actor) error
	// longest is how long each whole of a kind may take on the machine that the goals are
	// for; none: nothing is asked of it.
	longest map[string]time.Duration
	control bool // it is what others are compared with
}

var scenes = []act{
	{name: "control", play: (*actor).control, control: true},
	{name: "hog", play: (*actor).hog, control: true},
	{name: "scan", play: (*actor).scan, longest: map[string]time.Duration{"scan": time.Second}},
	{name: "rows", play: (*actor).rows},
	{name: "search", play: (*actor).search, longest: map[string]time.Duration{"search": 3 * time.Second}},
	{name: "oldest", play: (*actor).oldest},
	{name: "edits", play: (*actor).edits},
	{name: "flush", prepare: (*actor).fillFlushed, play: (*actor).flush, longest: map[string]time.Duration{"flush": 50 * time.Millisecond}},
	{name: "metrics", play: (*actor).metrics},
	{name: "streams", play: (*actor).streams},
	{name: "slow-readers", play: (*actor).slowReaders},
	{name: "slow-streams", play: (*actor).slowStreams},
	{name: "flood", play: (*actor).flood},
	{name: "garbage", play: (*actor).garbage},
	{name: "idle", play: (*actor).idle},
	{name: "storm", play: (*actor).storm},
	{name: "pipelines", play: (*actor).pipelines},
	{name: "halves", play: (*actor).halves},
	{name: "large-bodies", play: (*actor).largeBodies},
}

// niceness is that of the processes of crowds.
var niceness = map[string]int{"slow-readers": 19, "slow-streams": 19, "flood": 19, "garbage": 19, "idle": 19, "storm": 19, "pipelines": 19, "hog": 19, "halves": 19, "large-bodies": 19}

// An actor plays a scene.
type actor struct {
	socket string
	until  time.Time // when it may end

	mu     sync.Mutex
	report report
}

// play plays a scene: a line says that it begins, and another what came of it.
func play(name, socket string) {
	a := &actor{socket: socket, report: report{Did: map[string]int{}, Longest: map[string]time.Duration{}}}
	i := slices.IndexFunc(scenes, func(sc act) bool { return sc.name == name })
	if i < 0 {
		fmt.Fprintf(os.Stderr, "operators: there is no scene %q\n", name)
		os.Exit(2)
	}
	var err error
	if scenes[i].prepare != nil {
		err = scenes[i].prepare(a)
	}
	fmt.Println(begins)
	start := time.Now()
	a.until = start.Add(*length)
	if err == nil {
		err = scenes[i].play(a)
	}
	if err != nil {
		a.report.Err = err.Error()
	}
	a.report.Took = time.Since(start)
	json.NewEncoder(os.Stdout).Encode(a.report)
}

// begins is the line that a process writes when its scene begins.
const begins = "begins"

// did counts something that has taken so long.
func (a *actor) did(what string, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Did[what]++
	a.report.Longest[what] = max(a.report.Longest[what], time.Since(since))
}

// over reports whether the scene may end.
func (a *actor) over() bool { return time.Now().After(a.until) }

// client is one that keeps its connections.
func client(socket string) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		MaxIdleConnsPerHost: 16, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
}

func get(c *http.Client, path string) (code int, body []byte, err error) {
	resp, err := c.Get("http://localhost" + path)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// walk asks for all parts of a list, and counts jobs that were looked at and shown.
func (a *actor) walk(c *http.Client, path string, q url.Values) (looked, shown int, err error) {
	for {
		start := time.Now()
		code, body, err := get(c, path+"?"+q.Encode())
		if err != nil {
			return looked, shown, err
		}
		if code != http.StatusOK {
			return looked, shown, fmt.Errorf("%s?%s: %d %.200s", path, q.Encode(), code, body)
		}
		// What the parts tell is read by itself: to decode each row is this process's work,
		// and there are few processors.
		looked += number(body, "looked_at")
		shown += bytes.Count(body, []byte(`"reserves_total"`))
		next := text(body, "next")
		if next == "" {
			return looked, shown, nil
		}
		q.Set("after", next)
		a.did("parts", start)
	}
}

// number is the last member of that name, which is a number.
func number(b []byte, name string) (n int) {
	if i := bytes.LastIndex(b, []byte(`"`+name+`":`)); i >= 0 {
		fmt.Sscanf(string(b[i+len(name)+3:min(len(b), i+len(name)+30)]), "%d", &n)
	}
	return n
}

// text is the last member of that name, which is a string without escapes.
func text(b []byte, name string) string {
	i := bytes.LastIndex(b, []byte(`"`+name+`":"`))
	if i < 0 {
		return ""
	}
	s, _, _ := bytes.Cut(b[i+len(name)+4:], []byte(`"`))
	return string(s)
}

// each walks lists until the scene may end: each must look at all jobs, or show them.
func (a *actor) each(what string, path string, q url.Values, shows bool) error {
	c := client(a.socket)
	for !a.over() || a.report.Did[what] == 0 {
		start := time.Now()
		with := url.Values{}
		maps.Copy(with, q)
		looked, shown, err := a.walk(c, path, with)
		if err != nil {
			return err
		}
		if looked < *jobs && !shows || shows && shown < *jobs {
			return fmt.Errorf("%d jobs were looked at, %d shown", looked, shown)
		}
		a.did(what, start)
	}
	return nil
}

// scan looks at all jobs, of which none is wanted.
func (a *actor) scan() error {
	return a.each("scan", "/api/v1/tubes/backlog/jobs", url.Values{"order": {"scan"}, "state": {"buried"}, "limit": {"1000"}}, false)
}

// rows shows all jobs.
func (a *actor) rows() error {
	return a.each("rows", "/api/v1/tubes/backlog/jobs", url.Values{"order": {"scan"}, "limit": {"1000"}}, true)
}

// search searches all bodies, in vain.
func (a *actor) search() error {
	return a.each("search", "/api/v1/jobs", url.Values{"contains": {"needle"}, "limit": {"1000"}}, false)
}

// oldest shows all jobs by age.
func (a *actor) oldest() error {
	return a.each("oldest", "/api/v1/tubes/backlog/jobs", url.Values{"order": {"oldest"}, "state": {"ready"}, "limit": {"1000"}}, true)
}

// edits sets priorities of jobs of the backlog, one after the other.
func (a *actor) edits() error {
	c := client(a.socket)
	code, b, err := get(c, "/api/v1/tubes/backlog/jobs?order=oldest&state=ready&limit=1000")
	if err != nil || code != http.StatusOK {
		return fmt.Errorf("%d %w", code, err)
	}
	var list admin.Jobs
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for i := 0; !a.over(); i++ {
		start := time.Now()
		req, _ := http.NewRequest("PATCH", fmt.Sprintf("http://localhost/api/v1/jobs/%d", list.Jobs[i%len(list.Jobs)].ID), bytes.NewReader([]byte(`{"pri":7}`)))
		req.Header.Set("Content-Type", "application/json")
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			return fmt.Errorf("PATCH: %s", resp.Status)
		}
		a.did("edits", start)
	}
	return nil
}

// metrics scrapes all that there is.
func (a *actor) metrics() error {
	c := client(a.socket)
	for !a.over() {
		for _, path := range []string{"/metrics", "/metrics/tubes", "/api/v1/tubes"} {
			start := time.Now()
			if code, _, err := get(c, path); err != nil || code != http.StatusOK {
				return fmt.Errorf("%s: %d %w", path, code, err)
			}
			a.did(path, start)
		}
	}
	return nil
}
