package http

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

func TestProbesSayHowFarTheStartIs(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, setup{dir: dir, unstarted: true, anonymous: access.Operate})
	a := w.do("GET", "/readyz", ask{}).wants(t, 503, "")
	expect(t, strings.HasPrefix(a.body, "fail\n") && strings.Contains(a.body, "the journal is being read"), "/readyz at the start: %q", a.body)
	life := w.srv.Operator().Life()
	life.Read(25, 100)
	w.do("GET", "/readyz", ask{}).has(t, "25 of 100 bytes")
	h := as[wire.Health](t, w.do("GET", "/readyz?verbose", ask{header: map[string]string{"Accept": "application/json"}}).wants(t, 503, ""))
	expect(t, h.Status == "fail" && h.State == "starting" && h.Progress != nil && *h.Progress == (wire.Progress{ReadBytes: 25, AllBytes: 100}) && len(h.Checks) == 3, "as JSON: %+v", h)
	w.do("GET", "/livez", ask{}).wants(t, 200, "")
	a = w.do("GET", "/metrics", ask{}).wants(t, 200, "")
	expect(t, strings.Contains(a.body, "polystalk_ready 0\n") && !strings.Contains(a.body, "polystalk_jobs{"), "/metrics at the start: %s", a.body)
	w.start()
	defer w.srv.Shutdown(context.Background())
	a = w.do("GET", "/readyz", ask{}).wants(t, 200, "")
	expect(t, a.body == "ok\n", "/readyz: %q", a.body)
	w.do("GET", "/readyz?verbose", ask{}).has(t, "[ok] journal\n", "state: serving\n")
	w.do("GET", "/livez?verbose", ask{}).has(t, "[ok] loops\n", "[ok] shards\n")
}

// TestProgressOfAJournal: what is read is told in bytes, up to all of them.
func TestProgressOfAJournal(t *testing.T) {
	dir := t.TempDir()
	first := newWorld(t, setup{dir: dir, unstarted: true})
	first.start()
	got := first.srv.Operator().Life().Progress()
	expect(t, got == nil, "progress of nothing: %+v", got)
	noErr(t, first.srv.Shutdown(context.Background()))
	size := int64(0)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	noErr(t, err)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() && info.Size() >= 1<<20 {
			size += info.Size()
		}
	}
	second := newWorld(t, setup{dir: dir, unstarted: true})
	second.start()
	defer second.srv.Shutdown(context.Background())
	read, all := second.srv.Operator().Life().Bytes()
	expect(t, read == all && all != 0 && all == size, "%d of %d bytes were read, the segments have %d", read, all, size)
}

// TestNeitherReadyNorAliveWhenTheJournalHasFailed: such a process ends; if it hangs it is to be killed.
func TestNeitherReadyNorAliveWhenTheJournalHasFailed(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	w.srv.Drain()
	w.do("GET", "/readyz", ask{}).wants(t, 200, "").has(t, "draining")
	w.srv.Operator().Life().Fail(errors.New("the disk has gone"))
	w.do("GET", "/readyz", ask{}).wants(t, 503, "").has(t, "the disk has gone")
	w.do("GET", "/livez", ask{}).wants(t, 503, "")
}

func TestNotReadyWhenStopping(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	ctx, done, err := w.web.background()
	noErr(t, err)
	stopped := make(chan time.Duration)
	go func() {
		start := time.Now()
		w.web.Stop(t.Context())
		stopped <- time.Since(start)
	}()
	for { // until it stops
		_, done, err := w.web.background()
		if err != nil {
			break
		}
		done()
		time.Sleep(time.Millisecond)
	}
	time.Sleep(30 * time.Millisecond)
	w.do("GET", "/readyz", ask{}).wants(t, 503, "")
	w.do("GET", "/livez", ask{}).wants(t, 200, "")
	done()
	took := <-stopped
	expect(t, took >= 30*time.Millisecond, "it did not wait for what was under way: %v", took)
	expect(t, ctx.Err() != nil, "what is under way is not told")
}
