package wire

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/e2e/operator"
	"polystalk/codec/conversation"
)

// TestRandomSessionsAgreeBesideAnOperator is TestRandomSessionsAgree with somebody who
// operates our server by HTTP meanwhile. In stats his own jobs are left out; nothing else may
// differ.
func TestRandomSessionsAgreeBesideAnOperator(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	program, unquoted := daemon.Reference(t)
	for _, shards := range daemon.ShardCounts {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			dir := daemon.ShortDir(t)
			var all []*operator.Operator
			var n atomic.Int64
			companion := func() conversation.Companion {
				o := operator.New(filepath.Join(dir, fmt.Sprint(n.Add(1))), *daemon.Seed)
				all = append(all, o)
				return o
			}
			count := max(1, *daemon.Sessions/2)
			report, seed, err := conversation.CompareBeside(program, daemon.Program(t), daemon.ShardArgs(shards), companion, unquoted, *daemon.Seed, count, *daemon.Commands)
			if err != nil {
				t.Error(err)
			}
			if report != "" {
				t.Errorf("%s\n\nagain with: go test ./cmd/polystalkd/e2e/wire -run '%s' -sessions 2 -commands %d -seed %d", report, t.Name(), *daemon.Commands, seed)
			}
			did := map[string]int{}
			for _, o := range all {
				for what, n := range o.Did() {
					did[what] += n
				}
			}
			for _, what := range []string{"look", "list", "look at a job", "edited to the same", "put", "edit", "kick", "bury", "delete", "bulk", "pause", "move", "copy", "move many", "flush"} {
				if did[what] == 0 {
					t.Errorf("%s: never in %v", what, did)
				}
			}
			t.Logf("the operator's: %v", did)
		})
	}
}
