package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
)

// JoinOptions configures Join.
type JoinOptions struct {
	Disk wal.Disk // the server's directory, which the caller has locked
	// Member describes the server. Join sets its ID to NodeID.
	Member cluster.Member
	// Fresh reports whether this start made the ID. If the cluster refuses the server before it is a
	// member, Join removes the ID again, so that the directory is empty as before.
	Fresh bool
	// Addrs are the addresses of servers to ask, HOST:PORT each.
	Addrs []string
	// Admin and Journal open connections of these kinds.
	Admin, Journal Dial
	// Joined is called with the cluster's ID before Journal is.
	Joined func(cluster uint64)
	// Receive configures the transfer of the journal.
	Receive ReceiveOptions
	Log     *slog.Logger
	// Pause waits between tries, or until the context ends; nil: a second.
	Pause func(context.Context) error
}

// Join makes the server of a directory a learner of a cluster. It asks to be added, fetches the
// journal, and returns the server's state, which the caller closes. Join tries until it
// succeeds or ctx ends. It gives up on a *Refusal, ErrSelf, a *RoomError and a *DiskError.
//
// Join uses or removes the files of an earlier start: see Pending.
func Join(ctx context.Context, o JoinOptions) (*cluster.State, error) {
	if err := Clear(o.Disk); err != nil {
		return nil, err
	}
	id, err := NodeID(o.Disk)
	if err != nil {
		return nil, err
	}
	o.Member.ID = id
	j := &joining{JoinOptions: o}
	if j.Pause == nil {
		j.Pause = pause
	}
	for {
		s, err := j.try(ctx)
		var refused *Refusal
		var full *RoomError
		var disk *DiskError
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &refused), errors.Is(err, ErrSelf):
			if o.Fresh && !j.joined {
				err = errors.Join(err, Discard(o.Disk))
			}
			return nil, err
		case errors.As(err, &full), errors.As(err, &disk):
			return nil, err
		}
		j.warn(err)
		if err := j.Pause(ctx); err != nil {
			return nil, err
		}
	}
}

// Clear removes the journal that an earlier try to join left in a directory without a state.
func Clear(d wal.Disk) error {
	if _, err := exchange.Resume(d); err != nil {
		return err
	}
	if err := errors.Join(exchange.DropNote(d), wal.Erase(d)); err != nil {
		return fmt.Errorf("removing the files of an earlier attempt to join: %w", err)
	}
	return nil
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A joining is one call of Join.
type joining struct {
	JoinOptions
	leader string // its address; empty: unknown
	joined bool   // the server is a member
	logged string // the last reason logged
	tries  int
}

// patience is the number of tries before a warning: servers that start together wait for each other.
const patience = 10

// warn logs a new reason why the server has not joined. It is a warning if the server has tried often.
func (j *joining) warn(err error) {
	j.tries++
	level := slog.LevelInfo
	if j.tries >= patience {
		level = slog.LevelWarn
	}
	if text := err.Error(); text != j.logged || j.tries == patience {
		j.logged = text
		j.Log.Log(context.Background(), level, "this server has not joined the cluster yet; trying again", "err", err)
	}
}

// try asks each address once, and fetches the leader's journal.
func (j *joining) try(ctx context.Context) (*cluster.State, error) {
	a, err := j.ask(ctx)
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(a.Cluster, 16, 64)
	if err != nil || id == 0 {
		return nil, &Refusal{fmt.Sprintf("%q is not a cluster id: bring all servers to the same release", a.Cluster)}
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
	s, err := Install(j.Disk, r, cluster.Identity{Cluster: id, Node: j.Member.ID, Name: j.Member.Name})
	if err == nil {
		j.Log.Info("the journal was fetched", "segments", r.Segments, "bytes", r.Bytes, "last entry", r.LastIndex)
	}
	return s, err
}

// ErrSelf is the error of a server that was given only its own address.
var ErrSelf = errors.New("every given address is this server's own: give the address of a server that belongs to the cluster, or --cluster-new to make a cluster of this server alone")

// ask asks the known leader, then each address, until one answers that this server is a member. All
// servers may be given the same list, so ask skips the server's own address: it already listens
// there.
func (j *joining) ask(ctx context.Context) (*joinResponse, error) {
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
		by, answered := errors.AsType[*transport.Refused](err)
		switch {
		case errors.As(err, &refused):
			return nil, err
		case answered && by.By.Node == j.Member.ID:
			own++
		case err != nil:
			failed = errors.Join(failed, err)
		case a.Cluster != "" && a.Leader != "":
			j.leader = a.Leader
			return a, nil
		case a.Leader != "":
			next = append([]string{"", a.Leader}, next[1:]...)
		default:
			failed = errors.Join(failed, fmt.Errorf("the server at %s knows no leader", addr))
		}
	}
	switch {
	case own == len(asked):
		return nil, ErrSelf
	case failed == nil:
		failed = errors.New("none of the servers leads, and neither does the leader that they name")
	}
	j.leader = ""
	return nil, failed
}
