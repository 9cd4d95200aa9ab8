package http

import (
	"strings"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// job returns a job with its whole body.
func (w *world) job(path string) (j wire.Job) {
	w.t.Helper()
	w.do("GET", path+"?body=full", ask{}).wants(w.t, 200, "").read(w.t, &j)
	return j
}

// TestJobsAreEdited: an edit changes exactly the given values, also of large bodies, and survives a
// restart.
func TestJobsAreEdited(t *testing.T) {
	dir := t.TempDir()
	large := strings.Repeat("0123456789", 15_000)
	t.Run("edit", func(t *testing.T) {
		w := newWorld(t, setup{anonymous: access.Operate, dir: dir, maxJob: 200_000})
		path := w.putOne(ask{json: true, body: `{"pri":9,"ttr_seconds":7,"body":"hello"}`}, "")
		for _, tt := range []struct {
			edit string
			want wire.Job
			body string
		}{
			{`{"pri":3}`, wire.Job{State: "ready", Pri: 3, TTRSeconds: 7}, "hello"},
			{`{"delay_seconds":5000}`, wire.Job{State: "delayed", Pri: 3, TTRSeconds: 7, DelaySeconds: 5000}, "hello"},
			{`{"ttr_seconds":0,"body":""}`, wire.Job{State: "delayed", Pri: 3, TTRSeconds: 1, DelaySeconds: 5000}, ""},
			{`{"body":"` + large + `"}`, wire.Job{State: "delayed", Pri: 3, TTRSeconds: 1, DelaySeconds: 5000}, large},
			{`{"ttr_seconds":8}`, wire.Job{State: "delayed", Pri: 3, TTRSeconds: 8, DelaySeconds: 5000}, large},
			{`{"delay_seconds":0}`, wire.Job{State: "ready", Pri: 3, TTRSeconds: 8}, large},
			{`{"body_base64":"aGVsbG8="}`, wire.Job{State: "ready", Pri: 3, TTRSeconds: 8}, "hello"},
		} {
			tag := w.do("PATCH", path, ask{json: true, body: tt.edit}).wants(t, 204, "").header.Get("ETag")
			now := w.do("GET", path, ask{}).header.Get("ETag")
			expect(t, now == tag && tag != "", "%.40s: the tag is %s, and then %s", tt.edit, tag, now)
			got := w.job(path)
			expect(t, *got.Text == tt.body, "%.40s: the body has %d bytes", tt.edit, len(*got.Text))
			got = wire.Job{State: got.State, Pri: got.Pri, DelaySeconds: got.DelaySeconds, TTRSeconds: got.TTRSeconds}
			expect(t, got == tt.want, "%.40s: %+v, want %+v", tt.edit, got, tt.want)
		}
	})
	w := newWorld(t, setup{anonymous: access.Operate, dir: dir})
	j := w.job("/api/v1/jobs/1")
	expect(t, j.Pri == 3 && j.TTRSeconds == 8 && j.State == "ready" && *j.Text == "hello", "after a restart: %+v", j)
}

// TestEditsThatAreRefused change nothing.
func TestEditsThatAreRefused(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, maxJob: 100})
	path := w.putOne(ask{json: true, body: `{"pri":9,"body":"hello"}`}, "")
	before := w.do("GET", path, ask{}).header.Get("ETag")
	for _, tt := range []struct {
		match       string
		status      int
		slug, field string
	}{
		{`"x"`, 412, "changed", "If-Match"},
		{"W/" + before, 412, "changed", "If-Match"},
		{before + ", " + before, 400, "bad-request", "If-Match"},
		{strings.Replace(before, before[1:9], "00000000", 1), 412, "changed", "If-Match"},
		{before[:12] + "0000" + before[16:], 412, "changed", ""},
	} {
		a := ask{json: true, body: `{"pri":1}`, header: map[string]string{"If-Match": tt.match}}
		w.do("PATCH", path, a).wants(t, tt.status, tt.slug).field(t, tt.field)
	}
	w.do("DELETE", path, ask{header: map[string]string{"If-Match": before}}).wants(t, 400, "bad-request")
	now := w.do("GET", path, ask{}).header.Get("ETag")
	expect(t, now == before, "the tag was %s, and is %s", before, now)
	seen := ask{json: true, body: `{"pri":1}`, header: map[string]string{"If-Match": before}}
	w.do("PATCH", path, seen).wants(t, 204, "")
	w.do("PATCH", path, seen).wants(t, 412, "changed")
	seen.header["If-Match"] = "*"
	w.do("PATCH", path, seen).wants(t, 204, "")
	seen.header["If-Match"] = w.do("GET", path+"?body=full", ask{}).header.Get("ETag")
	w.do("PATCH", path, seen).wants(t, 204, "")
}

// TestWorkersAreOverruledByForceAlone: without force, an edit of a reserved job is refused.
func TestWorkersAreOverruledByForceAlone(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir()})
	say := w.beanstalkd()
	say("watch mail")
	pri := ask{json: true, body: `{"pri":1}`}
	for _, tt := range []struct{ method, under, query, state string }{
		{"POST", "/release", "", "ready"}, {"POST", "/bury", "?force=true", "buried"},
		{"DELETE", "", "?force=true", ""}, {"PATCH", "", "?force=true", "reserved"},
	} {
		path := w.putOne(ask{json: true, body: `{"body":"x"}`}, "")
		id := path[strings.LastIndex(path, "/")+1:]
		w.do("POST", path+"/release", ask{}).wants(t, 409, "job-moved")
		if got := say("reserve-job " + id); !strings.HasPrefix(got, "RESERVED") {
			t.Fatal(got)
		}
		w.do("POST", path+"/bury", ask{}).wants(t, 409, "job-reserved").has(t, "?force=true")
		w.do("DELETE", path, ask{}).wants(t, 409, "job-reserved").has(t, "?force=true")
		w.do("PATCH", path, pri).wants(t, 409, "job-reserved").has(t, "?force=true")
		p := w.do("POST", path+"/move", ask{json: true, body: `{"to":"away"}`}).wants(t, 409, "job-reserved").problem(t)
		expect(t, !strings.Contains(p.Remedy, "?force=true"), "a move cannot be forced: %s", p.Remedy)
		a := ask{}
		if tt.method == "PATCH" {
			a = pri
		}
		w.do(tt.method, path+tt.under+tt.query, a).wants(t, 204, "")
		want := "NOT_FOUND\r\n"
		if tt.state == "reserved" {
			want = "TOUCHED\r\n"
		}
		got := say("touch " + id)
		expect(t, got == want, "%s%s: touch: %q", tt.method, tt.under, got)
		if tt.state == "" {
			w.do("GET", path, ask{}).wants(t, 404, "not-found")
		} else if j := w.job(path); j.State != tt.state {
			t.Errorf("%s%s: it is %s", tt.method, tt.under, j.State)
		}
	}
	path := w.putOne(ask{json: true, body: `{}`}, "")
	w.do("POST", path+"/bury", ask{}).wants(t, 204, "")
	w.do("POST", path+"/bury", ask{}).wants(t, 409, "job-moved")
	w.do("PATCH", path, ask{json: true, body: `{"pri":1,"delay_seconds":5}`}).wants(t, 409, "job-moved")
	j := w.job(path)
	expect(t, j.Pri == 0, "half of an edit: %+v", j)
	for _, under := range []string{"/bury", "/release"} {
		w.do("POST", "/api/v1/jobs/77"+under, ask{}).wants(t, 404, "not-found")
	}
}
