package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
	limit   time.Duration        // for the action in the scene's name, on the goals' machine; 0: none
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
	{name: "edits", play: requests(1, succeeds, func(int) [3]string {
		return [3]string{"PATCH", fmt.Sprintf("/api/v1/jobs/%d", 1+rand.IntN(min(1000, *jobs))), `{"pri":7}`}
	})},
	{name: "flush", prepare: (*actor).fillFlushed, play: (*actor).flush, limit: 50 * time.Millisecond},
	{name: "metrics", play: requests(1, succeeds, func(int) [3]string {
		return [3]string{"GET", []string{"/metrics", "/metrics/tubes", "/api/v1/tubes"}[rand.IntN(3)]}
	})},
	{name: "streams", play: visitors(2, time.Hour, 1<<16, func(i int) string {
		return get("/api/v1/events?topics=" + []string{"server,tubes&sort=-ready", "server,tubes,journal&sort=-oldest&match=*5*"}[i])
	})},
	{name: "flood", play: requests(40, func(code int) bool { return slices.Contains([]int{0, 200, 429, 503}, code) }, func(i int) [3]string {
		return [3]string{"GET", longPages[i%len(longPages)]}
	}), crowd: true},
	{name: "garbage", play: requests(4, func(code int) bool { return code == 0 || code/100 == 4 }, garbage), crowd: true},
	{name: "slow-readers", play: visitors(200, time.Hour, 64, func(i int) string { return strings.Repeat(get(longPages[i%len(longPages)]), 4) }), crowd: true},
	{name: "slow-streams", play: visitors(200, time.Hour, 1, func(i int) string {
		return get("/api/v1/events?topics=server,tubes&limit=1000&sort=-" + []string{"ready", "oldest", "total"}[i%3])
	}), crowd: true},
	{name: "idle", play: visitors(160, time.Hour, 1, func(int) string { return "" }), crowd: true},
	{name: "storm", play: visitors(4, 0, 1, func(int) string { return get("/livez") }), crowd: true},
	{name: "pipelines", play: visitors(20, time.Hour, 1<<16, func(int) string { return strings.Repeat(get("/livez"), 2000) }), crowd: true},
	{name: "halves", play: visitors(100, 250*time.Millisecond, 1, func(i int) string { return halves[i%len(halves)] }), crowd: true},
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }

// longPages have long answers, or expensive ones.
var longPages = []string{
	"/api/v1/tubes/backlog/jobs?order=oldest&state=ready&limit=1000&body=full", "/metrics", "/metrics/tubes", "/api/v1/jobs?limit=1000&body=full",
	"/api/v1/openapi.json", "/api/v1/tubes?sort=-ready", "/api/v1/jobs?contains=needle", "/api/v1/tubes/backlog/jobs?order=scan&state=buried", "/api/v1/jobs?state=buried",
}

// halves are requests that are never complete.
var halves = []string{
	"GET /api/v1/jobs HTTP/1.1\r\nHost: loc", "POST /api/v1/tubes/halves/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n{\"body\":\"half",
	"POST /api/v1/operations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\nffff\r\n{", "\x16\x03\x01\x02\x00\x01", "",
	"GET / HTTP/1.1\r\n" + strings.Repeat("X-Y: "+strings.Repeat("z", 100)+"\r\n", 150),
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

// crowd lets n members do the same again and again. member returns what it did.
func (a *actor) crowd(n int, member func(i int) (did string, err error)) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			for !a.over() && errs[i] == nil {
				start := time.Now()
				var did string
				did, errs[i] = member(i)
				a.did(did, start)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// visitors returns a play of n clients that connect again and again. Client i sends text(i)
// and reads size bytes every tenth of a second, for at most most, until the server closes. A
// client that was not answered waits before it connects again.
func visitors(n int, most time.Duration, size int64, text func(i int) string) func(a *actor) error {
	return func(a *actor) error {
		return a.crowd(n, func(i int) (string, error) {
			c, err := net.Dial("unix", *socket)
			if err != nil {
				time.Sleep(50 * time.Millisecond)
				return "refused", nil
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(min(most, time.Until(a.until))))
			if most == 0 {
				c.SetDeadline(time.Time{})
				io.WriteString(c, text(i))
				return "connections", nil
			}
			go io.WriteString(c, text(i))
			for read := int64(0); ; time.Sleep(100 * time.Millisecond) {
				n, err := io.CopyN(io.Discard, c, size)
				if read += n; err != nil && read > 0 {
					return "connections", nil
				} else if err != nil {
					time.Sleep(50 * time.Millisecond)
					return "unanswered", nil
				}
			}
		})
	}
}

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
			looked, shown := 0, 0
			for after, more := "", true; more; {
				part := time.Now()
				b, err := asks(c, "GET", path+"?limit=1000&"+query+after, "")
				if err != nil {
					return err
				}
				shown += bytes.Count(b, []byte(`"reserves_total"`))
				end := b[max(0, len(b)-500):]
				if m := lookedAt.FindSubmatch(end); m != nil {
					var n int
					fmt.Sscan(string(m[1]), &n)
					looked += n
				}
				m := nextPart.FindSubmatch(end)
				if more = m != nil; more {
					after = "&after=" + url.QueryEscape(string(m[1]))
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

// fillFlushed makes a tube that is as large as the backlog.
func (a *actor) fillFlushed() error {
	c := httpClient(*socket)
	b, err := asks(c, "POST", "/api/v1/operations", `{"action":"copy","select":{"tube":"backlog"},"to":"flushed"}`)
	for ; err == nil; time.Sleep(50 * time.Millisecond) {
		var op admin.Operation
		if err = json.Unmarshal(b, &op); err != nil {
			return err
		}
		if op.Problem != nil {
			return fmt.Errorf("copy of the backlog: %+v", op.Problem)
		}
		if op.State == "done" {
			return nil
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

func succeeds(code int) bool { return code/100 == 2 }

// requests returns a play of n clients that send requests {method, path, body} one after the
// other. want judges the status of an answer, 0 if the server ended the connection.
func requests(n int, want func(code int) bool, next func(i int) [3]string) func(a *actor) error {
	return func(a *actor) error {
		clients := make([]*http.Client, n)
		for i := range clients {
			clients[i] = httpClient(*socket)
		}
		return a.crowd(n, func(i int) (string, error) {
			r := next(i)
			code, b, err := ask(clients[i], r[0], r[1], r[2])
			if !want(code) {
				err = errors.Join(err, fmt.Errorf("%s %.100s: %d %.200s", r[0], r[1], code, b))
			} else if code == 0 {
				err = nil
			}
			return fmt.Sprintf("%s of status %d", r[0], code), err
		})
	}
}

// garbage returns a request that makes no sense. Its answer must be a 4xx.
func garbage(int) [3]string {
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		return string(b)
	}
	all := [][3]string{
		{"GET", "/api/v1/jobs?after=" + url.QueryEscape(noise(1+rand.IntN(200)))},
		{"GET", "/api/v1/tubes/backlog/jobs?order=oldest&state=ready&after=" + strings.Repeat("A", rand.IntN(5000))},
		{"GET", "/api/v1/jobs/" + url.PathEscape("x"+noise(rand.IntN(30)))},
		{"GET", "/api/v1/jobs/99999999999999999999999999"},
		{"DELETE", "/api/v1/jobs/-1"},
		{"GET", "/api/v1/jobs?contains=" + url.QueryEscape(noise(4000))},
		{"GET", "/api/v1/jobs?id_min=x&id_max=" + strings.Repeat(fmt.Sprint(rand.Uint64()), 15)},
		{"GET", "/api/v1/tubes?limit=0&match=" + url.QueryEscape(strings.Repeat("*a", 3000))},
		{"GET", "/api/v1/tubes/" + url.PathEscape(noise(500)) + "/jobs"},
		{"POST", "/api/v1/operations", noise(1000)},
		{"POST", "/api/v1/operations", `{"action":"delete","select":{"tube":"backlog","states":` + strings.Repeat("[", 5000) + "}}"},
		{"POST", "/api/v1/tubes/garbage/jobs", `{"body":` + strings.Repeat(`{"a":`, 3000)},
		{"PATCH", "/api/v1/jobs/1", `{"pri":1e999}`},
		{"GET", "/api/v1/" + strings.Repeat("../", 200) + "etc/passwd"},
	}
	return all[rand.IntN(len(all))]
}
