package e2e

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalk/client"
)

// TestInterruptedEditor: the keys that interrupt are the editor's while it runs, and so is what
// was written in it.
func TestInterruptedEditor(t *testing.T) {
	p, _ := polystalkd(t)
	p.in = "before"
	p.must(client.OK, "put", "mail")
	dir := t.TempDir()
	script, begun, goOn := filepath.Join(dir, "editor"), filepath.Join(dir, "begun"), filepath.Join(dir, "go-on")
	text := "#!/bin/sh\ntouch " + begun + "\nwhile [ ! -e " + goOn + " ]; do sleep 0.05; done\nprintf after >\"$1\"\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for there := false; !there && t.Context().Err() == nil; time.Sleep(10 * time.Millisecond) {
			_, err := os.Stat(begun)
			there = err == nil
		}
		cancel()
		_ = os.WriteFile(goOn, nil, 0o600)
	}()
	p.env = map[string]string{"EDITOR": script}
	if o := p.within(ctx, "edit", "1", "--editor"); o.code != client.OK {
		t.Errorf("%d: %q", o.code, o.stderr)
	}
	if got := p.must(client.OK, "body", "1").stdout; got != "after" {
		t.Errorf("the body is %q", got)
	}
}

// TestInterruptedExport: it is said that it was interrupted, and not that the disk has failed.
func TestInterruptedExport(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/jobs") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jobs":{"ready":5}}`)
			return
		}
		cancel()
		<-r.Context().Done()
	}))
	defer h.Close()
	p := &program{t: t, server: h.URL}
	o := p.within(ctx, "export", "mail", "--file", filepath.Join(t.TempDir(), "jobs"))
	if o.code != client.NotDone || !strings.Contains(o.stderr, "interrupted") {
		t.Errorf("%d: %q", o.code, o.stderr)
	}
}

// TestInterruptedLook: nothing was done that could stay done.
func TestInterruptedLook(t *testing.T) {
	for args, want := range map[string]string{
		"cluster status":     "polystalk: interrupted\n",
		"stats":              "polystalk: interrupted\n",
		"health":             "polystalk: interrupted\n",
		"cluster remove one": "polystalk: interrupted: what was done stays done\n",
	} {
		t.Run(args, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			h := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				cancel()
				<-r.Context().Done()
			}))
			defer h.Close()
			p := &program{t: t, server: h.URL}
			if o := p.within(ctx, strings.Fields(args)...); o.code != client.NotDone || o.stderr != want {
				t.Errorf("%d: %q, want %q", o.code, o.stderr, want)
			}
		})
	}
}
