package http

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

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
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), maxJob: 200_000})
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
	w := newWorld(t, setup{anonymous: access.Operate, maxJob: 200_000})
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
		w.do("GET", mail+q, ask{token: readToken}).wants(t, 403, "read-only")
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
	w := newWorld(t, setup{anonymous: access.Operate})
	w.fill(150)
	for _, body := range []string{"none", "preview", "full"} {
		part := get[wire.Jobs](w, "/api/v1/tubes/mail/jobs?order=next&limit=120&body="+body)
		expect(t, len(part.Jobs) == 120 && part.Jobs[119].ID == 120, "body=%s: %d jobs", body, len(part.Jobs))
	}
}
