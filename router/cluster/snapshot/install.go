package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"polystalk/router/cluster"
	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
)

// whole is the receiver's answer to a journal that it has verified.
const whole = 1

// Fetch receives the leader's journal on a connection of kind Journal, into a directory, next to the
// journal there. It ends with ctx, and closes the connection.
func Fetch(ctx context.Context, c net.Conn, d wal.Disk, o ReceiveOptions) (*Received, error) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	r, err := Receive(ctx, c, d, o)
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	if _, err := membersOf(r.Note); err != nil {
		return nil, errors.Join(err, r.Discard())
	}
	c.Write([]byte{whole}) // if it is lost, only the sender counts a failure
	return r, nil
}

// membersOf decodes the note of a journal.
func membersOf(note []byte) (*cluster.Members, error) {
	m, err := cluster.DecodeMembers(note)
	if err != nil {
		return nil, fmt.Errorf("the members sent with the journal of another server: %w", err)
	}
	return m, nil
}

// Install turns the directory of a joining server into a member's, with a received journal. The
// caller closes the state. Install discards a journal that was sent before the server was a member.
// After a *DiskError the caller calls Clear, unless there is a state.
func Install(d wal.Disk, r *Received, id cluster.Identity) (*cluster.State, error) {
	members, err := membersOf(r.Note)
	if err == nil {
		switch one := members.Find(id.Node); {
		case one == nil:
			err = errors.New("the journal was sent before this server belonged to the cluster")
		case one.Voter:
			err = &Refusal{fmt.Sprintf("server %q votes already", one.Name)}
		case members.Index > r.LastIndex:
			err = fmt.Errorf("the journal ends at entry %d, but must have entry %d", r.LastIndex, members.Index)
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.Discard())
	}
	if err := r.install(); err != nil {
		return nil, &DiskError{Err: err}
	}
	// The journal is complete. Until the state exists, the next start joins from the beginning.
	s, err := cluster.CreateState(d, id, cluster.Vote{Term: r.LastTerm}, members)
	if err != nil {
		return nil, &DiskError{Err: err}
	}
	err = errors.Join(exchange.DropNote(d), d.Remove(PendingName))
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		return nil, &DiskError{Err: errors.Join(err, s.Close())}
	}
	return s, nil
}

// ErrOlder is the error of a fetched journal with fewer entries than the server's own.
var ErrOlder = errors.New("the fetched journal is older than this server's own")

// Exchange makes the next start of a member use a fetched journal instead of its own, which ends at
// entry last of term. The caller has stopped the node, which must not acknowledge anything more, and
// closed its journal; its state is open. After ErrOlder the fetched journal is removed and the own
// one stays.
func Exchange(r *Received, state *cluster.State, last, term uint64) error {
	if r.LastTerm < term || r.LastTerm == term && r.LastIndex < last {
		return errors.Join(ErrOlder, r.Discard())
	}
	// A node's term is never lower than the term of its log. It has not voted in a term that it does
	// not know.
	if v := state.Vote(); v.Term < r.LastTerm {
		if err := state.SaveVote(cluster.Vote{Term: r.LastTerm}); err != nil {
			return err
		}
	}
	return r.install()
}

// Settle finishes what a crash interrupted. It saves the members that came with an exchanged
// journal, and removes the file of a joining server. Every start of a member calls it, between
// exchange.Resume and its first use of the state. The error is cluster.ErrRemoved if the server is
// not a member.
func Settle(d wal.Disk, state *cluster.State) error {
	switch err := d.Remove(PendingName); {
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
