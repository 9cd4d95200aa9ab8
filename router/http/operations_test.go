package http

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// TestOperationsOfARoleAreForgotten, the oldest ended one first; operations of other roles are not.
// When too many wait, a new one is refused.
func TestOperationsOfARoleAreForgotten(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	w.put("mail", 5)
	l := admin.NewOperations(w.srv.Operator())
	b := admin.Bulk{Jobs: admin.JobQuery{Tube: "mail"}, AtMost: math.MaxUint64, Action: admin.Verb{Action: core.Action{Verb: core.VerbDelete}}}
	var over sync.WaitGroup
	begin := func(ctx context.Context, role string) (*admin.Operation, error) {
		return l.Begin(ctx, admin.Asked{Bulk: b, Name: "me", Role: role, Request: "r"}, over.Go)
	}
	op, err := begin(t.Context(), "operate")
	noErr(t, err)
	<-op.Done()
	state, ended, err := op.State()
	expect(t, state == "done" && !ended.IsZero() && err == nil && op.Tally().Done == 5, "%s, %v, %+v", state, err, op.Tally())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 300 {
		if _, err = begin(ctx, "operate"); err != nil {
			p, ok := errors.AsType[*wire.Problem](err)
			require(t, ok && strings.HasSuffix(p.Type, "busy"), "%v", err)
			time.Sleep(time.Millisecond)
		}
	}
	over.Wait()
	all := l.List()
	state, _, err = all[0].State()
	expect(t, len(all) <= 100 && l.Find(all[0].ID) == all[0] && l.Find(1) == nil && state == "cancelled" && err != nil, "%d are remembered, the last one %s: %v", len(all), state, err)
	_, err = begin(ctx, "admin")
	expect(t, err == nil && len(l.List()) == len(all)+1, "another role has %d remembered, %v", len(l.List())-len(all), err)
	over.Wait()
}

// A fillingDisk is a directory without space for another segment while it is full.
type fillingDisk struct {
	wal.Disk
	full  atomic.Bool
	fills bool // by its first file
}

func (d *fillingDisk) Create(name string) (wal.File, error) {
	f, err := d.Disk.Create(name)
	if d.fills {
		d.full.Store(true)
	}
	return f, err
}

func (d *fillingDisk) Free() int64 {
	if d.full.Load() {
		return 0
	}
	return 1 << 40
}

// TestFullDisk: changes that need space are refused, of one job or many. Deletes still work, and
// free space.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk := &fillingDisk{Disk: wal.Dir(dir)}
	w := newWorld(t, setup{anonymous: "operate", dir: dir, disk: disk, maxJob: 1 << 20})
	w.fill(2000)
	const jobs = "/api/v1/tubes/mail/jobs"
	huge := `"body":"` + strings.Repeat("y", 900_000) + `"`
	large := w.putOne(ask{json: true, body: `{"delay_seconds":1000,` + huge + `}`}, "")
	disk.full.Store(true)
	put := 0
	for body := `{"delay_seconds":1000,"body":"` + strings.Repeat("x", 60_000) + `"}`; put < 1000; put++ {
		a := w.do("POST", jobs, ask{json: true, body: body})
		if a.status == 507 {
			a.wants(t, 507, "disk-full")
			break
		}
		a.wants(t, 201, "")
	}
	require(t, put > 0 && put < 1000, "%d jobs were put", put)
	late := fmt.Sprintf("/api/v1/jobs/%d", 2001+put)
	state := func() string {
		tube, j := get[wire.Tube](w, "/api/v1/tubes/mail"), get[wire.Job](w, late)
		return fmt.Sprint(tube.Jobs, tube.Pauses, j.Pri, j.State, j.Size)
	}
	before := state()
	for _, r := range [][3]string{
		{"POST", jobs, `{` + huge + `}`},
		{"PUT", "/api/v1/tubes/mail/pause", `{"seconds":9}`}, {"POST", "/api/v1/tubes/mail/kick", `{"count":9}`},
		{"POST", late + "/kick", ""}, {"POST", late + "/bury", ""}, {"PATCH", late, `{"pri":7}`}, {"PATCH", late, `{` + huge + `}`},
		{"POST", late + "/move", `{"to":"away"}`}, {"POST", late + "/copy", `{"to":"away"}`},
		{"POST", large + "/move", `{"to":"away"}`}, {"POST", large + "/copy", `{"to":"away"}`},
		{"POST", operations, buryMail},
		{"POST", operations, `{"action":"move","select":{"tube":"mail"},"to":"away"}`},
		{"POST", operations, `{"action":"copy","select":{"tube":"mail"},"to":"away"}`},
		{"POST", operations, `{"action":"set","select":{"tube":"mail"},"set":{"pri":1}}`},
		{"POST", operations, `{"action":"set","select":{"tube":"mail"},"set":{"ttr_seconds":1}}`},
		{"POST", operations, `{"action":"set","select":{"tube":"mail"},"set":{"delay_seconds":100}}`},
	} {
		w.do(r[0], r[1], ask{json: r[2] != "", body: r[2]}).wants(t, 507, "disk-full")
		expect(t, state() == before, "%s %s: %s, and it was %s", r[0], r[1], state(), before)
	}
	w.do("GET", "/api/v1/tubes/away", ask{}).wants(t, 404, "not-found")
	w.do("GET", "/readyz", ask{}).wants(t, 200, "").has(t, "the disk is full")
	j := get[wire.Journal](w, "/api/v1/journal")
	expect(t, j.Pressure == "full", "%+v", j)
	w.do("DELETE", late, ask{}).wants(t, 204, "")
	v := w.operation(200, `{"action":"delete","select":{"tube":"mail","states":["ready"]}}`)
	expect(t, v.Done == 2000, "deleted were %+v", v)
	gone := as[wire.Flushed](t, w.do("DELETE", jobs+"?state=delayed", ask{}).wants(t, 200, ""))
	expect(t, gone.Jobs == uint64(put), "%+v, %d were put", gone, put)
	w.do("GET", "/api/v1/tubes/mail", ask{}).wants(t, 404, "not-found") // it was removed with its last job
}

const operations = "/api/v1/operations"

// operation begins an operation and returns its value. The answer must have the status.
func (w *world) operation(status int, format string, args ...any) (v wire.Operation) {
	w.t.Helper()
	a := w.do("POST", operations, ask{json: true, body: fmt.Sprintf(format, args...)})
	if status == 200 && a.status == 202 { // a busy machine
		return w.until("/api/v1/"+a.header.Get("Location"), hangs, over)
	}
	a.wants(w.t, status, "").read(w.t, &v)
	return v
}

// TestOperationsByID: jobs of any tube, also with other conditions, and each job once.
func TestOperationsByID(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir(), maxJob: 200_000})
	w.stocked()
	var many []string
	for i := range idsMost + 1 {
		many = append(many, fmt.Sprintf("%q", fmt.Sprint(1000+i)))
	}
	for _, tt := range []struct{ ids, field string }{
		{`[]`, "select.ids"}, {`["0"]`, "select.ids[0]"}, {`["1","x"]`, "select.ids[1]"}, {`["18446744073709551616"]`, "select.ids[0]"}, {`[1]`, "select.ids"},
		{"[" + strings.Join(many, ",") + "]", "select.ids"},
	} {
		a := w.do("POST", operations, ask{json: true, body: `{"action":"delete","select":{"ids":` + tt.ids + `}}`}).wants(t, 422, "invalid")
		a.field(t, tt.field)
	}
	for _, tt := range []struct {
		what, selected                           string
		looked, matched, done, gone, held, unfit uint64
	}{
		{"any tube", `{"ids":["14","13","14","999","18446744073709551615"]}`, 2, 2, 2, 2, 0, 0},
		{"a tube", `{"ids":["13","14"],"tube":"mail"}`, 1, 1, 1, 1, 0, 0},
		{"states", `{"ids":["1","2","9","12"],"states":["ready","reserved"]}`, 4, 3, 2, 0, 1, 0},
		{"bodies", `{"ids":["1","2","13","14"],"contains":"needle"}`, 4, 2, 2, 0, 0, 0},
		{"not fit", `{"ids":["9","10"]}`, 2, 2, 0, 0, 0, 2},
		{"none", `{"ids":["998","999"]}`, 0, 0, 0, 2, 0, 0},
		{"as many as may be", `{"ids":[` + strings.Join(many[:idsMost-1], ",") + `,"5"]}`, 1, 1, 1, idsMost - 1, 0, 0},
	} {
		for _, dry := range []string{"true", "false"} {
			v := w.operation(200, `{"action":"bury","select":%s,"dry_run":%s}`, tt.selected, dry)
			if v.Looked != tt.looked || v.Matched != tt.matched || v.Skipped["gone"] != tt.gone || v.Skipped["reserved"] != tt.held || v.Skipped["unfit"] != tt.unfit ||
				v.Done != 0 && dry == "true" || v.Done != tt.done && dry == "false" || v.State != "done" {
				t.Errorf("%s, dry %s: %+v", tt.what, dry, v)
			}
			expect(t, v.IDs != 0 && v.Asked.Select.IDs == nil, "%s: %d ids, of which are shown %q", tt.what, v.IDs, v.Asked.Select.IDs)
		}
		v := w.operation(200, `{"action":"kick","select":{"all_tubes":true,"states":["buried"],"id_min":"12"}}`)
		expect(t, tt.what != "any tube" || v.Done == 2, "%+v were buried", v)
	}
	w.do("POST", operations, ask{json: true, body: `{"action":"kick","select":{"ids":["9","10","11"]},"expect_at_most":2}`}).wants(t, 409, "more-than-expected").has(t, "3 jobs are selected")
	got := w.do("POST", operations, ask{json: true, body: `{"action":"kick","select":{"ids":["9","10","11"]},"limit":2,"expect_at_most":3}`}).wants(t, 200, "")
	v := as[wire.Operation](t, got)
	expect(t, v.Matched == 2 && v.Done == 2, "%+v", v)
	expect(t, get[wire.Operation](w, "/api/v1/"+got.header.Get("Location")).ID == v.ID && get[wire.Operations](w, operations).Operations[0].ID == v.ID, "it is not in the list: %+v", v)
	w.do("DELETE", "/api/v1/"+got.header.Get("Location"), ask{}).wants(t, 204, "") // it has ended
}

// TestOperationsThatAskAtLengthAreRefused, since the server stores the request.
func TestOperationsThatAskAtLengthAreRefused(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	for _, long := range []string{
		`{"tube":"` + strings.Repeat("x", askedMost) + `"}`, `{"all_tubes":true,"states":["ready"` + strings.Repeat(`,"ready"`, askedMost/8) + `]}`,
	} {
		w.do("POST", operations, ask{json: true, body: `{"action":"kick","select":` + long + `}`}).wants(t, 422, "invalid")
	}
	all := w.web.operations.List()
	expect(t, len(all) == 0, "%d are remembered", len(all))
	for _, e := range w.web.audit.newest(10, 1<<62) {
		expect(t, len(e.Detail) <= 400 && strings.HasPrefix(e.Detail, "kick, "), "the audit has %d bytes: %.40s", len(e.Detail), e.Detail)
	}
}

// TestDryRunForesees what each action does to jobs in all states, and changes nothing.
func TestDryRunForesees(t *testing.T) {
	for _, action := range []string{
		`"action":"delete"`, `"action":"delete","force":true`, `"action":"kick"`, `"action":"kick","force":true`, `"action":"bury"`, `"action":"bury","force":true`,
		`"action":"release"`, `"action":"set","set":{"pri":7}`, `"action":"set","set":{"delay_seconds":70}`, `"action":"set","set":{"ttr_seconds":70},"force":true`,
		`"action":"delete","limit":10`,
	} {
		w := newWorld(t, setup{anonymous: "operate", maxJob: 200_000})
		w.stocked()
		before := w.list("/api/v1/jobs", "state=ready,delayed,reserved,buried")
		dry := w.operation(200, `{%s,"select":{"all_tubes":true},"dry_run":true}`, action)
		after := w.list("/api/v1/jobs", "state=ready,delayed,reserved,buried")
		for i := range after {
			after[i].AgeSeconds, after[i].StateSeconds, after[i].LeftSeconds = before[i].AgeSeconds, before[i].StateSeconds, before[i].LeftSeconds
		}
		was, _ := json.Marshal(before)
		is, _ := json.Marshal(after)
		expect(t, string(is) == string(was) && dry.Done == 0 && dry.DryRun && dry.ToLook == 14, "%s: something was changed: %+v", action, dry)
		run := w.operation(200, `{%s,"select":{"all_tubes":true},"as_of":%q}`, action, dry.AsOf)
		skipped := uint64(0)
		for _, n := range run.Skipped {
			skipped += n
		}
		if run.Matched != dry.Matched || fmt.Sprint(run.Skipped) != fmt.Sprint(dry.Skipped) || run.Done+skipped != run.Matched || run.AsOf != dry.AsOf || run.Unconfirmed != 0 {
			t.Errorf("%s: foreseen was %+v, and came %+v", action, dry, run)
		}
	}
}

// TestMomentsAreRead as they were written, by this process and by the next one.
func TestMomentsAreRead(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	other := newWorld(t, setup{anonymous: "operate"})
	now := w.srv.Operator().Moment()
	text := w.web.asOfText(now)
	if got, err := w.web.readAsOf(text); err != nil || got != now {
		t.Errorf("%q is read as %d, %v, and was %d", text, got, err, now)
	}
	got, err := other.web.readAsOf(text) // both use the clock of the machine
	expect(t, err == nil && got-now <= 60*core.Second && now-got <= 60*core.Second, "another process reads %q as %d, %v, and it was %d", text, got, err, now)
	if got, err := w.web.readAsOf("2024-02-29T12:00:00Z"); err != nil || got != core.Time(time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC).UnixNano()) {
		t.Errorf("a time of day: %d, %v", got, err)
	}
	for _, bad := range []string{"0", "x", text + "g", text[:len(text)-17], strings.Replace(text, "Z.", "Z", 1), "2999-01-01T00:00:00Z", "1969-12-31T00:00:00Z", w.web.asOfText(now + 3600*core.Second), "2024-02-30T12:00:00Z", "Z." + w.web.asOfProcess()} {
		if got, err := w.web.readAsOf(bad); err == nil && bad != text[:len(text)-17] {
			t.Errorf("%q is read as %d", bad, got)
		} else if p, ok := errors.AsType[*wire.Problem](err); err != nil && (!ok || p.Field != "as_of") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestTimesToRunAreSetInMany: this records whole jobs, also large ones. A body can only be set in a
// single job.
func TestTimesToRunAreSetInMany(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, setup{anonymous: "operate", dir: dir, maxJob: 200_000, unstarted: true})
	w.start()
	w.stocked()
	for i := range 40 {
		w.putOne(ask{header: octets, body: strings.Repeat("x", 1+4999*i)}, "?pri=9")
	}
	for _, name := range []string{"body", "body_base64"} {
		a := w.do("POST", operations, ask{json: true, body: `{"action":"set","select":{"tube":"mail"},"set":{"pri":1,"` + name + `":"eA=="}}`}).wants(t, 422, "invalid")
		p := a.problem(t)
		expect(t, p.Field == "set."+name && strings.Contains(p.Remedy, "PATCH"), "%+v", p)
	}
	v := w.operation(200, `{"action":"set","select":{"all_tubes":true},"set":{"pri":3,"ttr_seconds":4321}}`)
	expect(t, v.Matched == 54 && v.Done == 53 && v.Skipped["reserved"] == 1, "%+v", v)
	check := func(list []wire.Job) {
		t.Helper()
		for _, j := range list {
			held := j.ID == 12
			expect(t, (held || j.TTRSeconds == 4321 && j.Pri == 3) && (!held || j.TTRSeconds == 1000), "%+v", j)
		}
		expect(t, len(list) == 54, "%d jobs", len(list))
	}
	check(w.list("/api/v1/jobs", "state=ready,delayed,reserved,buried"))
	noErr(t, w.srv.Shutdown(context.Background()))
	again := newWorld(t, setup{anonymous: "operate", dir: dir, maxJob: 200_000})
	check(again.list("/api/v1/jobs", "state=ready,delayed,reserved,buried"))
}

// TestAsOfHoldsAfterARestart: jobs put before as_of are deleted, and later jobs stay.
func TestAsOfHoldsAfterARestart(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, setup{anonymous: "operate", dir: dir, maxJob: 200_000, unstarted: true})
	w.start()
	w.stocked()
	v := w.operation(200, `{"action":"delete","select":{"tube":"mail"},"force":true,"dry_run":true}`)
	late := w.putOne(ask{json: true, body: `{"delay_seconds":900}`}, "")
	w.do("POST", "/api/v1/jobs/9/kick", ask{}).wants(t, 204, "")
	noErr(t, w.srv.Shutdown(context.Background()))
	again := newWorld(t, setup{anonymous: "operate", dir: dir, maxJob: 200_000})
	v = again.operation(200, `{"action":"delete","select":{"tube":"mail"},"force":true,"as_of":%q,"expect_at_most":13}`, v.AsOf)
	expect(t, v.Done == 12 && v.Matched == 12, "%+v", v)
	again.do("GET", late, ask{}).wants(t, 200, "")
	got := idsOf(again.list("/api/v1/tubes/mail/jobs", "state=ready,delayed,reserved,buried"))
	expect(t, slices.Equal(got, []uint64{9, 15}), "%d are left", got)
	// For a tube that was removed meanwhile, there is nothing to do.
	again.operation(200, `{"action":"delete","select":{"tube":"mail"}}`)
	v = again.operation(200, `{"action":"delete","select":{"tube":"mail"},"as_of":%q}`, v.AsOf)
	expect(t, v.Matched == 0, "%+v", v)
}

// TestReadersSeeOperationsWithoutWhatWasLookedFor: the text and the number of matches would reveal
// parts of bodies.
func TestReadersSeeOperationsWithoutWhatWasLookedFor(t *testing.T) {
	w := newWorld(t, setup{maxJob: 200_000})
	w.do("POST", "/api/v1/tubes/mail/jobs", ask{token: operateToken, json: true, body: `{"body":"needle"}`}).wants(t, 201, "")
	w.do("POST", operations, ask{token: operateToken, json: true, body: `{"action":"bury","select":{"tube":"mail","contains":"needle"}}`}).wants(t, 200, "")
	for token, want := range map[string]string{readToken: "", bodiesToken: "needle", operateToken: "needle"} {
		v := get[wire.Operation](w, operations+"/1", token)
		expect(t, v.Asked.Select.Contains == want && v.Asked.Action == "bury" && *v.Asked.Select.Tube == "mail" && v.Name == "worker", "%+v", v)
	}
}

// bulk runs an operation on the tube mail, or on all tubes.
func (w *world) bulk(b admin.Bulk) (admin.Tally, error) {
	var p admin.Progress
	if b.AtMost == 0 {
		b.AtMost = math.MaxUint64
	}
	err := w.srv.Operator().RunBulk(context.Background(), &b, &p)
	return p.Tally(), err
}

// A heldDisk is a directory with files that become durable on demand: see hold and let.
type heldDisk struct {
	wal.Disk
	mu   sync.Mutex
	held chan struct{} // nil: open
}

type heldFile struct {
	wal.File
	disk *heldDisk
}

// hold makes syncs wait from now on.
func (d *heldDisk) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = make(chan struct{})
}

// let ends the hold, for waiting and later syncs.
func (d *heldDisk) let() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != nil {
		close(d.held)
		d.held = nil
	}
}

func (d *heldDisk) Create(name string) (wal.File, error) {
	f, err := d.Disk.Create(name)
	return &heldFile{f, d}, err
}

func (d *heldDisk) Open(name string) (wal.File, error) {
	f, err := d.Disk.Open(name)
	return &heldFile{f, d}, err
}

func (f *heldFile) Sync() error {
	f.disk.mu.Lock()
	held := f.disk.held
	f.disk.mu.Unlock()
	if held != nil {
		<-held
	}
	return f.File.Sync()
}

// newHeld returns a world with a heldDisk, and n jobs in the tube mail.
func newHeld(t *testing.T, jobs int) (*world, *heldDisk) {
	dir := t.TempDir()
	d := &heldDisk{Disk: wal.Dir(dir)}
	w := newWorld(t, setup{anonymous: "operate", dir: dir, disk: d})
	t.Cleanup(d.let)
	w.fill(jobs)
	return w, d
}

// fill puts n jobs into the tube mail.
func (w *world) fill(jobs int) {
	w.t.Helper()
	conn := w.connect(w.srv.Serve)
	go func() {
		out := bufio.NewWriterSize(conn, 1<<16)
		io.WriteString(out, "use mail\r\n")
		for range jobs {
			io.WriteString(out, "put 5 0 100 1\r\nx\r\n")
		}
		out.Flush()
	}()
	in := bufio.NewReaderSize(conn, 1<<16)
	for range jobs + 1 {
		_, err := in.ReadString('\n')
		noErr(w.t, err)
	}
	conn.Close()
}

// shows returns the progress of an operation.
func (w *world) shows(at string) (v wire.Operation) {
	w.t.Helper()
	w.do("GET", at, ask{}).wants(w.t, 200, "").read(w.t, &v)
	return v
}

// until waits until an operation fulfils a condition.
func (w *world) until(at string, within time.Duration, as func(v *wire.Operation) bool) (v wire.Operation) {
	w.t.Helper()
	for start := time.Now(); time.Since(start) < within; time.Sleep(2 * time.Millisecond) {
		if v = w.shows(at); as(&v) {
			return v
		}
	}
	w.t.Fatalf("after %v it is %+v", within, v)
	return v
}

func over(v *wire.Operation) bool { return v.Ended != nil }

// begin begins an operation that does not end soon, and returns its path.
func (w *world) begin(body string) string {
	w.t.Helper()
	a := w.do("POST", operations, ask{json: true, body: body}).wants(w.t, 202, "")
	return "/api/v1/" + a.header.Get("Location")
}

// audited returns the entries of the audit about operations that have ended after their answer.
func (w *world) audited() (list []wire.Entry) {
	w.t.Helper()
	for _, e := range w.audit("") {
		if strings.HasPrefix(e.Detail, "operation ") {
			list = append(list, e)
		}
	}
	return list
}

const buryMail = `{"action":"bury","select":{"tube":"mail"}}`

// TestLongOperationIsFollowed: jobs that it reports as done are durable at any time. Its end is
// audited and logged, with the client.
func TestLongOperationIsFollowed(t *testing.T) {
	const jobs = 10_000
	w, disk := newHeld(t, jobs)
	disk.hold()
	at := w.begin(buryMail)
	v := w.until(at, hangs, func(v *wire.Operation) bool { return v.Unconfirmed >= 4096 })
	if v.State != "running" || v.Done != 0 || v.Matched < v.Unconfirmed || v.Looked < v.Matched || v.ToLook != jobs || v.Matched == jobs || v.Ended != nil {
		t.Errorf("while the disk does nothing: %+v", v)
	}
	time.Sleep(50 * time.Millisecond)
	again := w.shows(at)
	expect(t, again.Matched == v.Matched, "it goes on although nothing becomes durable: %+v, then %+v", v, again)
	e := w.audited()
	expect(t, len(e) == 0, "%+v", e)
	disk.let()
	v = w.until(at, hangs, over)
	expect(t, v.State == "done" && v.Done == jobs && v.Unconfirmed == 0 && v.Problem == nil && v.Looked == jobs && v.Matched == jobs, "%+v", v)
	list := w.audited()
	for start := time.Now(); len(list) == 0 && time.Since(start) < hangs; list = w.audited() {
		time.Sleep(time.Millisecond)
	}
	if len(list) != 1 || list[0].Affected != jobs || list[0].Status != 200 || list[0].Role != "operate" || !strings.Contains(list[0].Detail, `operation 1 done after `) ||
		!strings.Contains(list[0].Detail, `bury, tube "mail"`) || list[0].Path != operations {
		t.Errorf("%+v", list)
	}
	log := w.logged.String()
	expect(t, strings.Contains(log, "affected=10000") && strings.Contains(log, list[0].RequestID), "the log has no line about it: %s", log)
}

// TestCancelEndsSoon, whatever the operation waits for. The same operation again changes the
// remaining jobs.
func TestCancelEndsSoon(t *testing.T) {
	long(t)
	const jobs = 10_000
	w, disk := newHeld(t, jobs)
	disk.hold()
	running := w.begin(buryMail)
	waiting := w.begin(`{"action":"delete","select":{"tube":"mail"}}`)
	w.until(running, hangs, func(v *wire.Operation) bool { return v.Unconfirmed >= 4096 })
	cancel := func(at string) wire.Operation {
		t.Helper()
		w.do("DELETE", at, ask{token: operateToken}).wants(t, 204, "")
		return w.until(at, hangs, over)
	}
	v := cancel(waiting)
	expect(t, v.State == "cancelled" && v.Looked == 0 && v.Problem != nil && strings.Contains(v.Problem.Detail, `by the identity "worker"`), "the one that waits: %+v, %+v", v, v.Problem)
	v = cancel(running)
	expect(t, v.State == "cancelled" && v.Done == 0 && v.Unconfirmed >= 4096 && v.Unconfirmed+v.Skipped["unfit"] == v.Matched, "the one that runs: %+v", v)
	w.do("DELETE", running, ask{}).wants(t, 204, "") // again, without an effect
	for start := time.Now(); len(w.audited()) != 2; time.Sleep(time.Millisecond) {
		require(t, time.Since(start) <= hangs, "%d ends are audited", len(w.audited()))
	}
	disk.let()
	rest := w.operation(200, `{"action":"bury","select":{"tube":"mail","states":["ready"]},"as_of":%q}`, v.AsOf)
	expect(t, rest.Done+v.Unconfirmed == jobs && len(rest.Skipped) == 0, "%d were done, and then %+v", v.Unconfirmed, rest)
	metrics := w.do("GET", "/metrics", ask{}).body
	for _, line := range []string{
		`operations_total{action="bury",result="cancelled"} 1`, `operations_total{action="delete",result="cancelled"} 1`, `operations_total{action="bury",result="done"} 1`,
		fmt.Sprintf(`jobs_total{action="bury",result="done"} %d`, rest.Done),
	} {
		expect(t, strings.Contains(metrics, "polystalk_operator_"+line+"\n"), "the metrics have no %s", line)
	}
}

// TestOperationEndsWithTheRightsOfItsClient, also one that waits for its turn. The problem names the
// right that is gone.
func TestOperationEndsWithTheRightsOfItsClient(t *testing.T) {
	long(t)
	const jobs = 10_000
	w, disk := newHeld(t, jobs)
	for _, tt := range []struct{ body, before, after, detail string }{
		{buryMail, `manage = ["mail"]`, `look = ["*"]`, `the verb manage on the tube "mail"`},
		{`{"action":"move","select":{"tube":"mail"},"to":"moved"}`, "manage = [\"mail\"]\nput = [\"moved\"]", `manage = ["mail"]`, `the verb put on the tube "moved"`},
		{`{"action":"bury","select":{"tube":"mail","contains":"x"}}`, `role = "admin"`, "manage = [\"mail\"]\nbodies = \"none\"", `job bodies`},
		{buryMail, `manage = ["mail"]`, "", `the verb manage on the tube "mail"`},
		{`{"action":"delete","select":{"all_tubes":true}}`, `manage = ["*"]`, `manage = ["mail"]`, `the verb manage on every tube`},
	} {
		w.do("POST", operations, ask{json: true, body: `{"action":"kick","select":{"tube":"mail"}}`})
		rights := func(text string) { w.reload(accessText() + identity("web", webToken, text)) }
		rights(tt.before)
		disk.hold()
		begin := func(body string) string {
			a := w.do("POST", operations, ask{json: true, body: body, token: webToken}).wants(t, 202, "")
			return "/api/v1/" + a.header.Get("Location")
		}
		running, waiting := begin(tt.body), begin(tt.body)
		w.until(running, hangs, func(v *wire.Operation) bool { return v.Matched >= 256 })
		rights(tt.after)
		disk.let()
		for _, at := range []string{running, waiting} {
			v := w.until(at, hangs, over)
			expect(t, v.State == "failed" && v.Problem != nil && strings.Contains(v.Problem.Detail, tt.detail), "%s: %+v, %+v", tt.body, v, v.Problem)
			expect(t, v.Done+v.Unconfirmed < jobs, "%s: it goes on: %+v", tt.body, v)
		}
	}
}

// TestServerThatEndsEndsOperations: running and waiting operations are cancelled within the time of
// the shutdown, and no goroutine is left.
func TestServerThatEndsEndsOperations(t *testing.T) {
	long(t)
	for _, within := range []time.Duration{10 * time.Second, 100 * time.Millisecond} {
		w, disk := newHeld(t, 10_000)
		disk.hold()
		running := w.begin(buryMail)
		w.begin(buryMail)
		w.until(running, hangs, func(v *wire.Operation) bool { return v.Unconfirmed >= 4096 })
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		if within > time.Second {
			time.AfterFunc(300*time.Millisecond, disk.let)
		}
		w.web.Stop(ctx)
		for _, op := range w.web.operations.List() {
			select {
			case <-op.Done():
			case <-time.After(hangs / 2):
				t.Fatalf("within %v: operation %d goes on", within, op.ID)
			}
			state, _, err := op.State()
			if tally := op.Tally(); state != "cancelled" || err == nil || !strings.Contains(err.Error(), "the server stops") || within > time.Second && tally.Unconfirmed != 0 {
				t.Errorf("within %v: operation %d is %s, %v: %+v", within, op.ID, state, err, tally)
			}
		}
		buf := make([]byte, 1<<20)
		left := func() string { return string(buf[:runtime.Stack(buf, true)]) }
		for start := time.Now(); strings.Contains(left(), "polystalk/router/admin."); time.Sleep(10 * time.Millisecond) {
			if time.Since(start) > hangs/2 {
				t.Fatal(left())
			}
		}
		disk.let()
	}
}

// A stumbling action panics.
type stumbling struct{ admin.Verb }

func (stumbling) Do(context.Context, *admin.Operator, *admin.Step) error { panic("stumbled") }

// TestOperationThatPanicsHasFailed; other operations continue.
func TestOperationThatPanicsHasFailed(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	w.fill(3)
	w.web.handle([]route{{pattern: "POST /stumble", need: manage, handler: func(c *call) error {
		b := admin.Bulk{Action: stumbling{admin.Verb{Action: core.Action{Verb: core.VerbKick}}}, AtMost: math.MaxUint64}
		b.Jobs.Tube = "mail"
		return w.web.beginOperation(c, new(wire.NewOperation), b)
	}}})
	a := w.do("POST", "/stumble", ask{}).wants(t, 500, "internal")
	log := w.logged.String()
	expect(t, strings.Contains(log, "stumbled") && strings.Contains(log, a.problem(t).RequestID), "the log does not say where: %s", log)
	v := w.operation(200, buryMail)
	expect(t, v.Done == 3, "%+v", v)
	body := w.do("GET", "/metrics", ask{}).body
	expect(t, strings.Contains(body, `polystalk_operator_operations_total{action="kick",result="internal"} 1`), "it is not counted")
}
