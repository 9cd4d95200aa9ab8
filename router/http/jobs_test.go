package http

import (
	"encoding/base64"
	"fmt"
	"os"
	"slices"
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
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir(), maxJob: 300_000})
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
	w := newWorld(t, setup{anonymous: "operate", dir: dir})
	kept := w.putOne(ask{json: true, body: `{"body":"kept"}`}, "")
	deleted := w.putOne(ask{json: true, body: `{"body":"deleted"}`}, "")
	kicked := w.putOne(ask{json: true, body: `{"delay_seconds":1000}`}, "")
	w.do("DELETE", deleted, ask{}).wants(t, 204, "")
	w.do("POST", kicked+"/kick", ask{}).wants(t, 204, "")
	noErr(t, os.CopyFS(crashed, os.DirFS(dir)))

	w = newWorld(t, setup{anonymous: "operate", dir: crashed})
	a := w.do("GET", kept+"/body", ask{}).wants(t, 200, "")
	expect(t, a.body == "kept", "the body is %q", a.body)
	w.do("GET", deleted, ask{}).wants(t, 404, "not-found")
	expect(t, get[wire.Job](w, kicked).State == "ready", "the kicked job is not ready")
}

func TestTagsOfJobsChangeWithThem(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
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
	send(readToken, "r", `{}`).wants(t, 403, "not-permitted")
	w.srv.Drain()
	send(operateToken, "d", `{}`).wants(t, 503, "draining")
	w.do("DELETE", "/api/v1/drain", ask{token: adminToken}).wants(t, 200, "")
	a := send(operateToken, "d", `{}`).wants(t, 201, "")
	expect(t, a.header.Get("Idempotency-Replayed") == "", "a refusal is replayed")
	tube := as[wire.Tube](t, w.do("GET", "/api/v1/tubes/mail", ask{token: readToken}))
	expect(t, tube.JobsTotal == 3, "%d jobs were put", tube.JobsTotal)
}

// list reads all parts of a list of jobs.
func (w *world) list(path, query string) (jobs []wire.Job) {
	w.t.Helper()
	after := ""
	for range 10_000 {
		part := as[wire.Jobs](w.t, w.do("GET", path+"?"+query+after, ask{}).wants(w.t, 200, ""))
		jobs = append(jobs, part.Jobs...)
		if part.Next == "" {
			return jobs
		}
		after = "&after=" + part.Next
	}
	w.t.Fatal("the list has no end")
	return nil
}

// idsOf returns the ids of jobs.
func idsOf(jobs []wire.Job) (ids []uint64) {
	for i := range jobs {
		ids = append(ids, jobs[i].ID)
	}
	return ids
}

// stocked puts jobs 1 to 5 ready with falling priorities, 6 to 8 delayed, 9 to 11 buried in
// the order 10, 11, 9, 12 reserved, and 13, a large one, ready; and 14 into another tube.
func (w *world) stocked() {
	w.t.Helper()
	say := w.beanstalkd()
	say("use mail")
	say("watch mail")
	say("ignore default")
	put := func(pri, delay int, body string) {
		say(fmt.Sprintf("put %d %d 1000 %d\r\n%s", pri, delay, len(body), body))
	}
	for i := range 5 {
		put(100-i, 0, fmt.Sprintf("ready %d", i+1))
	}
	for i := range 3 {
		put(5, 1000-i, "delayed")
	}
	for range 4 {
		put(0, 0, "urgent")
	}
	for _, id := range []int{10, 11, 9, 12} {
		if got := say(fmt.Sprintf("reserve-job %d", id)); !strings.HasPrefix(got, "RESERVED") {
			w.t.Fatal(got)
		}
		if id != 12 {
			say(fmt.Sprintf("bury %d 7", id))
		}
	}
	large := strings.Repeat("a", 100_000) + "needle" + strings.Repeat("b", 50_000)
	w.putOne(ask{header: octets, body: large}, "?pri=200")
	w.do("POST", "/api/v1/tubes/other/jobs", ask{json: true, body: `{"body":"needle"}`}).wants(w.t, 201, "")
}

func TestJobsAreListed(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir(), maxJob: 200_000})
	w.stocked()
	const mail = "/api/v1/tubes/mail/jobs"
	for _, tt := range []struct {
		path, query string
		ordered     bool
		want        []uint64
	}{
		{mail, "", false, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
		{mail, "state=ready", false, []uint64{1, 2, 3, 4, 5, 13}},
		{mail, "state=reserved,buried", false, []uint64{9, 10, 11, 12}},
		{mail, "order=next", true, []uint64{5, 4, 3, 2, 1, 13}},
		{mail, "order=next&state=delayed", true, []uint64{8, 7, 6}},
		{mail, "order=next&state=buried", true, []uint64{10, 11, 9}},
		{mail, "order=oldest", true, []uint64{1, 2, 3, 4, 5, 13}},
		{mail, "order=newest&state=buried", true, []uint64{9, 11, 10}},
		{mail, "order=newest&id_max=3", true, []uint64{3, 2, 1}},
		{mail, "id_min=4&id_max=6", false, []uint64{4, 5, 6}},
		{mail, "contains=urgent", false, []uint64{9, 10, 11, 12}},
		{mail, "contains=needle", false, []uint64{13}},
		{mail, "contains=y+3", false, []uint64{3}},
		{mail, "contains=nothing", false, nil},
		{mail, "older_than=0", false, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
		{mail, "older_than=3000", false, nil},
		{"/api/v1/jobs", "contains=needle", false, []uint64{13, 14}},
		{"/api/v1/jobs", "state=reserved", false, []uint64{12}},
	} {
		limits := []int{2, 1000}
		if strings.Contains(tt.query, "order=next") {
			limits = []int{1000}
		}
		for _, limit := range limits {
			got := idsOf(w.list(tt.path, fmt.Sprintf("%s&limit=%d", tt.query, limit)))
			if !tt.ordered {
				slices.Sort(got)
			}
			expect(t, slices.Equal(got, tt.want), "%s?%s by %d: %d, want %d", tt.path, tt.query, limit, got, tt.want)
		}
	}
	got := idsOf(w.list(mail, "order=next&limit=2"))
	expect(t, slices.Equal(got, []uint64{5, 4}), "the first two: %d", got)
	for _, j := range w.list(mail, "state=ready&body=preview") {
		expect(t, j.Text != nil && (j.ID != 13 || len(*j.Text) == int(bodyBytes[access.Preview]) && j.Truncated && j.Size == 150_006) && (j.ID != 2 || *j.Text == "ready 2"), "%+v", j)
	}
	for _, j := range w.list(mail, "id_min=13&body=full") {
		expect(t, j.Text != nil && len(*j.Text) == 65536 && j.Truncated, "%+v", j)
	}
}

func TestListsOfJobsAreRefused(t *testing.T) {
	long(t)
	w := newWorld(t, setup{anonymous: "operate", maxJob: 200_000})
	w.stocked()
	const mail = "/api/v1/tubes/mail/jobs"
	part := get[wire.Jobs](w, mail+"?limit=2&state=ready")
	raw, _ := base64.RawURLEncoding.DecodeString(part.Next)
	forged := slices.Clone(raw)
	forged[placeBoot+placeList+3] ^= 1
	stranger := slices.Clone(raw)
	stranger[0] ^= 1
	for _, tt := range []struct {
		query, field string
		status       int
		slug         string
	}{
		{"order=next&after=" + part.Next, "after", 400, "bad-request"},
		{"state=buried&after=" + part.Next, "after", 400, "bad-request"},
		{"state=ready&after=" + base64.RawURLEncoding.EncodeToString(forged), "after", 400, "bad-request"},
		{"state=ready&after=" + base64.RawURLEncoding.EncodeToString(stranger), "after", 410, "cursor-expired"},
	} {
		w.do("GET", mail+"?"+tt.query, ask{}).wants(t, tt.status, tt.slug).field(t, tt.field)
	}
	for _, q := range []string{"?contains=x", "?body=preview"} {
		w.do("GET", mail+q, ask{token: readToken}).wants(t, 403, "not-permitted")
		w.do("GET", mail+q, ask{token: bodiesToken}).wants(t, 200, "")
	}
	w.do("GET", mail, ask{token: readToken}).wants(t, 200, "")
	leave, err := w.web.heavy.take(t.Context())
	noErr(t, err)
	a := w.do("GET", mail, ask{}).wants(t, 429, "busy")
	expect(t, a.header.Get("Retry-After") != "", "%v", a.header)
	w.do("GET", mail+"?order=next", ask{}).wants(t, 200, "")
	leave()
}

// TestFirstJobsWithBodiesAreAsMany as without: the order next has one part only, so bodies must not
// shorten it.
func TestFirstJobsWithBodiesAreAsMany(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	w.fill(150)
	for _, body := range []string{"none", "preview", "full"} {
		part := get[wire.Jobs](w, "/api/v1/tubes/mail/jobs?order=next&limit=120&body="+body)
		expect(t, len(part.Jobs) == 120 && part.Jobs[119].ID == 120, "body=%s: %d jobs", body, len(part.Jobs))
	}
}

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
		w := newWorld(t, setup{anonymous: "operate", dir: dir, maxJob: 200_000})
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
	w := newWorld(t, setup{anonymous: "operate", dir: dir})
	j := w.job("/api/v1/jobs/1")
	expect(t, j.Pri == 3 && j.TTRSeconds == 8 && j.State == "ready" && *j.Text == "hello", "after a restart: %+v", j)
}

// TestEditsThatAreRefused change nothing.
func TestEditsThatAreRefused(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate", maxJob: 100})
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
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir()})
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
