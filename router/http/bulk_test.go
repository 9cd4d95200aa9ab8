package http

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// bulk runs an operation on the tube mail, or on all tubes.
func (w *world) bulk(b admin.Bulk) (admin.Tally, error) {
	var p admin.Progress
	if b.AtMost == 0 {
		b.AtMost = math.MaxUint64
	}
	err := w.srv.Operator().RunBulk(context.Background(), &b, &p)
	return p.Tally(), err
}

// TestBulkTouchesWhatWasCounted: and no job that came into its state later.
func TestBulkTouchesWhatWasCounted(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), maxJob: 200_000})
	w.stocked()
	mail := admin.JobQuery{Tube: "mail"}
	counted, err := w.bulk(admin.Bulk{Jobs: mail, DryRun: true, Action: admin.Verb{Action: core.Action{Verb: core.VerbDelete}}})
	if err != nil || counted.Matched != 13 || counted.Done != 0 || counted.AsOf == 0 {
		t.Fatalf("%+v, %v", counted, err)
	}
	w.do("POST", "/api/v1/jobs/6/kick", ask{}).wants(t, 204, "")
	late := w.putOne(ask{json: true, body: `{}`}, "")
	got, err := w.bulk(admin.Bulk{Jobs: mail, AsOf: counted.AsOf, Action: admin.Verb{Action: core.Action{Verb: core.VerbDelete}}})
	if err != nil || got.Matched != 12 || got.Done != 11 || got.Skipped[core.StatusInUse] != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, path := range []string{"/api/v1/jobs/6", "/api/v1/jobs/12", "/api/v1/jobs/14", late} {
		w.do("GET", path, ask{}).wants(t, 200, "")
	}
	if left := w.list("/api/v1/tubes/mail/jobs", ""); len(left) != 3 {
		t.Errorf("%d", idsOf(left))
	}
}

func TestBulkSelects(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), maxJob: 200_000})
	w.stocked()
	for _, tt := range []struct {
		what          string
		bulk          admin.Bulk
		matched, done uint64
		state         string // of the tube mail, and how many are in it then
		in            int
	}{
		{"kick", admin.Bulk{Jobs: admin.JobQuery{Tube: "mail", Filter: core.Filter{States: core.StatesOf(core.Delayed)}}, Limit: 2, Action: admin.Verb{Action: core.Action{Verb: core.VerbKick}}}, 2, 2, "delayed", 1},
		{"bury what contains", admin.Bulk{Jobs: admin.JobQuery{AllTubes: true, Filter: core.Filter{Contains: []byte("needle")}}, Action: admin.Verb{Action: core.Action{Verb: core.VerbBury}}}, 2, 2, "buried", 4},
		{"release", admin.Bulk{Jobs: admin.JobQuery{Tube: "mail", Filter: core.Filter{States: core.StatesOf(core.Reserved)}}, Action: admin.Verb{Action: core.Action{Verb: core.VerbRelease, Force: true}}}, 1, 1, "reserved", 0},
		{"set", admin.Bulk{Jobs: admin.JobQuery{Tube: "mail", Filter: core.Filter{MaxID: 5}}, AtMost: 5, Action: admin.Verb{Action: core.Action{Verb: core.VerbSet, Changes: core.ChangeDelay, Delay: 500}}}, 5, 5, "delayed", 6},
		{"nothing", admin.Bulk{Jobs: admin.JobQuery{Tube: "mail", OlderThan: 5000 * core.Second}, Action: admin.Verb{Action: core.Action{Verb: core.VerbDelete}}}, 0, 0, "delayed", 6},
	} {
		got, err := w.bulk(tt.bulk)
		if err != nil || got.Matched != tt.matched || got.Done != tt.done {
			t.Errorf("%s: %+v, %v", tt.what, got, err)
		}
		if n := len(w.list("/api/v1/tubes/mail/jobs", "state="+tt.state)); n != tt.in {
			t.Errorf("%s: %d are %s, want %d", tt.what, n, tt.state, tt.in)
		}
	}
}

func TestBulkThatIsRefusedChangesNothing(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, maxJob: 200_000})
	w.stocked()
	mail := admin.JobQuery{Tube: "mail"}
	remove := admin.Verb{Action: core.Action{Verb: core.VerbDelete, Force: true}}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for slug, run := range map[string]func() error{
		"more-than-expected": func() error { _, err := w.bulk(admin.Bulk{Jobs: mail, AtMost: 12, Action: remove}); return err },
		"not-found": func() error {
			_, err := w.bulk(admin.Bulk{Jobs: admin.JobQuery{Tube: "nobody"}, Action: remove})
			return err
		},
		"cancelled": func() error {
			return w.srv.Operator().RunBulk(ended, &admin.Bulk{Jobs: mail, AtMost: math.MaxUint64, Action: remove}, new(admin.Progress))
		},
	} {
		p, ok := errors.AsType[*wire.Problem](run())
		if !ok || !strings.HasSuffix(p.Type, slug) {
			t.Errorf("%s: %v", slug, p)
		}
	}
	if n := len(w.list("/api/v1/tubes/mail/jobs", "")); n != 13 {
		t.Errorf("%d jobs are left", n)
	}
}
