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
	if !strings.HasPrefix(a.body, "fail\n") || !strings.Contains(a.body, "the journal is being read") {
		t.Errorf("/readyz at the start: %q", a.body)
	}
	life := w.srv.Operator().Life()
	life.Read(25, 100)
	a = w.do("GET", "/readyz", ask{})
	if !strings.Contains(a.body, "25 of 100 bytes") {
		t.Errorf("/readyz in the middle: %q", a.body)
	}
	var h wire.Health
	w.do("GET", "/readyz?verbose", ask{header: map[string]string{"Accept": "application/json"}}).wants(t, 503, "").read(t, &h)
	if h.Status != "fail" || h.State != "starting" || h.Progress == nil || *h.Progress != (wire.Progress{ReadBytes: 25, AllBytes: 100}) || len(h.Checks) != 3 {
		t.Errorf("as JSON: %+v", h)
	}
	w.do("GET", "/livez", ask{}).wants(t, 200, "")
	a = w.do("GET", "/metrics", ask{}).wants(t, 200, "")
	if !strings.Contains(a.body, "polystalk_ready 0\n") || strings.Contains(a.body, "polystalk_jobs{") {
		t.Errorf("/metrics at the start: %s", a.body)
	}
	w.start()
	defer w.srv.Shutdown(context.Background())
	a = w.do("GET", "/readyz", ask{}).wants(t, 200, "")
	if a.body != "ok\n" {
		t.Errorf("/readyz: %q", a.body)
	}
	if a = w.do("GET", "/readyz?verbose", ask{}); !strings.Contains(a.body, "[ok] journal\n") || !strings.Contains(a.body, "state: serving\n") {
		t.Errorf("/readyz?verbose: %q", a.body)
	}
	if a = w.do("GET", "/livez?verbose", ask{}); !strings.Contains(a.body, "[ok] loops\n") || !strings.Contains(a.body, "[ok] shards\n") {
		t.Errorf("/livez?verbose: %q", a.body)
	}
}

// TestProgressOfAJournal: what is read is told in bytes, up to all of them.
func TestProgressOfAJournal(t *testing.T) {
	dir := t.TempDir()
	first := newWorld(t, setup{dir: dir, unstarted: true})
	first.start()
	if got := first.srv.Operator().Life().Progress(); got != nil {
		t.Errorf("progress of nothing: %+v", got)
	}
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
	if read != all || all == 0 || all != size {
		t.Errorf("%d of %d bytes were read, the segments have %d", read, all, size)
	}
}

// TestNeitherReadyNorAliveWhenTheJournalHasFailed: such a process ends; if it hangs it is to be killed.
func TestNeitherReadyNorAliveWhenTheJournalHasFailed(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	w.srv.Drain()
	a := w.do("GET", "/readyz", ask{}).wants(t, 200, "")
	if !strings.Contains(a.body, "draining") {
		t.Errorf("a drain is not named: %q", a.body)
	}
	w.srv.Operator().Life().Fail(errors.New("the disk has gone"))
	a = w.do("GET", "/readyz", ask{}).wants(t, 503, "")
	if !strings.Contains(a.body, "the disk has gone") {
		t.Errorf("%q", a.body)
	}
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
	if took := <-stopped; took < 30*time.Millisecond {
		t.Errorf("it did not wait for what was under way: %v", took)
	}
	if ctx.Err() == nil {
		t.Error("what is under way is not told")
	}
}
