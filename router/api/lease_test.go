package api

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"polystalk/router/access"
	"polystalk/router/web"
	"polystalk/shard/commit"
)

// targets are all paths of routes that GET what the leader of a cluster alone may tell.
func targets() (list []string) {
	fill := strings.NewReplacer("{tube}", "default", "{id}", "1")
	for _, e := range table {
		path, get := strings.CutPrefix(e.pattern, "GET ")
		if own := e.flags&web.Own != 0 && e.flags&web.Early != 0; get && (!own || path == "/leader") {
			list = append(list, fill.Replace(path))
		}
	}
	return list
}

// TestNothingIsReadFromALeaderWithoutALease: it answers once a commit shows that it leads still; if
// another server leads, with a problem. A stream of events ends then.
func TestNothingIsReadFromALeaderWithoutALease(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Admin, noTokens: true, dir: t.TempDir(), unstarted: true, options: func(o *Options) { o.HistoryTubes = 10 }})
	f, err := w.srv.Follow()
	if err != nil {
		t.Fatal(err)
	}
	var least atomic.Pointer[func() uint64]
	set := func(f func() uint64) { least.Store(&f) }
	set(func() uint64 { return 0 })
	if err := f.Lead(func() uint64 { return (*least.Load())() }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.srv.Shutdown(t.Context()) })
	w.do("POST", "/api/v1/tubes/default/jobs", ask{body: "x", header: map[string]string{"Content-Type": "application/octet-stream"}}).wants(t, 201, "")

	var waits atomic.Int64
	set(func() uint64 { // as of a leader that needs a commit
		waits.Add(1)
		n := f.Journal().Begun() + 1
		f.Journal().Wake()
		return n
	})
	for _, target := range targets() {
		if strings.HasSuffix(target, "/events") || strings.Contains(target, "/connections/") || strings.Contains(target, "/operations/") {
			continue // they have no end, or there is none
		}
		was := waits.Load()
		w.do("GET", target, ask{}).wants(t, 200, "")
		if waits.Load() == was {
			t.Errorf("%s is answered without a commit", target)
		}
	}

	var asked, answered atomic.Int64
	set(func() uint64 { asked.Add(1); return 1 << 60 }) // as of one that gets none
	var all sync.WaitGroup
	for _, target := range targets() {
		all.Go(func() {
			a := w.do("GET", target, ask{})
			answered.Add(1)
			a.wants(t, 503, "")
			if target != "/leader" && !strings.Contains(a.body, "/problems/following") {
				t.Errorf("%s: %s", target, a.body)
			}
		})
	}
	await(t, "most wait", func() bool { return asked.Load() > int64(len(targets())/2) }) // some wait for each other
	if n := answered.Load(); n > 0 {
		t.Errorf("%d are answered meanwhile", n)
	}
	w.srv.Fail(&commit.Failure{Cause: commit.Deposed, Err: errors.New("another one leads")})
	all.Wait()
	if _, err := w.web.render(t.Context(), nil, nil); err == nil {
		t.Error("a stream of events goes on")
	}
	w.do("GET", "/livez", ask{}).wants(t, 200, "") // the process begins anew
	w.do("GET", "/readyz", ask{}).wants(t, 503, "")
	if a := w.do("GET", "/metrics", ask{}).wants(t, 200, ""); strings.Contains(a.body, "polystalk_jobs{") || !strings.Contains(a.body, "polystalk_ready 0") {
		t.Errorf("the metrics tell of jobs: %s", a.body)
	}
}
