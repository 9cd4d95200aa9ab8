package cluster

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"polystalk/shard/record"
)

// A storage is a Log as raft sees it. Raft wants the term of the entry before the first it may
// ask for. So of a log whose beginning was given up, the first entry is there for that alone.
type storage struct {
	log     Log
	hard    *raftpb.HardState // as of the start
	members *Members          // as of applied
	applied uint64
}

var _ raft.Storage = (*storage)(nil)

// InitialState implements raft.Storage.
func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return s.hard, s.members.confState(), nil
}

// FirstIndex implements raft.Storage.
func (s *storage) FirstIndex() (uint64, error) { return s.before() + 1, nil }

// before is the last entry of which only the term is known: zero if there is all.
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
		return 0, raft.ErrCompacted // just now
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
			err = raft.ErrCompacted // just now
		}
		return nil, err
	}
	return toRaft(list), nil
}

// Snapshot implements raft.Storage: only what it is of. Who gets it fetches the journal.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) {
	term, err := s.Term(s.applied)
	if err != nil {
		return nil, err
	}
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: new(s.applied), Term: new(term), ConfState: s.members.confState(),
	}}, nil
}

// toRaft is a list of entries for raft; the data is not copied.
func toRaft(list []Entry) []*raftpb.Entry {
	bodies := make([]raftpb.Entry, len(list))
	all := make([]*raftpb.Entry, len(list))
	for i := range list {
		e, b := &list[i], &bodies[i]
		b.Index, b.Term, b.Type = new(e.Index), new(e.Term), raftpb.EntryType(e.Kind).Enum() // numbered alike
		if len(e.Data) > 0 {
			b.Data = e.Data
		}
		all[i] = b
	}
	return all
}

// fromRaft is the opposite.
func fromRaft(all []*raftpb.Entry) []Entry {
	list := make([]Entry, len(all))
	for i, b := range all {
		list[i] = Entry{Index: b.GetIndex(), Term: b.GetTerm(), Kind: record.EntryKind(b.GetType()), Data: b.GetData()}
	}
	return list
}
