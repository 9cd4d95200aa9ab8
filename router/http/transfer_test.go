package http

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// transfer requests a move or a copy.
func (w *world) transfer(what string, id int, to string) *answer {
	w.t.Helper()
	return w.do("POST", fmt.Sprintf("/api/v1/jobs/%d/%s", id, what), ask{json: true, body: fmt.Sprintf(`{"to":%q}`, to)})
}

// TestJobIsTransferred with everything except its id, in any state and of any size. A move leaves
// nothing in the old tube.
func TestJobIsTransferred(t *testing.T) {
	for _, what := range []string{"move", "copy"} {
		for _, dir := range []string{"", t.TempDir()} {
			w := newWorld(t, setup{anonymous: "operate", dir: dir, maxJob: 200_000})
			w.stocked()
			for _, id := range []int{1, 6, 10, 12, 13} { // ready, delayed, buried, reserved, large
				if id == 12 && what == "move" {
					continue
				}
				var was, is wire.Job
				w.do("GET", fmt.Sprintf("/api/v1/jobs/%d?body=full", id), ask{}).wants(t, 200, "").read(t, &was)
				got := w.transfer(what, id, "away").wants(t, 201, "")
				tr := as[wire.Transfer](t, got)
				expect(t, tr.From == uint64(id) && tr.ID > 14 && tr.Tube == "away", "%s of job %d: %+v", what, id, tr)
				path := fmt.Sprintf("/api/v1/jobs/%d/%s/%s", id, what, got.header.Get("Location"))
				w.do("GET", strings.Replace(path, fmt.Sprintf("%d/%s/../", id, what), "", 1)+"?body=full", ask{}).wants(t, 200, "").read(t, &is)
				expect(t, is.ID == tr.ID && is.Tube == "away" && *is.Text == *was.Text && !is.Moving, "%s of job %d: %.200v", what, id, is)
				if was.State == "reserved" {
					was.State, was.LeftSeconds, was.Holder = "ready", 0, nil
				}
				if d := was.LeftSeconds - is.LeftSeconds; d < 0 || d > 5 || is.AgeSeconds < was.AgeSeconds {
					t.Errorf("%s of job %d: %v s are left of %v, it is %v s old, was %v", what, id, is.LeftSeconds, was.LeftSeconds, is.AgeSeconds, was.AgeSeconds)
				}
				is.ID, is.Tube, is.Path, is.Content, is.LeftSeconds, is.AgeSeconds, is.StateSeconds, is.DelaySeconds =
					was.ID, was.Tube, was.Path, was.Content, was.LeftSeconds, was.AgeSeconds, was.StateSeconds, was.DelaySeconds
				expect(t, is == was, "%s of job %d: %+v, was %+v", what, id, is, was)
				left := map[string]int{"move": 404, "copy": 200}[what]
				w.do("GET", fmt.Sprintf("/api/v1/jobs/%d", id), ask{}).wants(t, left, "")
			}
		}
	}
}

func TestTransfersThatAreRefused(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir(), maxJob: 200_000})
	w.stocked()
	defer w.function(strings.Repeat("f", 254) + "\n")()
	defer w.function(strings.Repeat("g", 256))()
	w.transfer("move", 12, "away").wants(t, 409, "job-reserved")
	for _, what := range []string{"move", "copy"} {
		w.transfer(what, 1, strings.Repeat("g", 256)).wants(t, 422, "invalid") // too long for the record of a job
	}
	w.do("POST", "/api/v1/tubes/"+strings.Repeat("g", 256)+"/jobs", ask{json: true, body: `{}`}).wants(t, 422, "invalid")
	w.do("PUT", "/api/v1/drain", ask{token: adminToken}).wants(t, 200, "")
	w.transfer("copy", 1, "away").wants(t, 503, "draining")
	w.transfer("move", 1, strings.Repeat("f", 254)+"\n").wants(t, 201, "") // the number of jobs stays the same
	n := len(w.list("/api/v1/tubes/mail/jobs", ""))
	expect(t, n == 12, "%d jobs are in the tube", n)
}

// submit submits a job for a function, and returns its number once it was accepted.
func submit(t *testing.T, conn net.Conn, kind uint32, parts ...string) (handle string) {
	t.Helper()
	io.WriteString(conn, request(kind, strings.Join(parts, "\x00")))
	r := bufio.NewReader(conn)
	var b [12]byte
	if _, err := r.Read(b[:]); err != nil || b[7] != 8 {
		t.Fatalf("%x, %v", b, err)
	}
	rest := make([]byte, binary.BigEndian.Uint32(b[8:]))
	_, err := r.Read(rest)
	noErr(t, err)
	return string(rest)
}

// TestTransferOfSubmittedJobs: a job that a client waits for stays. A background job is moved, and
// becomes an ordinary job.
func TestTransferOfSubmittedJobs(t *testing.T) {
	const submitJob, submitBackground, reduceBackground = 7, 18, 38
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir()})
	conn := w.connect(w.srv.ServeGearman)
	submit(t, conn, submitJob, "f", "u", "one")
	submit(t, conn, submitBackground, "f", "v", "two")
	submit(t, conn, reduceBackground, "f", "w", "reducer", "", "three")
	w.transfer("move", 1, "away").wants(t, 409, "awaited")
	w.transfer("copy", 1, "away").wants(t, 201, "")
	w.transfer("move", 2, "away").wants(t, 201, "")
	w.transfer("move", 3, "away").wants(t, 409, "job-moved")
	w.transfer("copy", 3, "away").wants(t, 409, "job-moved")
	submit(t, conn, submitBackground, "f", "v", "it joins nothing")
	f, away := w.list("/api/v1/tubes/f/jobs", ""), w.list("/api/v1/tubes/away/jobs", "")
	expect(t, len(f) == 3 && len(away) == 2, "%d and %d jobs", len(f), len(away))
}

// TestBulkTransferKeepsOrder: the orders in which jobs are served and kicked.
func TestBulkTransferKeepsOrder(t *testing.T) {
	for _, copies := range []bool{false, true} {
		w := newWorld(t, setup{anonymous: "operate", maxJob: 200_000})
		jobs := 1500 // more than one step
		if testing.Short() {
			jobs = 300
		}
		say := w.beanstalkd()
		say("use a")
		for n := range jobs {
			say(fmt.Sprintf("put %d 0 100 6\r\n%06d", n%2, n))
		}
		for n := 1; n <= jobs; n += 3 { // their places are taken by others
			say(fmt.Sprintf("delete %d", n))
		}
		for n := range jobs / 3 {
			say(fmt.Sprintf("put %d 0 100 6\r\n%06d", n%2, n))
		}
		want := w.served("a")
		got, err := w.bulk(admin.Bulk{Jobs: admin.JobQuery{Tube: "a"}, Action: admin.Transfer{To: "b", Copy: copies}})
		require(t, err == nil && got.Done == uint64(jobs) && got.Matched == uint64(jobs), "%+v, %v", got, err)
		served := w.served("b")
		expect(t, slices.Equal(served, want) && len(served) == jobs, "copies %v: served in another order", copies)
		if tube, err := w.srv.Operator().Tube(t.Context(), "a"); err == nil && tube.Ready != uint64(map[bool]int{true: jobs}[copies]) {
			t.Errorf("%d jobs are left", tube.Ready)
		}
		w.bulk(admin.Bulk{Jobs: admin.JobQuery{Tube: "b", Filter: core.Filter{Contains: []byte("7")}}, Action: admin.Verb{Action: core.Action{Verb: core.VerbBury}}})
		buried := bodies(w.list("/api/v1/tubes/b/jobs", "order=oldest&state=buried&body=full&limit=1000"))
		w.bulk(admin.Bulk{Jobs: admin.JobQuery{Tube: "b", Filter: core.Filter{States: core.StatesOf(core.Buried)}}, Action: admin.Transfer{To: "c", Copy: copies}})
		kicked := bodies(w.list("/api/v1/tubes/c/jobs", "order=oldest&state=buried&body=full&limit=1000"))
		expect(t, slices.Equal(kicked, buried) && len(buried) >= jobs/15, "copies %v: %d are kicked in another order", copies, len(buried))
	}
}

// served returns the bodies of a tube's ready jobs, in the order in which they will be served.
func (w *world) served(tube string) []string {
	w.t.Helper()
	list := w.list("/api/v1/tubes/"+tube+"/jobs", "state=ready&body=full&limit=1000")
	slices.SortFunc(list, func(a, b wire.Job) int { return cmp.Or(cmp.Compare(a.Pri, b.Pri), cmp.Compare(a.ID, b.ID)) })
	return bodies(list)
}

func bodies(list []wire.Job) (all []string) {
	for i := range list {
		all = append(all, *list[i].Text)
	}
	return all
}

// TestMovesAreNoPutsAndNoDeletes in the counts of the tubes and the server. A copy is a put.
func TestMovesAreNoPutsAndNoDeletes(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	for range 3 {
		w.put("mail", 1)
	}
	counts := func() (all []uint64) {
		t.Helper()
		for _, name := range []string{"mail", "away"} {
			tube := get[wire.Tube](w, "/api/v1/tubes/"+name)
			all = append(all, tube.JobsTotal, tube.Deletes)
		}
		server := get[wire.Server](w, "/api/v1/server")
		return append(all, server.JobsTotal, server.Events["put"], server.Events["delete"])
	}
	w.put("away", 1)
	w.transfer("move", 1, "away").wants(t, 201, "")
	w.do("POST", "/api/v1/operations", ask{json: true, body: `{"action":"move","select":{"ids":["2"]},"to":"away"}`}).wants(t, 200, "").has(t, `"asked":{"action":"move"`, `"to":"away"`)
	detail := w.audit("")[0].Detail
	expect(t, strings.Contains(detail, `to tube "away"`), "the audit has %q", detail)
	w.transfer("copy", 3, "away").wants(t, 201, "")
	got, want := counts(), []uint64{3, 0, 2, 0, 5, 5, 0}
	expect(t, slices.Equal(got, want), "mail's puts and deletes, away's, all jobs, puts and deletes are %d, want %d", got, want)
}
