package member

import (
	"context"
	"errors"
	"fmt"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/cluster"
)

// A change that the next leader may commit is reported neither as not done nor as safe to repeat.
func TestProposedChangeIsUncertain(t *testing.T) {
	for _, cause := range []error{cluster.ErrNotLeader, cluster.ErrEnded, context.DeadlineExceeded} {
		err := new(Member).explain(fmt.Errorf("%w: %w", cluster.ErrUncertain, cause))
		p, ok := errors.AsType[*wire.Problem](err)
		if !ok || p.Type != wire.ProblemPath+wire.Uncertain.Slug {
			t.Errorf("%v: %v", cause, err)
		}
	}
	err := new(Member).explain(cluster.ErrEnded)
	if p, ok := errors.AsType[*wire.Problem](err); !ok || p.Type != wire.ProblemPath+wire.Stopping.Slug {
		t.Errorf("a server that has ended: %v", err)
	}
}

func TestLeaderIsNamed(t *testing.T) {
	m := &Member{id: cluster.Identity{Name: "jobs2"}}
	if err := m.explain(cluster.ErrSelf); !isRefused(err, "jobs2 leads: have another one lead first: polystalk cluster transfer") {
		t.Error(err)
	}
}
