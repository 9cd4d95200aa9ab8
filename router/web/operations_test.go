package web

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
	b := admin.Bulk{Jobs: admin.JobQuery{Tube: "mail", Filter: core.Filter{MaxID: 5}}, AtMost: math.MaxUint64, Action: core.Action{Verb: core.VerbDelete}}
	var over sync.WaitGroup
	begin := func(ctx context.Context) (*admin.Operation, error) {
		over.Add(1)
		op, err := l.Begin(ctx, b, "me", over.Done)
		if err != nil {
			over.Done()
		}
		return op, err
	}
	op, err := begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-op.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it has no end")
	}
	if state, ended, err := op.State(); state != "done" || ended.IsZero() || err != nil || op.Tally().Done != 5 {
		t.Errorf("%s, %v, %+v", state, err, op.Tally())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	op, err = begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
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
	if all := l.List(); len(all) > 100 || l.Find(all[0].ID) != all[0] || l.Find(1) != nil {
		t.Errorf("%d are remembered", len(all))
	}
}
