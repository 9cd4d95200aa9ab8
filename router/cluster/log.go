package cluster

import (
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"polystalk/shard/record"
	"polystalk/shard/wal"
)

// An Entry is an entry of the log.
type Entry = wal.Entry

// A Log keeps entries on this node's disk. One goroutine calls Append and Sync, another GiveUp; at
// the same time a Machine calls the other methods. A journal's Entries is a Log; tests have others.
type Log interface {
	// First returns the lowest index in the log; zero: the log is empty.
	First() uint64
	// Last returns the index of the last entry; zero: the log is empty.
	Last() uint64
	// Term returns the term of entry i in First…Last. The term of entry zero is zero.
	Term(i uint64) (uint64, error)
	// Read returns entries of lo…hi-1, which are in First…Last: at least one, and about size bytes.
	Read(lo, hi uint64, size int) ([]Entry, error)
	// Committed returns the last index that the log knew to be committed when it was opened: the
	// Replica has these entries.
	Committed() uint64

	// Changes returns the entries after an index, up to Committed, that change the members.
	Changes(after uint64) []Entry

	// Append adds entries with consecutive indexes. They replace entries from the first of them
	// on. All entries up to commit are committed.
	Append(list []Entry, commit uint64) error
	// Sync makes appended entries durable.
	Sync() error
	// GiveUp drops the entries that the leader has dropped, according to an applied Floor.
	GiveUp(b *record.Floor)
}

var _ Log = (*wal.Entries)(nil)

// A storage is raft's view of a Log. raft needs the term of the entry before the first one that it
// may read. If the beginning of the log was dropped, the first entry is used only for its term.
type storage struct {
	log     Log
	hard    *raftpb.HardState // at the start
	members *Members          // after applied
	applied uint64
}

var _ raft.Storage = (*storage)(nil)

// InitialState implements raft.Storage.
func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return s.hard, s.members.confState(), nil
}

// FirstIndex implements raft.Storage.
func (s *storage) FirstIndex() (uint64, error) { return s.before() + 1, nil }

// before returns the index of the entry that is used only for its term; zero: the log is complete.
func (s *storage) before() uint64 {
	if first := s.log.First(); first > 1 {
		return first
	}
	return 0
}

// LastIndex implements raft.Storage.
func (s *storage) LastIndex() (uint64, error) { return s.log.Last(), nil }

// Term implements raft.Storage.
func (s *storage) Term(i uint64) (uint64, error) {
	switch {
	case i < s.before():
		return 0, raft.ErrCompacted
	case i == 0:
		return 0, nil
	case i > s.log.Last():
		return 0, raft.ErrUnavailable
	}
	term, err := s.log.Term(i)
	if err != nil && i < s.before() {
		return 0, raft.ErrCompacted // dropped meanwhile
	}
	return term, err
}

// Entries implements raft.Storage.
func (s *storage) Entries(lo, hi, size uint64) ([]*raftpb.Entry, error) {
	switch {
	case lo <= s.before():
		return nil, raft.ErrCompacted
	case hi > s.log.Last()+1:
		return nil, raft.ErrUnavailable
	}
	list, err := s.log.Read(lo, hi, int(min(size, 1<<30)))
	if err != nil {
		if lo <= s.before() {
			err = raft.ErrCompacted // dropped meanwhile
		}
		return nil, err
	}
	return toRaft(list), nil
}

// Snapshot implements raft.Storage. It has metadata only: the receiver fetches the journal.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) {
	term, err := s.Term(s.applied)
	if err != nil {
		return nil, err
	}
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: new(s.applied), Term: new(term), ConfState: s.members.confState(),
	}}, nil
}

// toRaft converts entries without copying their data.
func toRaft(list []Entry) []*raftpb.Entry {
	bodies := make([]raftpb.Entry, len(list))
	all := make([]*raftpb.Entry, len(list))
	for i := range list {
		e, b := &list[i], &bodies[i]
		b.Index, b.Term, b.Type = new(e.Index), new(e.Term), raftpb.EntryType(e.Kind).Enum() // the same numbers
		if len(e.Data) > 0 {
			b.Data = e.Data
		}
		all[i] = b
	}
	return all
}

// fromRaft is the inverse of toRaft.
func fromRaft(all []*raftpb.Entry) []Entry {
	list := make([]Entry, len(all))
	for i, b := range all {
		list[i] = Entry{Index: b.GetIndex(), Term: b.GetTerm(), Kind: record.EntryKind(b.GetType()), Data: b.GetData()}
	}
	return list
}

// raftLogger returns the logger of raft, which logs to a logger at level debug. When raft cannot
// continue it panics: engine.recovered turns that into an error.
func raftLogger(to *slog.Logger) raft.Logger {
	if to == nil {
		to = slog.New(slog.DiscardHandler)
	}
	return &raft.DefaultLogger{Logger: slog.NewLogLogger(to.Handler(), slog.LevelDebug)}
}
