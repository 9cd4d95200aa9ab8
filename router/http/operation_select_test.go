package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

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
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), maxJob: 200_000})
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
		{"a tube", `{"ids":["13","14"],"tube":"mail"}`, 2, 1, 1, 0, 0, 0},
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
	w.do("POST", operations, ask{json: true, body: `{"action":"kick","select":{"ids":["9","10","11"]},"expect_at_most":2}`}).wants(t, 409, "more-than-expected")
	v := w.operation(200, `{"action":"kick","select":{"ids":["9","10","11"]},"limit":2}`)
	expect(t, v.Matched == 2 && v.Done == 2, "%+v", v)
}

// TestOperationsThatAskAtLengthAreRefused, since the server stores the request.
func TestOperationsThatAskAtLengthAreRefused(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
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

// TestTubesOfAnyNameAreSelected, also names that are not UTF-8.
func TestTubesOfAnyNameAreSelected(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	w.function("a/\xff")
	w.do("POST", "/api/v1/tubes/a%2F%FF/jobs", ask{json: true, body: `{"body":"x"}`}).wants(t, 201, "")
	v := w.operation(200, `{"action":"bury","select":{"tube_path":"a%%2F%%FF"}}`)
	expect(t, v.Done == 1, "%+v", v)
}

// TestDryRunForesees what each action does to jobs in all states, and changes nothing.
func TestDryRunForesees(t *testing.T) {
	for _, action := range []string{
		`"action":"delete"`, `"action":"delete","force":true`, `"action":"kick"`, `"action":"kick","force":true`, `"action":"bury"`, `"action":"bury","force":true`,
		`"action":"release"`, `"action":"set","set":{"pri":7}`, `"action":"set","set":{"delay_seconds":70}`, `"action":"set","set":{"ttr_seconds":70},"force":true`,
		`"action":"delete","limit":10`,
	} {
		w := newWorld(t, setup{anonymous: access.Operate, maxJob: 200_000})
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
	w := newWorld(t, setup{anonymous: access.Operate})
	other := newWorld(t, setup{anonymous: access.Operate})
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
	w := newWorld(t, setup{anonymous: access.Operate, dir: dir, maxJob: 200_000, unstarted: true})
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
	again := newWorld(t, setup{anonymous: access.Operate, dir: dir, maxJob: 200_000})
	check(again.list("/api/v1/jobs", "state=ready,delayed,reserved,buried"))
}

// TestAsOfHoldsAfterARestart: jobs put before as_of are deleted, and later jobs stay.
func TestAsOfHoldsAfterARestart(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, setup{anonymous: access.Operate, dir: dir, maxJob: 200_000, unstarted: true})
	w.start()
	w.stocked()
	v := w.operation(200, `{"action":"delete","select":{"tube":"mail"},"force":true,"dry_run":true}`)
	late := w.putOne(ask{json: true, body: `{"delay_seconds":900}`}, "")
	w.do("POST", "/api/v1/jobs/9/kick", ask{}).wants(t, 204, "")
	noErr(t, w.srv.Shutdown(context.Background()))
	again := newWorld(t, setup{anonymous: access.Operate, dir: dir, maxJob: 200_000})
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
