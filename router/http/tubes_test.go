package http

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
)

func TestTubesAreListedInParts(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	for i := range 25 {
		w.put(fmt.Sprintf("t%02d", i), i%4)
		if i%4 == 0 {
			w.put(fmt.Sprintf("t%02d", i), 4)
		}
	}
	for _, sort := range []string{"", "name", "ready", "-ready", "-total"} {
		var names []string
		var last *wire.Tube
		for after := ""; ; {
			q := url.Values{"limit": {"7"}, "match": {"t*"}}
			if sort != "" {
				q.Set("sort", sort)
			}
			if after != "" {
				q.Set("after", after)
			}
			page := get[wire.Tubes](w, "/api/v1/tubes?"+q.Encode())
			require(t, page.Matching == 25 && time.Since(page.AsOf) <= time.Minute && len(page.Tubes) <= 7, "%+v", page)
			for i := range page.Tubes {
				now := &page.Tubes[i]
				if last != nil {
					a, b := last.Jobs.Ready, now.Jobs.Ready
					switch {
					case sort == "ready" && a > b, strings.HasPrefix(sort, "-") && a < b,
						(sort == "" || sort == "name" || a == b) && last.Name >= now.Name:
						t.Errorf("sort %q: %s with %d comes before %s with %d", sort, last.Name, a, now.Name, b)
					}
				}
				names, last = append(names, now.Name), now
			}
			if after = page.Next; after == "" {
				break
			}
		}
		expect(t, len(names) == 25, "sort %q: %d tubes: %v", sort, len(names), names)
	}
	var page wire.Tubes
	first := w.do("GET", "/api/v1/tubes?limit=1000", ask{}).wants(t, 200, "")
	first.read(t, &page)
	expect(t, page.Matching == 26 && page.Next == "", "%+v", page)
	tag := first.header.Get("ETag")
	expect(t, strings.HasPrefix(tag, `W/"`), "ETag %q", tag)
	w.do("GET", "/api/v1/tubes?limit=1000", ask{header: map[string]string{"If-None-Match": `"x", ` + tag}}).wants(t, 304, "")
	w.do("GET", "/api/v1/tubes?limit=999", ask{header: map[string]string{"If-None-Match": tag}}).wants(t, 200, "")
}

// TestTubesOfAnyNameAreReached, since a Gearman function may have any name.
func TestTubesOfAnyNameAreReached(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	for _, name := range []string{"a/b", "..", "\x00", "\xff\xfe", "a b", "%2F", "ä", strings.Repeat("x", 255), "?", "a\nb"} {
		release := w.function(name)
		target := "/api/v1/tubes/" + wire.PathName(name)
		tube := get[wire.Tube](w, target)
		expect(t, tube.Path == wire.PathName(name) && tube.Name == wire.ShownName(name), "%q: %+v", name, tube)
		w.do("POST", target+"/jobs", ask{json: true, body: `{"body":"x"}`}).wants(t, 201, "")
		w.do("PUT", target+"/pause", ask{json: true, body: `{"seconds":9}`}).wants(t, 204, "")
		w.do("GET", target, ask{}).wants(t, 200, "").read(t, &tube)
		expect(t, tube.Jobs.Ready == 1 && tube.PauseSeconds == 9, "%q: %+v", name, tube)
		release()
	}
	w.do("POST", "/api/v1/tubes/a%2F%FF/jobs", ask{json: true, body: `{"body":"x"}`}).wants(t, 201, "")
	expect(t, w.operation(200, `{"action":"bury","select":{"tube_path":"a%%2F%%FF"}}`).Done == 1, "its jobs are not selected")
	// A longer name does not fit into a record of the journal.
	defer w.function(strings.Repeat("x", 256))()
	w.do("GET", "/api/v1/tubes/"+strings.Repeat("x", 256), ask{}).wants(t, 200, "")
	w.do("POST", "/api/v1/tubes/"+strings.Repeat("x", 256)+"/jobs", ask{json: true, body: `{}`}).wants(t, 422, "invalid")
	for _, name := range []string{"nothing", "", "-x", "a/b/c", "%ff%00"} {
		target := "/api/v1/tubes/" + wire.PathName(name)
		if name == "" {
			continue // another path
		}
		w.do("GET", target, ask{}).wants(t, 404, "not-found")
		w.do("PUT", target+"/pause", ask{json: true, body: `{"seconds":9}`}).wants(t, 404, "not-found")
		w.do("POST", target+"/kick", ask{json: true, body: `{"count":9}`}).wants(t, 404, "not-found")
	}
	// Like a submission, a put creates a tube of any name that fits into a record.
	for _, name := range []string{"-x", "App::resize", "a\x00", ".", strings.Repeat("y", 255)} {
		w.do("POST", "/api/v1/tubes/"+wire.PathName(name)+"/jobs", ask{json: true, body: `{}`}).wants(t, 201, "")
		w.do("GET", "/api/v1/tubes/"+wire.PathName(name), ask{}).wants(t, 200, "")
	}
	// A name that would be resolved as a path segment is given as a parameter.
	for _, name := range []string{"..", "/", "-", "mail"} {
		target := "/api/v1/tubes/-/jobs?tube=" + wire.PathName(name)
		w.do("POST", target, ask{json: true, body: `{}`}).wants(t, 201, "")
		tube := get[wire.Tube](w, strings.Replace(target, "/jobs", "", 1))
		expect(t, tube.Path == wire.PathName(name) && tube.Jobs.Ready != 0, "%q: %+v", name, tube)
	}
	w.do("GET", "/api/v1/tubes/mail?tube=mail", ask{}).wants(t, 400, "bad-request")
	w.do("GET", "/api/v1/tubes/-?tube=mail&tube=mail", ask{}).wants(t, 400, "bad-request")
	w.do("POST", "/api/v1/tubes/"+strings.Repeat("y", 256)+"/jobs", ask{json: true, body: `{}`}).wants(t, 422, "invalid")
	w.do("GET", "/api/v1/tubes/nothing", ask{}).wants(t, 404, "not-found")
}

func TestPauseAndKick(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir()})
	w.put("mail", 1)
	tube := func() (v wire.Tube) {
		t.Helper()
		w.do("GET", "/api/v1/tubes/mail", ask{}).wants(t, 200, "").read(t, &v)
		return v
	}
	w.do("PUT", "/api/v1/tubes/mail/pause", ask{json: true, body: `{"seconds":60}`}).wants(t, 204, "")
	if v := tube(); v.PauseSeconds != 60 || v.PauseLeftSeconds < 50 {
		t.Errorf("%+v", v)
	}
	w.do("DELETE", "/api/v1/tubes/mail/pause", ask{}).wants(t, 204, "")
	if v := tube(); v.PauseSeconds != 0 {
		t.Errorf("%+v", v)
	}
	for range 5 {
		w.do("POST", "/api/v1/tubes/mail/jobs", ask{json: true, body: `{"delay_seconds":1000,"body":"x"}`}).wants(t, 201, "")
	}
	if v := tube(); v.Jobs.Delayed != 5 || v.Jobs.Ready != 1 {
		t.Errorf("%+v", v)
	}
	kicked := as[wire.Kicked](t, w.do("POST", "/api/v1/tubes/mail/kick", ask{json: true, body: `{"count":3}`}).wants(t, 200, ""))
	v := tube()
	expect(t, kicked.Kicked == 3 && v.Jobs.Delayed == 2 && v.Jobs.Ready == 4, "%+v, %+v", kicked, v)
}

// TestTubesTellWhatPassesThroughThem: the list and the single tube have the same figures.
func TestTubesTellWhatPassesThroughThem(t *testing.T) {
	long(t)
	w := newWorld(t, setup{anonymous: "operate"})
	w.put("mail", 1)
	get[wire.Tubes](w, "/api/v1/tubes") // rates need two samples
	worker := w.beanstalkd()
	worker("watch mail")
	worker("ignore default")
	worker("reserve")
	worker("delete 1") // the reply is the job's body
	worker("list-tube-used")
	w.put("mail", 20)
	time.Sleep(2100 * time.Millisecond) // a sample is reused for two seconds
	mail := get[wire.Tubes](w, "/api/v1/tubes?match=mail").Tubes[0]
	expect(t, mail.Events["reserve"] == 1 && mail.Deletes == 1 && mail.BodyBytes == 20 && mail.Jobs.Ready == 20 && mail.OldestReadySeconds >= 2, "%+v", mail)
	r := mail.Rates
	expect(t, r.Put > r.Reserve && r.Reserve > 0 && r.Delete == r.Reserve && r.Timeout == 0, "%+v", r)
	for _, q := range []wire.Quantiles{mail.Wait, mail.Run} {
		expect(t, q.Count == 1 && q.P50 > 0 && q.P99 == q.P50 && q.P99 <= 60, "%+v", q)
	}
	alone := get[wire.Tube](w, "/api/v1/tubes/mail")
	alone.OldestReadySeconds = mail.OldestReadySeconds
	expect(t, reflect.DeepEqual(alone, mail), "alone %+v\nin the list %+v", alone, mail)
}

// TestListsSortByBytesAndAge: the largest tube, and the tube with the oldest ready job.
func TestListsSortByBytesAndAge(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	w.put("old", 1)
	time.Sleep(20 * time.Millisecond)
	w.put("large", 5)
	for sort, want := range map[string]string{"-bytes": "large", "-oldest": "old"} {
		page := get[wire.Tubes](w, "/api/v1/tubes?limit=1&sort="+sort)
		expect(t, len(page.Tubes) == 1 && page.Tubes[0].Name == want, "sort %s: %+v", sort, page.Tubes)
	}
}

// TestFlushByHTTP deletes the counted jobs in the given states, and no reserved jobs.
func TestFlushByHTTP(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir(), maxJob: 200_000})
	w.stocked()
	const path = "/api/v1/tubes/mail/jobs"
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
