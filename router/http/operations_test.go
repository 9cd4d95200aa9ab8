package http

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// TestOperationsOfARoleAreForgotten, the oldest ended one first; operations of other roles are not.
// When too many wait, a new one is refused.
func TestOperationsOfARoleAreForgotten(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
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

func TestOperationsByHTTP(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), maxJob: 200_000})
	w.stocked()
	const path = "/api/v1/operations"
	run := func(body string) *answer { return w.do("POST", path, ask{json: true, body: body}) }
	run(`{"action":"delete","select":{"tube":"mail"},"expect_at_most":11}`).wants(t, 409, "more-than-expected").has(t, "13 jobs are selected")
	v := as[wire.Operation](t, run(`{"action":"delete","select":{"tube":"mail"},"dry_run":true}`).wants(t, 200, ""))
	expect(t, v.State == "done" && v.Matched == 13 && v.Done == 0 && v.AsOf != "", "%+v", v)
	w.putOne(ask{json: true, body: `{}`}, "")
	got := run(`{"action":"delete","select":{"tube":"mail"},"as_of":"`+v.AsOf+`","expect_at_most":13}`).wants(t, 200, "")
	v = wire.Operation{}
	got.read(t, &v)
	expect(t, v.Done == 12 && v.Skipped["reserved"] == 1, "%+v", v)
	w.do("GET", "/api/v1/"+got.header.Get("Location"), ask{}).wants(t, 200, "")
	w.do("DELETE", "/api/v1/"+got.header.Get("Location"), ask{}).wants(t, 204, "")
	all := get[wire.Operations](w, path)
	expect(t, len(all.Operations) == 3 && all.Operations[0].Done == 12, "%+v", all)
	n := len(w.list("/api/v1/tubes/mail/jobs", ""))
	expect(t, n == 2, "%d jobs are left", n)
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
	w := newWorld(t, setup{anonymous: access.Operate, dir: dir, disk: disk, maxJob: 1 << 20})
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
