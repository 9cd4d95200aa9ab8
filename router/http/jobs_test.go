package http

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// putOne puts a job by HTTP, and returns its path.
func (w *world) putOne(a ask, query string) string {
	w.t.Helper()
	var put wire.Put
	got := w.do("POST", "/api/v1/tubes/mail/jobs"+query, a).wants(w.t, 201, "")
	got.read(w.t, &put)
	loc := got.header.Get("Location")
	expect(w.t, loc == fmt.Sprintf("../../jobs/%d", put.ID), "Location %q", loc)
	return fmt.Sprintf("/api/v1/jobs/%d", put.ID)
}

func TestJobsArePutAndShown(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), maxJob: 300_000})
	large := strings.Repeat("0123456789", 20_000)
	for _, tt := range []struct {
		ask   ask
		query string
		want  wire.Job
		body  string
	}{
		{ask{json: true, body: `{}`}, "", wire.Job{State: "ready", TTRSeconds: 60}, ""},
		{ask{json: true, body: `{"pri":5,"ttr_seconds":7,"body":"hello"}`}, "", wire.Job{State: "ready", Pri: 5, TTRSeconds: 7}, "hello"},
		{ask{json: true, body: `{"ttr_seconds":0,"delay_seconds":100,"body_base64":"/wA="}`}, "", wire.Job{State: "delayed", TTRSeconds: 1, DelaySeconds: 100}, "\xff\x00"},
		{ask{header: octets, body: "raw\r\n\x00"}, "?pri=4294967295&ttr=9", wire.Job{State: "ready", Pri: 1<<32 - 1, TTRSeconds: 9}, "raw\r\n\x00"},
		{ask{header: octets, body: large}, "?delay=50", wire.Job{State: "delayed", DelaySeconds: 50, TTRSeconds: 60}, large},
		{ask{json: true, body: `{"body":"` + large + `"}`}, "", wire.Job{State: "ready", TTRSeconds: 60}, large},
	} {
		path := w.putOne(tt.ask, tt.query)
		got := get[wire.Job](w, path)
		tt.want.ID, tt.want.Tube, tt.want.Path = got.ID, "mail", "mail"
		expect(t, got.AgeSeconds <= 30 && got.LeftSeconds <= float64(tt.want.DelaySeconds) && got.StateSeconds <= got.AgeSeconds+0.001 && got.Size == len(tt.body), "%+v", got)
		got.AgeSeconds, got.StateSeconds, got.LeftSeconds, got.Size = 0, 0, 0, 0
		expect(t, got == tt.want, "%+v, want %+v", got, tt.want)
		a := w.do("GET", path+"/body", ask{}).wants(t, 200, "")
		if a.body != tt.body || a.header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment;") {
			t.Errorf("the body has %d bytes, want %d: %v", len(a.body), len(tt.body), a.header)
		}
		w.do("GET", path+"?body=preview", ask{}).wants(t, 200, "").read(t, &got)
		expect(t, got.Size == len(tt.body) && got.Truncated == (len(tt.body) > int(bodyBytes[access.Preview])), "the preview: %+v", got.Content)
		w.do("GET", path+"?body=full", ask{}).wants(t, 200, "").read(t, &got)
		text := got.Text
		expect(t, (text == nil || *text == tt.body) && (text == nil) == (got.Base64 != nil), "the whole body: %+v", got.Content)
		w.do("DELETE", path, ask{}).wants(t, 204, "")
		w.do("GET", path, ask{}).wants(t, 404, "not-found")
		w.do("GET", path+"/body", ask{}).wants(t, 404, "not-found")
		w.do("DELETE", path, ask{}).wants(t, 404, "not-found")
		w.do("POST", path+"/kick", ask{}).wants(t, 404, "not-found")
	}
}

// TestAnsweredChangesAreKept starts a second server from a copy of the journal, taken after the
// answers: the copy shows what a crash would leave.
func TestAnsweredChangesAreKept(t *testing.T) {
	dir, crashed := t.TempDir(), t.TempDir()
	w := newWorld(t, setup{anonymous: access.Operate, dir: dir})
	kept := w.putOne(ask{json: true, body: `{"body":"kept"}`}, "")
	deleted := w.putOne(ask{json: true, body: `{"body":"deleted"}`}, "")
	kicked := w.putOne(ask{json: true, body: `{"delay_seconds":1000}`}, "")
	w.do("DELETE", deleted, ask{}).wants(t, 204, "")
	w.do("POST", kicked+"/kick", ask{}).wants(t, 204, "")
	noErr(t, os.CopyFS(crashed, os.DirFS(dir)))

	w = newWorld(t, setup{anonymous: access.Operate, dir: crashed})
	a := w.do("GET", kept+"/body", ask{}).wants(t, 200, "")
	expect(t, a.body == "kept", "the body is %q", a.body)
	w.do("GET", deleted, ask{}).wants(t, 404, "not-found")
	expect(t, get[wire.Job](w, kicked).State == "ready", "the kicked job is not ready")
}

func TestTagsOfJobsChangeWithThem(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	path := w.putOne(ask{json: true, body: `{"delay_seconds":1000,"body":"x"}`}, "")
	tag := w.do("GET", path, ask{}).header.Get("ETag")
	time.Sleep(5 * time.Millisecond)
	has := ask{header: map[string]string{"If-None-Match": tag}}
	a := w.do("GET", path, has).wants(t, 304, "")
	expect(t, a.body == "" && !strings.HasPrefix(tag, "W/") && tag != "", "%s: %q", tag, a.body)
	w.do("GET", path+"?body=full", has).wants(t, 200, "")
	w.do("POST", path+"/kick", ask{}).wants(t, 204, "")
	w.do("GET", path, has).wants(t, 200, "")
	body := w.do("GET", path+"/body", ask{}).header.Get("ETag")
	w.do("GET", path+"/body", ask{header: map[string]string{"If-None-Match": body}}).wants(t, 304, "")
}

func TestIdempotencyKeyMakesOneOfMany(t *testing.T) {
	w := newWorld(t, setup{dir: t.TempDir()})
	send := func(token, key, body string) *answer {
		return w.do("POST", "/api/v1/tubes/mail/jobs", ask{token: token, json: true, body: body, header: map[string]string{"Idempotency-Key": key}})
	}
	var wait sync.WaitGroup
	answers := make([]*answer, 8)
	for i := range answers {
		wait.Go(func() { answers[i] = send(operateToken, "k", `{"body":"x"}`) })
	}
	wait.Wait()
	replayed := 0
	for _, a := range answers {
		a.wants(t, 201, "")
		expect(t, a.body == answers[0].body && a.header.Get("Location") == answers[0].header.Get("Location"), "%s and %s", a.body, answers[0].body)
		if a.header.Get("Idempotency-Replayed") != "" {
			replayed++
		}
	}
	expect(t, replayed == len(answers)-1, "%d of %d were replayed", replayed, len(answers))
	audit := w.audit("")
	affected := uint64(0)
	for _, e := range audit {
		if affected += e.Affected; e.Affected == 0 {
			replayed -= len(e.Detail) / len("replayed")
		}
	}
	expect(t, affected == 1 && replayed == 0, "the audit does not tell what was done from what was said again: %+v", audit)
	send(operateToken, "k", `{"body":"y"}`).wants(t, 422, "key-in-use")
	w.do("POST", "/api/v1/tubes/other/jobs", ask{token: operateToken, json: true, body: `{"body":"x"}`, header: map[string]string{"Idempotency-Key": "k"}}).wants(t, 422, "key-in-use")
	if a := send(adminToken, "k", `{"body":"x"}`).wants(t, 201, ""); a.body == answers[0].body {
		t.Error("another's key is taken for one's own")
	}
	send(operateToken, strings.Repeat("k", 256), `{}`).wants(t, 400, "bad-request")
	// A refused request may be tried again.
	send(operateToken, "again", `{"pri":-1}`).wants(t, 422, "invalid")
	send(readToken, "r", `{}`).wants(t, 403, "read-only")
	w.srv.Drain()
	send(operateToken, "d", `{}`).wants(t, 503, "draining")
	w.do("DELETE", "/api/v1/drain", ask{token: adminToken}).wants(t, 200, "")
	a := send(operateToken, "d", `{}`).wants(t, 201, "")
	expect(t, a.header.Get("Idempotency-Replayed") == "", "a refusal is replayed")
	tube := as[wire.Tube](t, w.do("GET", "/api/v1/tubes/mail", ask{token: readToken}))
	expect(t, tube.JobsTotal == 3, "%d jobs were put", tube.JobsTotal)
}
