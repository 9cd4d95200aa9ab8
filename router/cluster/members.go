package cluster

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Limits of members. All of them fit into one slot of a State.
const (
	MembersMax = 12
	nameMax    = 64
	addrMax    = 200
)

// A Member is a node of a cluster. Its ID is random, and never used again after a removal.
type Member struct {
	ID      uint64
	Name    string // for operators; unique
	Addr    string // HOST:PORT for the other members
	Voter   bool   // else it is a learner, which no majority counts
	Standby bool   // it stays a learner
}

// Members are all nodes of a cluster after the entry at Index. A Members is immutable.
type Members struct {
	Index uint64
	List  []Member // in order of ID
}

// Find returns the member with an ID, or nil.
func (m *Members) Find(id uint64) *Member {
	for i := range m.List {
		if m.List[i].ID == id {
			return &m.List[i]
		}
	}
	return nil
}

// Named returns the member with a name, or nil.
func (m *Members) Named(name string) *Member {
	for i := range m.List {
		if m.List[i].Name == name {
			return &m.List[i]
		}
	}
	return nil
}

// Voters returns the number of voters.
func (m *Members) Voters() (n int) {
	for i := range m.List {
		if m.List[i].Voter {
			n++
		}
	}
	return n
}

// soleVoter reports whether a node is the only voter.
func (m *Members) soleVoter(id uint64) bool {
	self := m.Find(id)
	return self != nil && self.Voter && m.Voters() == 1
}

// confState returns raft's form of the members.
func (m *Members) confState() *raftpb.ConfState {
	cs := &raftpb.ConfState{AutoLeave: new(false)}
	for _, one := range m.List {
		if one.Voter {
			cs.Voters = append(cs.Voters, one.ID)
		} else {
			cs.Learners = append(cs.Learners, one.ID)
		}
	}
	return cs
}

// A ChangeKind says what a Change does.
type ChangeKind uint8

// The kinds of changes. Each changes one member, so that every majority before shares a node with
// every majority after.
const (
	Add     ChangeKind = iota + 1 // a learner
	Promote                       // a learner, to a voter
	Remove                        // any but the last voter
	Move                          // to another address
)

// A Change is a change of one member.
type Change struct {
	Kind   ChangeKind
	Member Member // its ID, and for Add and Move the new values
}

// After returns the members after a change at an index. The error says why the change is not
// possible.
func (m *Members) After(c Change, index uint64) (*Members, error) {
	next := &Members{Index: index, List: slices.Clone(m.List)}
	if c.Kind == Add {
		if err := m.mayAdd(&c.Member); err != nil {
			return nil, err
		}
		c.Member.Voter = false
		next.List = append(next.List, c.Member)
		slices.SortFunc(next.List, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
		return next, nil
	}
	i := slices.IndexFunc(next.List, func(o Member) bool { return o.ID == c.Member.ID })
	if i < 0 {
		return nil, fmt.Errorf("no server of the cluster has the id %x: see `polystalk cluster status`", c.Member.ID)
	}
	at := &next.List[i]
	switch c.Kind {
	case Promote:
		if at.Voter {
			return nil, fmt.Errorf("server %q votes already", at.Name)
		}
		at.Voter, at.Standby = true, false
	case Remove:
		if at.Voter && m.Voters() == 1 {
			return nil, fmt.Errorf("server %q is the only one that votes: add another before it is removed", at.Name)
		}
		next.List = slices.Delete(next.List, i, i+1)
	case Move:
		if err := fits("the address", c.Member.Addr, addrMax); err != nil {
			return nil, err
		}
		at.Addr = c.Member.Addr
	default:
		return nil, fmt.Errorf("a change of kind %d needs a later release: upgrade this server", c.Kind)
	}
	return next, nil
}

// later returns the members after the committed changes in a Log: a State may be older than its log.
func (m *Members) later(log Log) (*Members, error) {
	for _, e := range log.Changes(m.Index) {
		c, _, err := parseChange(e.Data)
		if err == nil {
			m, err = m.After(c, e.Index)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", e.Index, err)
		}
	}
	return m, nil
}

// mayAdd returns an error if a member cannot be added.
func (m *Members) mayAdd(one *Member) error {
	switch was := m.Named(one.Name); {
	case !ValidID(one.ID):
		return fmt.Errorf("%x is not a valid server id", one.ID)
	case m.Find(one.ID) != nil:
		return fmt.Errorf("server %q has the id %x already", m.Find(one.ID).Name, one.ID)
	case was != nil:
		return fmt.Errorf("there is a server %q already: if its disk is lost, run `polystalk cluster remove %s` first", one.Name, one.Name)
	case len(m.List) == MembersMax:
		return fmt.Errorf("there are already %d servers, which is the maximum: remove one first", MembersMax)
	}
	if err := fits("the name", one.Name, nameMax); err != nil {
		return err
	}
	return fits("the address", one.Addr, addrMax)
}

func fits(what, s string, most int) error {
	if s == "" || len(s) > most {
		return fmt.Errorf("%s of a server must have 1 to %d bytes, and has %d", what, most, len(s))
	}
	return nil
}

// ValidID reports whether a node can have an ID. raft reserves some.
func ValidID(id uint64) bool { return id != 0 && id < 1<<64-16 }

// RandomID returns a random valid ID.
func RandomID() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails
		if id := binary.LittleEndian.Uint64(b[:]); ValidID(id) {
			return id
		}
	}
}

// Founding returns the members of a cluster that begins with an empty log. All of them vote.
func Founding(list []Member) (*Members, error) {
	m := &Members{}
	for _, one := range list {
		if err := m.mayAdd(&one); err != nil {
			return nil, err
		}
		m.List = append(m.List, Member{ID: one.ID, Name: one.Name, Addr: one.Addr, Voter: true})
	}
	slices.SortFunc(m.List, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return m, nil
}

// appendTo encodes a member: ID, flags, name, address.
func (o *Member) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, o.ID)
	var flags byte
	if o.Voter {
		flags |= 1
	}
	if o.Standby {
		flags |= 2
	}
	b = append(b, flags, byte(len(o.Name)))
	b = append(append(b, o.Name...), byte(len(o.Addr)))
	return append(b, o.Addr...)
}

var errShort = errors.New("it ends too early")

// takeMember decodes a member from the front of b.
func takeMember(b []byte) (o Member, rest []byte, err error) {
	if len(b) < 10 {
		return o, nil, errShort
	}
	o.ID = binary.LittleEndian.Uint64(b)
	o.Voter, o.Standby = b[8]&1 != 0, b[8]&2 != 0
	if o.Name, b, err = takeString(b[9:]); err == nil {
		o.Addr, b, err = takeString(b)
	}
	return o, b, err
}

func takeString(b []byte) (s string, rest []byte, err error) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return "", nil, errShort
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], nil
}

// conf returns raft's form of a change. The context has the fields that raft does not know.
func (c *Change) conf() *raftpb.ConfChangeV2 {
	kind := raftpb.ConfChangeUpdateNode
	switch c.Kind {
	case Add:
		kind = raftpb.ConfChangeAddLearnerNode
	case Promote:
		kind = raftpb.ConfChangeAddNode
	case Remove:
		kind = raftpb.ConfChangeRemoveNode
	}
	return &raftpb.ConfChangeV2{
		Changes: []*raftpb.ConfChangeSingle{{Type: kind.Enum(), NodeId: new(c.Member.ID)}},
		Context: c.Member.appendTo([]byte{byte(c.Kind)}),
	}
}

// parseChange decodes the data of an entry that changes the members.
func parseChange(data []byte) (c Change, cc *raftpb.ConfChangeV2, err error) {
	cc = &raftpb.ConfChangeV2{}
	if err := proto.Unmarshal(data, cc); err != nil {
		return c, nil, fmt.Errorf("a change of members cannot be read: %w", err)
	}
	if len(cc.Context) == 0 {
		return c, nil, fmt.Errorf("a change of members is incomplete: %w", errShort)
	}
	c.Kind = ChangeKind(cc.Context[0])
	if c.Member, _, err = takeMember(cc.Context[1:]); err != nil {
		return c, nil, fmt.Errorf("a change of members cannot be read: %w", err)
	}
	return c, cc, nil
}

// Encode returns the members as bytes: index, count, members.
func (m *Members) Encode() []byte {
	b := binary.LittleEndian.AppendUint64(nil, m.Index)
	b = append(b, byte(len(m.List)))
	for i := range m.List {
		b = m.List[i].appendTo(b)
	}
	return b
}

// DecodeMembers decodes untrusted bytes from Encode.
func DecodeMembers(b []byte) (*Members, error) {
	if len(b) < 9 {
		return nil, fmt.Errorf("the members: %w", errShort)
	}
	m := &Members{Index: binary.LittleEndian.Uint64(b)}
	n := int(b[8])
	b = b[9:]
	for range n {
		var one Member
		var err error
		if one, b, err = takeMember(b); err != nil {
			return nil, fmt.Errorf("the members: %w", err)
		}
		if len(m.List) > 0 && m.List[len(m.List)-1].ID >= one.ID || !ValidID(one.ID) {
			return nil, fmt.Errorf("the members are not in order: %x", one.ID)
		}
		m.List = append(m.List, one)
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%d bytes follow the members", len(b))
	}
	return m, nil
}
