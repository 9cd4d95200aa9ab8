package admin

import (
	"context"

	wire "polystalk/codec/admin"
	"polystalk/shard/stats"
)

// A Cluster lets operators read and change the cluster of a server. Any goroutine may call its
// methods at any time. An error of a change says why it is impossible, or impossible now. A change
// without an error may still be in progress.
type Cluster interface {
	Status() *wire.Cluster
	// Leader returns the name of the leader, or "" if none is known, and whether this server is
	// the leader. It never blocks.
	Leader() (name string, here bool)
	// FullDisks reports whether this server refuses changes because its disk is full, and
	// returns the sorted names of other members that last reported a full disk. It never blocks.
	FullDisks() (here bool, others []string)
	// Disbelieved returns why other servers refuse new connections from this one, with the
	// remedy; "": they do not. It never blocks.
	Disbelieved() string
	// CheckPolicies returns nil once every member has said that it reads the record of policies, else
	// the problem MembersTooOld. It waits for those that do not answer.
	CheckPolicies(ctx context.Context) error
	// Commits returns the times from the proposal of a change by this server, as the leader,
	// until the change was on the disks of a majority.
	Commits() stats.Counts
	// Remove removes a member from the cluster.
	Remove(ctx context.Context, node string) error
	// Promote makes a standby member a voter.
	Promote(ctx context.Context, node string) error
	// Transfer makes the member node the leader, or any other one if node is empty, and waits
	// until it leads.
	Transfer(ctx context.Context, node string) error
}

// alone implements Cluster for a server without a cluster, which always leads.
type alone struct{}

func (alone) Status() *wire.Cluster                   { return nil }
func (alone) Leader() (name string, here bool)        { return "", true }
func (alone) FullDisks() (here bool, others []string) { return true, nil }
func (alone) Disbelieved() string                     { return "" }
func (alone) CheckPolicies(context.Context) error     { return nil }
func (alone) Commits() (c stats.Counts)               { return c }
func (alone) Remove(context.Context, string) error    { return noCluster() }
func (alone) Promote(context.Context, string) error   { return noCluster() }
func (alone) Transfer(context.Context, string) error  { return noCluster() }

func noCluster() error {
	return wire.NotFound.With("", "this server has no cluster", "start it with --cluster-listen, as cmd/manual/guide/cluster.md describes")
}

// ClusterStatus returns the status of the cluster. The error says that the server is alone.
func (o *Operator) ClusterStatus() (*wire.Cluster, error) {
	s := o.opts.Cluster.Status()
	if s == nil {
		return nil, noCluster()
	}
	if kept, p := o.Kept(); kept != nil {
		s.Journal = journalValue(kept, p)
	}
	return s, nil
}

// ClusterCommits returns Cluster.Commits.
func (o *Operator) ClusterCommits() stats.Counts { return o.opts.Cluster.Commits() }

// Leads reports whether this server serves clients, as far as it knows; see Confirm. It also
// returns the name of the known leader.
func (o *Operator) Leads() (leads bool, leader string) {
	leader, here := o.opts.Cluster.Leader()
	return here && o.opts.Life.Phase() == Serving, leader
}

// Following returns the problem of a request that only the leader can serve.
func (o *Operator) Following() error {
	leader, here := o.opts.Cluster.Leader()
	switch {
	case leader == "":
		return wire.Following.With("", "no server of the cluster leads", "polystalk cluster status (GET /api/v1/cluster) shows which servers are down. An election takes one or two times --cluster-timeout: try again after that, then start the servers that are down")
	case here:
		return wire.Following.With("", "server "+leader+" is about to lead", "try again in a moment")
	}
	return wire.Following.With("", "server "+leader+" leads", "send the request to that server")
}

// Follows reports whether this server does not serve the queue, since another one leads or may.
func (o *Operator) Follows() bool {
	return o.opts.Life.Phase() == Following && o.opts.Life.Failure() == ""
}

// ChangeCluster runs and counts a change of the cluster.
func (o *Operator) ChangeCluster(ctx context.Context, action string, change func(Cluster) error) error {
	err := change(o.opts.Cluster)
	if _, ok := err.(*wire.Problem); err != nil && !ok {
		err = wire.NotChanged.Problem(err.Error())
	}
	o.counts.add(action, 0, 0, err)
	return err
}
