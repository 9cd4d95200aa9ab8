package http

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// TestOperationsRunOneAfterTheOther: and are remembered, and can be cancelled while they wait.
func TestOperationsRunOneAfterTheOther(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, maxJob: 200_000})
	w.stocked()
	l := admin.NewOperations(w.srv.Operator())
	b := admin.Bulk{Jobs: admin.JobQuery{Tube: "mail", Filter: core.Filter{MaxID: 5}}, AtMost: math.MaxUint64, Action: admin.Verb{Action: core.Action{Verb: core.VerbDelete}}}
	var over sync.WaitGroup
	role := "operate"
	begin := func(ctx context.Context) (*admin.Operation, error) {
		over.Add(1)
		op, err := l.Begin(ctx, admin.Asked{Bulk: b, Name: "me", Role: role, Request: "r"}, over.Done)
		if err != nil {
			over.Done()
		}
		return op, err
	}
	op, err := begin(t.Context())
	noErr(t, err)
	select {
	case <-op.Done():
	case <-time.After(hangs):
		t.Fatal("it has no end")
	}
	if state, ended, err := op.State(); state != "done" || ended.IsZero() || err != nil || op.Tally().Done != 5 {
		t.Errorf("%s, %v, %+v", state, err, op.Tally())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	op, err = begin(ctx)
	noErr(t, err)
	<-op.Done()
	if state, _, err := op.State(); state != "cancelled" || err == nil {
		t.Errorf("%s, %v", state, err)
	}
	for range 300 {
		if _, err := begin(ctx); err != nil {
			p, ok := errors.AsType[*wire.Problem](err)
			if !ok || !strings.HasSuffix(p.Type, "busy") {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
	}
	over.Wait()
	all := l.List()
	expect(t, len(all) <= 100 && l.Find(all[0].ID) == all[0] && l.Find(1) == nil, "%d are remembered", len(all))
	role = "admin"
	if _, err := begin(ctx); err != nil || len(l.List()) != len(all)+1 {
		t.Errorf("another role has %d remembered, %v", len(l.List())-len(all), err)
	}
	over.Wait()
}

func TestOperationsByHTTP(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), maxJob: 200_000})
	w.stocked()
	const path = "/api/v1/operations"
	run := func(body string) *answer { return w.do("POST", path, ask{json: true, body: body}) }
	for _, tt := range []struct {
		body   string
		status int
		slug   string
	}{
		{`{}`, 422, "invalid"},
		{`{"action":"eat","select":{"tube":"mail"}}`, 422, "invalid"},
		{`{"action":"delete","select":{}}`, 422, "invalid"},
		{`{"action":"delete","select":{"tube":"mail","all_tubes":true}}`, 422, "invalid"},
		{`{"action":"delete","select":{"tube":"mail","states":["dead"]}}`, 422, "invalid"},
		{`{"action":"delete","select":{"tube":"mail"},"set":{"pri":1}}`, 422, "invalid"},
		{`{"action":"set","select":{"tube":"mail"}}`, 422, "invalid"},
		{`{"action":"delete","select":{"tube":"mail"},"as_of":"0"}`, 422, "invalid"},
		{`{"action":"delete","select":{"tube":"mail"},"expect_at_most":11}`, 409, "more-than-expected"},
		{`{"action":"delete","select":{"tube":"nobody"}}`, 404, "not-found"},
	} {
		run(tt.body).wants(t, tt.status, tt.slug)
	}
	v := as[wire.Operation](t, run(`{"action":"delete","select":{"tube":"mail"},"dry_run":true}`).wants(t, 200, ""))
	expect(t, v.State == "done" && v.Matched == 13 && v.Done == 0 && v.AsOf != "", "%+v", v)
	w.putOne(ask{json: true, body: `{}`}, "")
	got := run(`{"action":"delete","select":{"tube":"mail"},"as_of":"`+v.AsOf+`","expect_at_most":13}`).wants(t, 200, "")
	v = wire.Operation{}
	got.read(t, &v)
	expect(t, v.Done == 12 && v.Skipped["reserved"] == 1, "%+v", v)
	w.do("GET", "/api/v1/"+got.header.Get("Location"), ask{}).wants(t, 200, "")
	w.do("DELETE", "/api/v1/"+got.header.Get("Location"), ask{}).wants(t, 204, "")
	w.do("GET", path+"/999", ask{}).wants(t, 404, "not-found")
	all := get[wire.Operations](w, path)
	expect(t, len(all.Operations) == 4 && all.Operations[0].Done == 12, "%+v", all)
	n := len(w.list("/api/v1/tubes/mail/jobs", ""))
	expect(t, n == 2, "%d jobs are left", n)
}
