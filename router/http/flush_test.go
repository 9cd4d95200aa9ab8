package http

import (
	"net/url"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// TestFlushByHTTP: of the states that are named, of the jobs that were counted, and of none
// that a worker has.
func TestFlushByHTTP(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), maxJob: 200_000})
	w.stocked()
	const path = "/api/v1/tubes/mail/jobs"
	for _, tt := range []struct {
		path, query, field string
		status             int
		slug               string
	}{
		{path, "", "state", 400, "bad-request"},
		{path, "?state=", "state", 400, "bad-request"},
		{path, "?state=dead", "state", 400, "bad-request"},
		{path, "?state=ready,reserved", "state", 400, "bad-request"},
		{path, "?state=ready&dry_run=yes", "dry_run", 400, "bad-request"},
		{path, "?state=ready&force=true", "force", 400, "bad-request"},
		{path, "?state=ready&dry_run=true&as_of=1", "as_of", 400, "bad-request"},
		{path, "?state=ready&as_of=never", "as_of", 422, "invalid"},
		{"/api/v1/tubes/nobody/jobs", "?state=ready", "", 404, "not-found"},
		{"/api/v1/tubes/nobody/jobs", "?state=ready&dry_run=true", "", 404, "not-found"},
	} {
		a := w.do("DELETE", tt.path+tt.query, ask{}).wants(t, tt.status, tt.slug)
		a.field(t, tt.field)
	}
	flush := func(query string, want wire.Flushed) (v wire.Flushed) {
		t.Helper()
		w.do("DELETE", path+query, ask{}).wants(t, 200, "").read(t, &v)
		want.AsOf = v.AsOf
		require(t, v == want && (v.AsOf == "") != v.DryRun, "%s: %+v, want %+v", query, v, want)
		return v
	}
	was := len(w.list(path, ""))
	counted := flush("?state=ready,delayed,buried&dry_run=true", wire.Flushed{Jobs: 12, Ready: 6, Delayed: 3, Buried: 3, DryRun: true})
	n := len(w.list(path, ""))
	expect(t, n == was, "after a dry run there are %d jobs of %d", n, was)
	flush("?state=buried", wire.Flushed{Jobs: 3, Buried: 3})
	flush("?state=buried", wire.Flushed{})
	later := w.putOne(ask{json: true, body: `{}`}, "")
	asOf := "&as_of=" + url.QueryEscape(counted.AsOf)
	flush("?state=ready,delayed"+asOf, wire.Flushed{Jobs: 9, Ready: 6, Delayed: 3}) // one after the other
	flush("?state=ready,delayed"+asOf, wire.Flushed{})
	w.do("GET", later, ask{}).wants(t, 200, "")
	flush("?state=ready", wire.Flushed{Jobs: 1, Ready: 1})
	left := w.list(path, "")
	expect(t, len(left) == 1 && left[0].State == "reserved", "%+v are left", left)
	if e := w.audit("")[0]; e.Action != "DELETE /api/v1/tubes/{tube}/jobs" || e.Affected != 1 || e.Status != 200 || e.Detail != "states ready" {
		t.Errorf("%+v", e)
	}
	// A tube that is a parameter is named as well.
	w.do("DELETE", "/api/v1/tubes/-/jobs?state=ready&tube="+strings.TrimSuffix(strings.TrimPrefix(path, "/api/v1/tubes/"), "/jobs"), ask{}).wants(t, 200, "")
	e := w.audit("")[0]
	expect(t, e.Path == path, "the audit has the path %q, want %q", e.Path, path)
	w.do("GET", "/metrics", ask{}).wants(t, 200, "").has(t, `polystalk_operator_jobs_total{action="flush",result="done"} 13`)
}
