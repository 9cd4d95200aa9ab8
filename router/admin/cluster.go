package admin

import (
	"context"

	wire "polystalk/codec/admin"
	"polystalk/shard/stats"
)

// A Cluster is what operators see, and do, of the servers that keep the same jobs. Its methods
// may be called by anyone at any time. Errors of changes say why they cannot be made, or not
// now; they are kept when there is none.
type Cluster interface {
	Status() *wire.Cluster
	// Leader is the member that leads, empty if none is known to, and whether that is this one.
	// It waits for nothing.
	Leader() (name string, here bool)
	// FullDisks says whether changes are refused since this server's disk is full, and which
	// other members have theirs full, by name and in order, as they have said last. It waits for
	// nothing: neither for the disk nor for whoever decides who leads.
	FullDisks() (here bool, others []string)
	// Disbelieved is why other servers believe this one no more when it connects to them anew, in
	// words that end in the remedy; empty: they do. It waits for nothing.
	Disbelieved() string
	// Commits are how long changes took until they were on the disks of a majority, each from
	// when this server, as the leader, asked for them.
	Commits() stats.Counts
	// Remove has a member belong to the cluster no more.
	Remove(ctx context.Context, node string) error
	// Promote has a member vote that has only kept a copy.
	Promote(ctx context.Context, node string) error
	// Transfer has another member lead, any if node is empty, and waits until it does.
	Transfer(ctx context.Context, node string) error
}

// Cluster is the server's; the problem is that it is alone. At any time.
func (o *Operator) Cluster() (Cluster, error) {
	if o.opts.Cluster == nil {
		return nil, wire.NotFound.With("", "this server is alone", "start it with --cluster-listen; the guide in router/cluster says how")
	}
	return o.opts.Cluster, nil
}

// ClusterStatus is how its cluster stands; nil: it is alone. At any time.
func (o *Operator) ClusterStatus() *wire.Cluster {
	if o.opts.Cluster == nil {
		return nil
	}
	s := o.opts.Cluster.Status()
	if kept, p := o.Kept(); kept != nil {
		s.Journal = journalValue(kept, p)
	}
	return s
}

// ClusterCommits are those of its cluster; nothing was counted if it is alone. At any time.
func (o *Operator) ClusterCommits() stats.Counts {
	if o.opts.Cluster == nil {
		return stats.Counts{}
	}
	return o.opts.Cluster.Commits()
}

// Leads reports whether clients are served here, as far as this server knows: always, unless it is one of
// several servers. See Confirm. At any time.
func (o *Operator) Leads() (leads bool, leader string) {
	if o.opts.Cluster == nil {
		return true, ""
	}
	leader, here := o.opts.Cluster.Leader()
	return here && o.opts.Life.Phase() == Serving, leader
}

// Following is the problem of who asks a server that follows for what the leader has.
func (o *Operator) Following() error {
	var leader string
	var here bool
	if k := o.opts.Cluster; k != nil {
		leader, here = k.Leader()
	}
	switch {
	case leader == "":
		return wire.Following.With("", "no server of the cluster leads", "polystalk cluster status (GET /api/v1/cluster) shows who is away. An election takes one or two times --cluster-timeout: try again after that, then start those that are down")
	case here:
		return wire.Following.With("", "server "+leader+" is about to lead", "try again in a moment")
	}
	return wire.Following.With("", "server "+leader+" leads", "ask that one")
}

// Follows reports whether this server has no queue, since another one leads, or may. At any time.
func (o *Operator) Follows() bool {
	return o.opts.Life.Phase() == Following && o.opts.Life.Failure() == ""
}

// unready is why a server that follows cannot have clients; empty: it hands them on. Each one takes
// a connection of its own to the leader.
func (o *Operator) unready() string {
	if _, leader := o.Leads(); leader == "" {
		return "no server of the cluster leads"
	}
	return o.disbelieved()
}

// disbelieved is why the other servers of its cluster do not believe this one; empty: they do.
func (o *Operator) disbelieved() string {
	if o.opts.Cluster == nil {
		return ""
	}
	return o.opts.Cluster.Disbelieved()
}

// ChangeCluster makes a change, which is counted.
func (o *Operator) ChangeCluster(ctx context.Context, action string, change func(Cluster) error) error {
	k, err := o.Cluster()
	if err != nil {
		return err
	}
	if err = change(k); err != nil {
		if _, ok := err.(*wire.Problem); !ok {
			err = wire.NotChanged.Problem(err.Error())
		}
	}
	o.deeds.count(action, 0, 0, err)
	return err
}
