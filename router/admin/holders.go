package admin

import (
	"cmp"
	"context"
	"slices"

	"polystalk/router/direct"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// heldJobs are the jobs that a connection holds, without their bodies: those first that it
// has held for longest.
func heldJobs(c *direct.Caller, p *session.Snapshot) (rows []JobRow) {
	for _, place := range p.Client.Places {
		x := core.OperatorOp{Limit: heldShown}
		for more := true; more && len(x.Jobs) < heldShown; {
			more = c.ListHeld(place.Shard, place.Client, p.Number, &x)
		}
		for _, j := range x.Jobs {
			j.Large = nil
			rows = append(rows, JobRow{JobRow: j, Peer: session.PeerName(p.Peer)})
		}
	}
	slices.SortStableFunc(rows, func(a, b JobRow) int { return cmp.Compare(b.InState, a.InState) })
	return rows[:min(len(rows), heldShown)]
}

// nameHolders tells in rows whose connections have reserved the jobs.
func (o *Operator) nameHolders(ctx context.Context, rows []JobRow) {
	var numbers []uint64
	for i := range rows {
		if n := rows[i].Conn; n != 0 {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return
	}
	peers := o.peers(ctx, numbers)
	for i := range rows {
		rows[i].Peer = peers[rows[i].Conn]
	}
}
