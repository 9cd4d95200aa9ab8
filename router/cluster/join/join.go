package join

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/snapshot"
	"polystalk/router/cluster/transport"
	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
)

// Options say how a node joins a cluster.
type Options struct {
	Disk wal.Disk // of its directory, which the caller has locked
	// Member is who it is to be; its ID is that of NodeID, whatever is given.
	Member cluster.Member
	// Fresh says that NodeID has made the ID in this start. If the node is refused before it has become a
	// member, Join removes the ID again, so that the directory is empty as before.
	Fresh bool
	// Addrs are where nodes of the cluster may be asked, HOST:PORT each.
	Addrs []string
	// Admin and Journal make connections of these kinds to the node at an address.
	Admin, Journal Dial
	// Joined hears to which cluster the node belongs now, before Journal is used.
	Joined func(cluster uint64)
	// Receive says how the journal is received.
	Receive snapshot.ReceiveOptions
	Log     *slog.Logger
	// Pause waits before the cluster is asked again, or until the context ends; nil: a second.
	Pause func(context.Context) error
}

// Join makes a directory a node's of a cluster that goes on without it: it asks to be let in,
// fetches the journal, and leaves that with the state of the node, which is the caller's to close.
// The node is not a voter then. It asks until it is let in or the context ends; an error that says
// otherwise is a *Refusal, ErrSelf, a *snapshot.RoomError, or about the disk.
//
// What an earlier start has left is made use of, or removed. The directory holds nothing else of
// use: see Pending.
func Join(ctx context.Context, o Options) (*cluster.State, error) {
	if err := Clear(o.Disk); err != nil {
		return nil, err
	}
	id, err := NodeID(o.Disk)
	if err != nil {
		return nil, err
	}
	o.Member.ID = id
	j := &joining{Options: o}
	if j.Pause == nil {
		j.Pause = pause
	}
	for {
		s, err := j.try(ctx)
		var refused *Refusal
		var full *snapshot.RoomError
		var disk *snapshot.DiskError
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &refused), errors.Is(err, ErrSelf):
			if o.Fresh && !j.joined {
				err = errors.Join(err, o.Disk.Remove(Name), o.Disk.Sync())
			}
			return nil, err
		case errors.As(err, &full), errors.As(err, &disk):
			return nil, err
		}
		j.tell(err)
		if err := j.Pause(ctx); err != nil {
			return nil, err
		}
	}
}

// Clear has a directory without a state begin anew to join: a journal that is in it was received
// before, and nobody has started from it.
func Clear(d wal.Disk) error {
	if _, err := exchange.Resume(d); err != nil {
		return err
	}
	if err := errors.Join(exchange.DropNote(d), wal.Erase(d)); err != nil {
		return fmt.Errorf("removing what was left by an earlier try to join: %w", err)
	}
	return nil
}

func pause(ctx context.Context) error {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A joining is one under way.
type joining struct {
	Options
	leader string // where it is, as far as is known
	joined bool   // the cluster has made the node a member
	told   string // what was logged last
	tries  int
}

// patience is how many tries there are until that is more than servers which are started together.
const patience = 10

// tell logs why the node has not joined yet, if the reason is new. It warns if the reason lasts, or
// if only an operator can remove it.
func (j *joining) tell(err error) {
	j.tries++
	level := slog.LevelInfo
	var lasting interface {
		error
		Lasts()
	}
	if j.tries >= patience || errors.As(err, &lasting) {
		level = slog.LevelWarn
	}
	if text := err.Error(); text != j.told || j.tries == patience {
		j.told = text
		j.Log.Log(context.Background(), level, "this server has not joined the cluster yet; trying again", "err", err)
	}
}

// try asks each address once, and fetches the journal from who leads.
func (j *joining) try(ctx context.Context) (*cluster.State, error) {
	a, err := j.ask(ctx)
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(a.Cluster, 16, 64)
	if err != nil || id == 0 {
		return nil, &Refusal{fmt.Sprintf("%q is no cluster: bring all servers to the same release", a.Cluster)}
	}
	j.joined = true
	j.Joined(id)
	j.Log.Info("this server belongs to the cluster now, and fetches the journal", "cluster", a.Cluster, "from", j.leader)
	c, err := j.Journal(ctx, j.leader)
	if err != nil {
		return nil, fmt.Errorf("fetching the journal of the server at %s: %w", j.leader, err)
	}
	r, err := Fetch(ctx, c, j.Disk, j.Receive)
	if err != nil {
		return nil, fmt.Errorf("fetching the journal of the server at %s: %w", j.leader, err)
	}
	return j.install(r, cluster.Identity{Cluster: id, Node: j.Member.ID, Name: j.Member.Name})
}

// ErrSelf is the error of a node that was given no address but its own.
var ErrSelf = errors.New("every address that it gives is this server's own: give the address of a server that belongs to the cluster, or --cluster-new to make a cluster of this server alone")

// isOwn reports whether the node itself has answered: it listens before it belongs to a cluster.
func (j *joining) isOwn(err error) bool {
	r, ok := errors.AsType[*transport.Refused](err)
	return ok && r.By.Node == j.Member.ID
}

// ask asks the leader, if its address is known, and then each address, until one answers that this
// node is a member now. All servers may be given the same list, so it passes over the node's own address.
func (j *joining) ask(ctx context.Context) (*Answer, error) {
	var failed error
	asked, own := map[string]bool{}, 0
	for next := append([]string{j.leader}, j.Addrs...); len(next) > 0; next = next[1:] {
		addr := next[0]
		if addr == "" || asked[addr] {
			continue
		}
		asked[addr] = true
		a, err := ask(ctx, j.Admin, addr, &j.Member)
		var refused *Refusal
		switch {
		case errors.As(err, &refused):
			return nil, err
		case j.isOwn(err):
			own++
		case err != nil:
			failed = errors.Join(failed, err)
		case a.Cluster != "" && a.Leader != "":
			j.leader = a.Leader
			return a, nil
		case a.Leader != "":
			next = append([]string{"", a.Leader}, next[1:]...)
		default:
			failed = errors.Join(failed, fmt.Errorf("the server at %s knows of none that leads", addr))
		}
	}
	switch {
	case own == len(asked):
		return nil, ErrSelf
	case failed == nil:
		failed = errors.New("no server that was asked leads, nor does the one that they name")
	}
	j.leader = ""
	return nil, failed
}

// install leaves a journal that was fetched, and the state, in the directory.
func (j *joining) install(r *snapshot.Received, id cluster.Identity) (*cluster.State, error) {
	s, err := Install(j.Disk, r, id)
	if err == nil {
		j.Log.Info("the journal is here", "segments", r.Segments, "bytes", r.Bytes, "last entry", r.LastIndex)
	}
	return s, err
}

// Install makes a directory a node's by a journal that it has received, and leaves that with the
// state of the node, which is the caller's to close. If the journal is of before the node was a
// member, it is gone. An error about the disk is a *snapshot.DiskError: what it leaves is for
// Clear, unless there is a state.
func Install(d wal.Disk, r *snapshot.Received, id cluster.Identity) (*cluster.State, error) {
	members, err := membersOf(r.Note)
	if err == nil {
		switch one := members.Find(id.Node); {
		case one == nil:
			err = errors.New("the journal is of before this server belonged to the cluster")
		case one.Voter:
			err = &Refusal{fmt.Sprintf("server %q votes already", one.Name)}
		case members.Index > r.LastIndex:
			err = fmt.Errorf("the journal ends at entry %d, before entry %d, which it was to have", r.LastIndex, members.Index)
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.Discard())
	}
	if err := r.Install(); err != nil {
		return nil, &snapshot.DiskError{Err: err}
	}
	// From here on the journal is whole. Until the state is there, the next start begins anew.
	s, err := cluster.CreateState(d, id, cluster.Vote{Term: r.LastTerm}, members)
	if err != nil {
		return nil, &snapshot.DiskError{Err: err}
	}
	err = errors.Join(exchange.DropNote(d), d.Remove(Name))
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		return nil, &snapshot.DiskError{Err: errors.Join(err, s.Close())}
	}
	return s, nil
}
