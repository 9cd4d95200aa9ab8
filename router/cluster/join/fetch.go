package join

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"polystalk/router/cluster"
	"polystalk/router/cluster/snapshot"
	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
)

// whole is what a receiver says of a journal that it has, and found whole.
const whole = 1

// Fetch receives the journal of the node at the other end of a connection of kind Journal, which
// it closes, into the directory of a disk, beside the journal there. It may take long, and ends
// with the context.
func Fetch(ctx context.Context, c net.Conn, d wal.Disk, o snapshot.ReceiveOptions) (*snapshot.Received, error) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	r, err := snapshot.Receive(ctx, c, d, o)
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	if _, err := membersOf(r.Note); err != nil {
		return nil, errors.Join(err, r.Discard())
	}
	// If it is not heard, the sender takes this for a failure, which is none of ours.
	c.Write([]byte{whole})
	return r, nil
}

// membersOf is what came with a journal.
func membersOf(note []byte) (*cluster.Members, error) {
	m, err := cluster.DecodeMembers(note)
	if err != nil {
		return nil, fmt.Errorf("what comes with the journal of another server: %w", err)
	}
	return m, nil
}

// ErrOlder says that a node has more than the journal that it has fetched, by now: it goes on
// with its own.
var ErrOlder = errors.New("the journal that was fetched is older than the one that is here")

// Exchange has a node begin its next start with a journal that it has fetched, in place of its
// own, whose last entry is given. The node has stopped, so that it acknowledges nothing any more,
// and its journal is closed; its state is not. If the error is ErrOlder nothing has changed, and
// what was fetched is gone.
func Exchange(r *snapshot.Received, state *cluster.State, last, term uint64) error {
	if r.LastTerm < term || r.LastTerm == term && r.LastIndex < last {
		return errors.Join(ErrOlder, r.Discard())
	}
	// A node's term is never below those of its log. It has not voted in one that it has not
	// heard of.
	if v := state.Vote(); v.Term < r.LastTerm {
		if err := state.SaveVote(cluster.Vote{Term: r.LastTerm}); err != nil {
			return err
		}
	}
	return r.Install()
}

// Settle finishes what an earlier process may not have come to: it has a node know what came with
// the journal that it was given in exchange for its own, which is who the members are, and removes
// the mark of a node that has not joined yet. It is called at every start of a node, once the
// exchange was resumed (exchange.Resume) and before anything uses the state. The error is
// cluster.ErrRemoved if this node is no member.
func Settle(d wal.Disk, state *cluster.State) error {
	switch err := d.Remove(Name); {
	case err == nil:
		if err := d.Sync(); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	note, err := exchange.Note(d)
	if err != nil || note == nil {
		return err
	}
	members, err := membersOf(note)
	if err != nil {
		return err
	}
	if members.Index > state.Members().Index {
		if members.Find(state.Identity().Node) == nil {
			return cluster.ErrRemoved
		}
		if err := state.SaveMembers(members); err != nil {
			return err
		}
	}
	return exchange.DropNote(d)
}
