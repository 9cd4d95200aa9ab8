package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"polystalk/codec/binlog"
	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
)

// An alone is the result of RecoverAlone.
type alone struct {
	Batches   int64  // of the journal; all of them count now
	LastIndex uint64 // the last entry of the server
	LastTerm  uint64 // the term of that entry
	Answer    string // the other servers that answer; empty: none
}

// Meaning describes the result to an operator.
func (a *alone) Meaning(dir string) string {
	warning := ""
	if a.Answer != "" {
		warning = "WARNING: other servers of the cluster still run: " + a.Answer + ". Stop them now.\n"
	}
	return warning + fmt.Sprintf(`%[1]s is now the directory of a server without a cluster: polystalkd -b %[1]s starts on it.
It keeps all entries of this server up to entry %[2]d of term %[3]d, even if the cluster never
acknowledged them, or has dropped them since. Entries that only other servers had are missing.
Never start the other servers on their directories again: jobs would be done twice. Move those
directories away. To have a cluster again, start this one with --cluster-new and let new servers
join it, each with an empty directory.
`, dir, a.LastIndex, a.LastTerm)
}

// A QuorumError refuses recovery while a quorum can still be reached.
type QuorumError struct {
	Answer string // the servers that answer
	Voters int    // of the cluster
}

func (q *QuorumError) Error() string {
	return fmt.Sprintf("nothing was changed: this server and the servers that answer are a majority of the %d that vote: %s. Start this server as it was, with --cluster-listen: it catches up, and nothing is lost. "+
		"If it was removed from the cluster, start it with an empty directory and --cluster-join. Only if the servers that answer must never serve again, stop them, or give --force", q.Voters, q.Answer)
}

// RecoverAlone turns the directory of a member into the directory of a server without a cluster. It
// is for a cluster that has lost its majority for good. This server does not know which of its
// entries were committed, so it keeps all of them. RecoverAlone changes nothing unless the journal
// is whole and no process uses the directory. It asks the other servers first; if a quorum answers,
// the error is a *QuorumError, unless force is set. Every error says what to do.
func RecoverAlone(ctx context.Context, dir string, force bool) (a *alone, err error) {
	if st, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("the directory cannot be used: %w", err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("%s is not a directory: give the directory that polystalkd has after -b", dir)
	}
	if err := checkMember(dir); err != nil {
		return nil, err
	}
	lock, err := binlog.Lock(dir)
	if locked, ok := errors.AsType[binlog.LockedError](err); ok {
		return nil, fmt.Errorf("%s is in use by a server: %w: stop that one first", dir, locked)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	d := wal.Dir(dir)
	answer, err := askOthers(ctx, d)
	if err != nil && !force {
		return nil, err
	}
	if _, err := exchange.Resume(d); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	v, err := wal.Look(d)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the journal in %s: %w", dir, err)
	case v == nil:
		return nil, fmt.Errorf("%s holds no journal to start from: use the directory of another server", dir)
	case len(v.Losses) > 0:
		return nil, fmt.Errorf("%w; nothing was changed: use the directory of another server, or run polystalk journal salvage %s NEWDIR to recover what can be read", &v.Losses[0].Damage, dir)
	}
	if err := makeAlone(d); err != nil {
		return nil, fmt.Errorf("taking %s out of its cluster: %w: run the command again", dir, err)
	}
	return &alone{Batches: v.Batches, LastIndex: v.LastIndex, LastTerm: v.LastTerm, Answer: answer}, nil
}

// answerWithin bounds the wait for the other servers.
const answerWithin = 3 * time.Second

// askOthers asks the other servers of a cluster whether they run, and returns those that answer. A
// server that only accepts the connection counts: it may be reading its journal. The error is a
// *QuorumError, or says that the list of servers cannot be read.
func askOthers(ctx context.Context, d wal.Disk) (string, error) {
	s, err := cluster.OpenState(d)
	if err != nil {
		return "", fmt.Errorf("%s cannot be read, so the other servers cannot be asked: %w; if all of them are lost for good, give --force", cluster.StateName, err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	id, members := s.Identity(), s.Members()
	self := transport.Identity{Cluster: id.Cluster, Node: id.Node, Name: id.Name}
	answers := make([]bool, len(members.List))
	var asking sync.WaitGroup
	for i := range members.List {
		one := &members.List[i]
		if one.ID == id.Node {
			answers[i] = true
			continue
		}
		asking.Go(func() {
			is, err := transport.Greet(ctx, one.Addr, self)
			answers[i] = errors.Is(err, transport.ErrSilent) || err == nil && is.Cluster == id.Cluster && is.Node == one.ID
		})
	}
	asking.Wait()
	var names []string
	votes := 0
	for i, one := range members.List {
		if answers[i] && one.Voter {
			votes++
		}
		if answers[i] && one.ID != id.Node {
			names = append(names, one.Name+" at "+one.Addr)
		}
	}
	slices.Sort(names)
	answer := strings.Join(names, ", ")
	if len(names) > 0 && votes > members.Voters()/2 {
		return answer, &QuorumError{Answer: answer, Voters: members.Voters()}
	}
	return answer, nil
}

// checkMember refuses a directory that does not belong to a member of a cluster.
func checkMember(dir string) error {
	_, err := os.Stat(filepath.Join(dir, cluster.StateName))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, PendingName)); err == nil {
		return fmt.Errorf("%s belongs to a server that never joined its cluster completely, and is incomplete: use the directory of another server", dir)
	}
	return fmt.Errorf("%s is not the directory of a cluster's server: polystalkd -b %s starts on it as it is, if there is a journal", dir, dir)
}

// makeAlone durably removes the files of a member from its directory, the state last: it tells the
// next run that there is work left.
func makeAlone(d wal.Disk) error {
	if err := exchange.DropNote(d); err != nil {
		return err
	}
	names, err := d.List()
	if err != nil {
		return err
	}
	for _, name := range []string{cluster.StateName + ".new", PendingName, cluster.StateName} {
		if !slices.Contains(names, name) {
			continue
		}
		if err := d.Remove(name); err != nil {
			return err
		}
		if err := d.Sync(); err != nil {
			return err
		}
	}
	return nil
}
