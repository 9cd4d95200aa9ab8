package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"sync"

	"polystalk/shard/wal"
)

// StateName is the file of a State. A directory with this file belongs to one node.
const StateName = "cluster.state"

// A State has two slots, written in turn: a write that a crash interrupts leaves the other slot valid.
// Both are written when the file is made, so that a vote can be saved on a full disk.
//
//	0       4         8      16         24      32      40     48      49
//	+-------+---------+------+----------+-------+-------+------+-------+------+---------+----------+
//	| magic | crc u32 | seq  | cluster  | node  | term  | vote | n u8  | name | members | founders |
//	+-------+---------+------+----------+-------+-------+------+-------+------+---------+----------+
//
// magic is "PSC1"; crc is the CRC-32C of the rest of the slot. members and founders are from
// Members.Encode, each with its length as a u16 before it; founders are left out if they do not fit.
// Numbers are little-endian, unused bytes are zero.
const (
	slotSize  = 4096
	slotMagic = "PSC1"
	slotHead  = 48
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An Identity names the node and the cluster of a directory. Both IDs are random.
type Identity struct {
	Cluster, Node uint64
	Name          string // of the node, for operators
}

// A State holds what a node must remember in addition to its log: its identity, its vote, and the
// members. It is safe for concurrent use.
type State struct {
	mu       sync.Mutex
	file     wal.File
	seq      uint64
	identity Identity
	vote     Vote
	members  *Members
	founders *Members // nil: unknown
	failed   error    // a failed sync cannot be repeated
}

// CreateState makes the State of a directory without one. After a crash the file is complete, or
// not there.
func CreateState(d wal.Disk, id Identity, vote Vote, members *Members) (*State, error) {
	if err := fits("the name", id.Name, nameMax); err != nil {
		return nil, err
	}
	if id.Cluster == 0 || !ValidID(id.Node) {
		return nil, fmt.Errorf("cluster %x, server %x: these ids are not valid", id.Cluster, id.Node)
	}
	const temporary = StateName + ".new"
	if err := d.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", temporary, err)
	}
	f, err := d.Create(temporary)
	if err != nil {
		return nil, fmt.Errorf("making %s: %w", StateName, err)
	}
	s := &State{file: f, identity: id, vote: vote, members: members}
	if members.Index == 0 {
		s.founders = members
	}
	for range 2 {
		err = errors.Join(err, s.write())
	}
	if err == nil {
		err = d.Rename(temporary, StateName)
	}
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("making %s: %w", StateName, err)
	}
	return s, nil
}

// OpenState opens the State of a directory; the error is fs.ErrNotExist if there is none.
func OpenState(d wal.Disk) (*State, error) {
	f, err := d.Open(StateName)
	if err != nil {
		return nil, err
	}
	s := &State{file: f}
	var b [slotSize]byte
	var damage error
	for i := range int64(2) {
		if _, err := f.ReadAt(b[:], i*slotSize); err != nil && !errors.Is(err, io.EOF) {
			f.Close()
			return nil, fmt.Errorf("reading %s: %w", StateName, err)
		}
		damage = errors.Join(damage, s.take(b[:]))
	}
	if s.members == nil {
		f.Close()
		return nil, fmt.Errorf("%s is damaged, so this server cannot know how it has voted (%w): run `polystalk cluster remove` at another server, then let this one join again with an empty directory", StateName, damage)
	}
	return s, nil
}

// take decodes a slot, if it is valid and newer.
func (s *State) take(b []byte) error {
	if string(b[:4]) != slotMagic {
		return errors.New("a slot has a wrong beginning")
	}
	if binary.LittleEndian.Uint32(b[4:]) != crc32.Checksum(b[8:], castagnoli) {
		return errors.New("a slot has a wrong checksum")
	}
	seq := binary.LittleEndian.Uint64(b[8:])
	if seq < s.seq {
		return nil
	}
	name, rest, err := takeString(b[slotHead:])
	if err != nil {
		return err
	}
	members, rest, err := takeMembers(rest)
	if err == nil && members == nil {
		err = errShort
	}
	if err != nil {
		return err
	}
	founders, _, err := takeMembers(rest)
	if err != nil {
		return err
	}
	s.seq, s.members, s.founders = seq, members, founders
	s.identity = Identity{binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:]), name}
	s.vote = Vote{binary.LittleEndian.Uint64(b[32:]), binary.LittleEndian.Uint64(b[40:])}
	return nil
}

// takeMembers decodes members after their length from the front of b; nil: the length is zero, or
// missing.
func takeMembers(b []byte) (m *Members, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, nil
	}
	size := 2 + int(binary.LittleEndian.Uint16(b))
	switch {
	case size == 2:
		return nil, b[2:], nil
	case len(b) < size:
		return nil, nil, errShort
	}
	m, err = DecodeMembers(b[2:size])
	return m, b[size:], err
}

func appendMembers(b []byte, m *Members) []byte {
	data := m.Encode()
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(data))), data...)
}

// write writes the next slot durably.
func (s *State) write() error {
	if s.failed != nil {
		return s.failed
	}
	b := make([]byte, 0, slotSize)
	b = append(b, slotMagic...)
	b = append(b, 0, 0, 0, 0)
	for _, n := range []uint64{s.seq + 1, s.identity.Cluster, s.identity.Node, s.vote.Term, s.vote.For} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = append(append(b, byte(len(s.identity.Name))), s.identity.Name...)
	b = appendMembers(b, s.members)
	if s.founders != nil && len(b)+len(appendMembers(nil, s.founders)) <= slotSize {
		b = appendMembers(b, s.founders)
	}
	if len(b) > slotSize {
		return fmt.Errorf("%s has space for %d bytes and needs %d: remove servers that no longer exist", StateName, slotSize, len(b))
	}
	b = b[:slotSize]
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	if _, err := s.file.WriteAt(b, int64((s.seq+1)%2)*slotSize); err != nil {
		s.failed = fmt.Errorf("writing %s: %w", StateName, err)
		return s.failed
	}
	if err := s.file.Sync(); err != nil {
		s.failed = fmt.Errorf("syncing %s: %w", StateName, err)
		return s.failed
	}
	s.seq++
	return nil
}

// Identity returns the identity.
func (s *State) Identity() Identity { return s.identity }

// Vote returns the last vote.
func (s *State) Vote() Vote {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vote
}

// Members returns the members saved last.
func (s *State) Members() *Members {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members
}

// Founders returns the members of the cluster before its first entry; nil: this server does not know
// them.
func (s *State) Founders() *Members { return s.founders }

// SaveVote makes a vote durable. After an error nothing is saved any more.
func (s *State) SaveVote(v Vote) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vote == v {
		return nil
	}
	s.vote = v
	return s.write()
}

// SaveMembers makes the members durable. After an error nothing is saved any more.
func (s *State) SaveMembers(m *Members) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members.Index == m.Index && slices.Equal(s.members.List, m.List) {
		return nil
	}
	s.members = m
	return s.write()
}

// Close closes the file.
func (s *State) Close() error { return s.file.Close() }
