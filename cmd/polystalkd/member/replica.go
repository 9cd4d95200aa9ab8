package member

import (
	"polystalk/router"
	"polystalk/router/cluster"
)

// A replica is the server's jobs as consensus sees them.
type replica struct {
	*router.Follower
	least func() uint64
	led   func() // the server leads: it is called by the goroutine that applies
}

var _ cluster.Replica = (*replica)(nil)

// Lead implements cluster.Replica.
func (r *replica) Lead() error {
	if err := r.Follower.Lead(r.least); err != nil {
		return err
	}
	r.led()
	return nil
}
