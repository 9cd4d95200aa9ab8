package http

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"polystalk/router/access"
	"polystalk/shard/commit"
)

// targets returns paths of all GET routes that only the leader of a cluster may answer.
func targets() (list []string) {
	fill := strings.NewReplacer("{tube}", "default", "{id}", "1")
	for _, e := range testRoutes {
		path, get := strings.CutPrefix(e.pattern, "GET ")
		if own := e.flags&own != 0 && e.flags&early != 0; get && (!own || path == "/leader") {
			list = append(list, fill.Replace(path))
		}
	}
	return list
}

// TestNothingIsReadFromALeaderWithoutALease: it answers once a commit shows that it still leads. If
// another server leads, the answer is a problem, and event streams end.
func TestNothingIsReadFromALeaderWithoutALease(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Admin, noTokens: true, dir: t.TempDir(), unstarted: true, options: func(o *Options) { o.HistoryTubes = 10 }})
	f, err := w.srv.Follow()
	noErr(t, err)
	var least atomic.Pointer[func() uint64]
	set := func(f func() uint64) { least.Store(&f) }
	set(func() uint64 { return 0 })
	noErr(t, f.Lead(func() uint64 { return (*least.Load())() }))
	t.Cleanup(func() { w.srv.Shutdown(t.Context()) })
	w.do("POST", "/api/v1/tubes/default/jobs", ask{body: "x", header: octets}).wants(t, 201, "")

	var waits atomic.Int64
	set(func() uint64 { // a leader that needs a commit
		waits.Add(1)
		n := f.Journal().Begun() + 1
		f.Journal().Wake()
		return n
	})
	for _, target := range targets() {
		if strings.HasSuffix(target, "/events") || strings.Contains(target, "/connections/") || strings.Contains(target, "/operations/") {
			continue // a stream, or a GET without the leader
		}
		was := waits.Load()
		w.do("GET", target, ask{}).wants(t, 200, "")
		expect(t, waits.Load() != was, "%s is answered without a commit", target)
	}

	// It may lose its lease while it reads a request. Then it must not answer 404 either.
	for request, body := range map[string]string{
		"POST /api/v1/tubes/nothing/kick": `{"count":1}`, "PUT /api/v1/tubes/nothing/pause": `{"seconds":1}`,
		"POST /api/v1/jobs/999/move": `{"to":"default"}`, "PATCH /api/v1/jobs/999": `{"pri":1}`,
	} {
		lost := least.Load()
		set(func() uint64 { return 0 })
		conn := w.dial()
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", request, len(body))
		r := bufio.NewReader(conn)
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatal(request, line, err)
		}
		r.ReadString('\n')
		was := waits.Load()
		least.Store(lost)
		io.WriteString(conn, body)
		res, err := http.ReadResponse(r, nil)
		expect(t, err == nil && res.StatusCode == 404 && waits.Load() != was, "%s is answered without a commit: %v %v", request, res, err)
	}

	// A read is confirmed after it has read, not only before.
	var confirmed atomic.Int64
	set(func() uint64 { confirmed.Add(1); return 0 })
	for _, target := range []string{"/api/v1/tubes/default", "/api/v1/jobs/1", "/api/v1/jobs/999"} {
		confirmed.Store(0)
		w.do("GET", target, ask{})
		n := confirmed.Load()
		expect(t, n >= 2, "%s is confirmed %d times", target, n)
	}

	var asked, answered atomic.Int64
	set(func() uint64 { asked.Add(1); return 1 << 60 }) // a leader that gets no commit
	var all sync.WaitGroup
	for _, target := range targets() {
		all.Go(func() {
			a := w.do("GET", target, ask{})
			answered.Add(1)
			a.wants(t, 503, "")
			expect(t, target == "/leader" || strings.Contains(a.body, "/problems/following"), "%s: %s", target, a.body)
		})
	}
	await(t, "most wait", func() bool { return asked.Load() > int64(len(targets())/2) }) // some wait for each other
	n := answered.Load()
	expect(t, n <= 0, "%d are answered meanwhile", n)
	w.srv.Fail(&commit.Failure{Cause: commit.Deposed, Err: errors.New("another one leads")})
	all.Wait()
	_, err = w.web.render(t.Context(), nil, nil)
	expect(t, err != nil, "a stream of events goes on")
	w.do("GET", "/livez", ask{}).wants(t, 200, "") // the process restarts
	w.do("GET", "/readyz", ask{}).wants(t, 503, "")
	a := w.do("GET", "/metrics", ask{}).wants(t, 200, "")
	expect(t, !strings.Contains(a.body, "polystalk_jobs{") && strings.Contains(a.body, "polystalk_ready 0"), "the metrics tell of jobs: %s", a.body)
}
