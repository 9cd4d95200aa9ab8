package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"polystalk/codec/admin"
)

// A scene is what an operator does, or a crowd of hostile users.
type scene struct {
	name    string
	play    func(a *actor) error
	prepare func(a *actor) error // before it begins; nil: nothing
	limit   time.Duration        // for what the scene is called after, on the machine of the goals; 0: none
	control bool                 // other scenes are compared with it
	crowd   bool                 // its process has the lowest priority
}

var scenes = []scene{
	{name: "control", play: func(a *actor) error { return a.spin(2 * time.Millisecond) }, control: true},
	{name: "hog", play: func(a *actor) error { return a.spin(0) }, control: true, crowd: true},
	{name: "scan", play: walks("scan", "/api/v1/tubes/backlog/jobs", "order=scan&state=buried", false), limit: time.Second},
	{name: "rows", play: walks("rows", "/api/v1/tubes/backlog/jobs", "order=scan", true)},
	{name: "search", play: walks("search", "/api/v1/jobs", "contains=needle", false), limit: 3 * time.Second},
	{name: "oldest", play: walks("oldest", "/api/v1/tubes/backlog/jobs", "order=oldest&state=ready", true)},
	{name: "edits", play: (*actor).edits},
	{name: "flush", prepare: (*actor).fillFlushed, play: (*actor).flush, limit: 50 * time.Millisecond},
	{name: "metrics", play: func(a *actor) error { return a.scrape(0, "/metrics", "/metrics/tubes", "/api/v1/tubes") }},
	{name: "streams", play: (*actor).streams},
	{name: "slow-readers", play: (*actor).slowReaders, crowd: true},
	{name: "slow-streams", play: (*actor).slowStreams, crowd: true},
	{name: "flood", play: (*actor).flood, crowd: true},
	{name: "garbage", play: (*actor).garbage, crowd: true},
	{name: "idle", play: (*actor).idle, crowd: true},
	{name: "storm", play: (*actor).storm, crowd: true},
	{name: "pipelines", play: (*actor).pipelines, crowd: true},
	{name: "halves", play: (*actor).halves, crowd: true},
	{name: "large-bodies", play: (*actor).largeBodies, crowd: true},
}

// An actor plays a scene, until until at least.
type actor struct {
	until time.Time
	mu    sync.Mutex
	told  told
}

// play plays a scene: a line says that it begins, and JSON what it did.
func play(name string) error {
	i := slices.IndexFunc(scenes, func(sc scene) bool { return sc.name == name })
	if i < 0 {
		return fmt.Errorf("there is no scene %q", name)
	}
	a := &actor{told: told{Did: map[string]int{}, Longest: map[string]time.Duration{}}}
	var err error
	if scenes[i].prepare != nil {
		err = scenes[i].prepare(a)
	}
	fmt.Println("begins")
	a.until = time.Now().Add(*length)
	if err == nil {
		err = scenes[i].play(a)
	}
	if err != nil {
		a.told.Err = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(a.told)
}

// did counts something that has taken since then.
func (a *actor) did(what string, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told.Did[what]++
	a.told.Longest[what] = max(a.told.Longest[what], time.Since(since))
}

func (a *actor) over() bool { return time.Now().After(a.until) }

// httpClient returns a client that keeps its connections.
func httpClient(socket string) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		MaxIdleConnsPerHost: 16, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
}

// ask sends a request and reads the whole answer. A body is JSON.
func ask(c *http.Client, method, path, body string) (code int, answer []byte, err error) {
	req, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "" {
		err = errors.New("429 without Retry-After")
	}
	return resp.StatusCode, answer, err
}

// asks is ask with an answer that must be a success.
func asks(c *http.Client, method, path, body string) ([]byte, error) {
	code, answer, err := ask(c, method, path, body)
	if err == nil && code/100 != 2 {
		err = fmt.Errorf("%s %s: %d %.200s", method, path, code, answer)
	}
	return answer, err
}

// spin occupies a processor for a millisecond, again and again, with a rest between.
func (a *actor) spin(rest time.Duration) error {
	return a.crowd(1, func(int) (string, error) {
		for start := time.Now(); time.Since(start) < time.Millisecond; {
		}
		time.Sleep(rest)
		return "milliseconds", nil
	})
}

var (
	lookedAt = regexp.MustCompile(`"looked_at":(\d+)`)
	nextPart = regexp.MustCompile(`"next":"([^"]*)"`)
)

// walks returns a play that walks a list, as often as there is time for: it must look at all
// jobs, or show them. The parts are not decoded: that would be this process's work, and there
// are few processors.
func walks(what, path, query string, shows bool) func(a *actor) error {
	return func(a *actor) error {
		c := httpClient(*socket)
		for !a.over() || a.told.Did[what] == 0 {
			start := time.Now()
			q, err := url.ParseQuery(query + "&limit=1000")
			if err != nil {
				return err
			}
			looked, shown := 0, 0
			for more := true; more; {
				part := time.Now()
				b, err := asks(c, "GET", path+"?"+q.Encode(), "")
				if err != nil {
					return err
				}
				shown += bytes.Count(b, []byte(`"reserves_total"`))
				if m := lookedAt.FindSubmatch(b[max(0, len(b)-500):]); m != nil {
					var n int
					fmt.Sscan(string(m[1]), &n)
					looked += n
				}
				if m := nextPart.FindSubmatch(b[max(0, len(b)-500):]); m != nil {
					q.Set("after", string(m[1]))
				} else {
					more = false
				}
				a.did("parts", part)
			}
			if looked < *jobs && !shows || shown < *jobs && shows {
				return fmt.Errorf("%d jobs were looked at, %d shown", looked, shown)
			}
			a.did(what, start)
		}
		return nil
	}
}

// edits sets priorities of jobs of the backlog, one after the other.
func (a *actor) edits() error {
	c := httpClient(*socket)
	b, err := asks(c, "GET", "/api/v1/tubes/backlog/jobs?order=oldest&state=ready&limit=1000", "")
	if err != nil {
		return err
	}
	var list admin.Jobs
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	i := 0
	return a.crowd(1, func(int) (string, error) {
		i++
		_, err := asks(c, "PATCH", fmt.Sprintf("/api/v1/jobs/%d", list.Jobs[i%len(list.Jobs)].ID), `{"pri":7}`)
		return "edits", err
	})
}

// fillFlushed makes a tube that is as large as the backlog.
func (a *actor) fillFlushed() error {
	c := httpClient(*socket)
	b, err := asks(c, "POST", "/api/v1/operations", `{"action":"copy","select":{"tube":"backlog"},"to":"flushed"}`)
	for ; err == nil; time.Sleep(50 * time.Millisecond) {
		var op admin.Operation
		if err = json.Unmarshal(b, &op); err != nil {
			break
		}
		if op.State == "done" || op.Problem != nil {
			if op.Problem != nil {
				err = fmt.Errorf("copy of the backlog: %+v", op.Problem)
			}
			return err
		}
		b, err = asks(c, "GET", fmt.Sprintf("/api/v1/operations/%d", op.ID), "")
	}
	return err
}

// flush empties that tube once; the server frees the memory meanwhile.
func (a *actor) flush() error {
	start := time.Now()
	b, err := asks(httpClient(*socket), "DELETE", "/api/v1/tubes/flushed/jobs?state=ready", "")
	if err != nil {
		return err
	}
	a.did("flush", start)
	var f admin.Flushed
	if err := json.Unmarshal(b, &f); err != nil || f.Jobs != uint64(*jobs) {
		return fmt.Errorf("%d of %d jobs were flushed: %v", f.Jobs, *jobs, err)
	}
	time.Sleep(time.Until(a.until))
	return nil
}

// scrape reads pages again and again, with a rest between.
func (a *actor) scrape(rest time.Duration, paths ...string) error {
	c := httpClient(*socket)
	for !a.over() {
		for _, path := range paths {
			start := time.Now()
			if _, err := asks(c, "GET", path, ""); err != nil {
				return err
			}
			a.did(path, start)
		}
		time.Sleep(min(rest, time.Until(a.until)))
	}
	return nil
}

// streams are two open pages, of the server and of lists of tubes, and a scrape every five
// seconds.
func (a *actor) streams() error {
	views := []string{"topics=server,tubes&sort=-ready", "topics=server,tubes,journal&sort=-oldest&match=*5*"}
	return a.crowd(3, func(i int) (string, error) {
		if i == len(views) {
			return "scraper", a.scrape(5*time.Second, "/metrics")
		}
		c := httpClient(*socket)
		c.Timeout = 0
		resp, err := c.Get("http://localhost/api/v1/events?" + views[i])
		if err != nil || resp.StatusCode != http.StatusOK {
			return "", fmt.Errorf("%s: %v %v", views[i], resp, err)
		}
		defer resp.Body.Close()
		for r := bufio.NewReader(resp.Body); !a.over() && err == nil; {
			start := time.Now()
			var line string
			line, err = r.ReadString('\n')
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				a.did("waits for an event "+strings.TrimSpace(name), start)
			}
		}
		return "streams", err
	})
}
