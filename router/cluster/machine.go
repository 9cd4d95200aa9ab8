package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// Durations in ticks. A node that has heard a leader waits at least electionTicks for it.
const (
	electionTicks  = 10
	heartbeatTicks = 2
	leaseTicks     = 8
	fetchTicks     = 3 * electionTicks // for a node to begin to fetch the journal
)

// Limits of messages and entries.
const (
	messageMax   = 1 << 20 // bytes of entries in a message with more than one
	inflightMax  = 64      // unanswered messages to one follower
	inflightSize = 16 << 20
	applyingMax  = 4 << 20 // bytes of entries being applied
)

// A role is the state of a node in raft.
type role uint8

// The roles.
const (
	Following role = iota
	Campaigning
	Leading
)

// String returns the role's name.
func (r role) String() string { return [...]string{"follower", "candidate", "leader"}[r] }

// A Vote is a node's current term and its vote in it. A node must never forget either.
type Vote struct{ Term, For uint64 }

// A Machine decides what a node does. It has no clock, disk or goroutine: Ready returns the work to
// do. One goroutine uses it.
//
// The only random value is the time that raft waits for a leader, between one and two timeouts. raft
// draws it from crypto/rand: a reproducible run must replace that source.
type Machine struct {
	id           uint64
	raft         *raft.RawNode
	store        *storage
	tick         time.Duration
	now          time.Duration // of the last Tick
	role         role          // after the last Ready, like leader and vote
	leader       uint64
	vote         Vote
	last         uint64 // while Leading: index of the last entry
	change       uint64 // while Leading: index of the last change that was proposed
	holding      holding
	quiet        int // ticks until the node may vote, except in a hand-over
	transferring int // ticks until a hand-over counts as failed
	lease        lease
	fetching     map[uint64]int // ticks until a node is told again to fetch the journal
	fetches      uint64         // requests to fetch the journal
	fetch        *Fetch
	ledTerm      uint64 // the last term in which the node has led
}

// ErrNotLeader is the error of an operation that needs a leader that is not handing over.
var ErrNotLeader = errors.New("this server does not lead")

// errBusy refuses a change until the previous one, and the first entry of the term, are applied.
var errBusy = errors.New("another change of the servers is not finished: try again in a moment")

// ErrSelf refuses the removal of the leader itself: the other nodes might never hear that it is
// committed, and would wait for the leader's vote.
var ErrSelf = errors.New("this server leads: hand over first, and let the next leader remove it")

// newMachine returns a Machine that continues from its log and its State.
func newMachine(o *NodeOptions) (*Machine, error) {
	id, vote := o.State.Identity().Node, o.State.Vote()
	store := &storage{log: o.Log}
	committed := max(o.Log.Committed(), store.before())
	members, err := o.State.Members().later(o.Log)
	if err != nil {
		return nil, err
	}
	known := max(committed, members.Index) // an applied change is committed
	if known > o.Log.Last() {
		return nil, fmt.Errorf("the log ends at entry %d, but %d was committed: this disk has lost synced data; remove the server and let it join again", o.Log.Last(), known)
	}
	if term, err := store.Term(o.Log.Last()); err != nil {
		return nil, err
	} else if term > vote.Term { // the journal was written without a cluster, or by another server
		vote = Vote{Term: term}
	}
	m := &Machine{
		id: id, tick: o.Timeout / electionTicks, vote: vote, fetching: map[uint64]int{},
		quiet: electionTicks, // it may have heard of a leader right before it stopped
		store: store,
	}
	store.members, store.applied = members, committed
	if err := m.holding.begin(o.Log, committed); err != nil {
		return nil, err
	}
	store.hard = &raftpb.HardState{Term: new(vote.Term), Vote: new(vote.For), Commit: new(known)}
	m.lease.length = m.tick * leaseTicks
	m.lease.end()
	config := &raft.Config{
		ID: id, Storage: m.store, Applied: committed,
		ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		AsyncStorageWrites: true, CheckQuorum: true, PreVote: true,
		StepDownOnRemoval: true, DisableProposalForwarding: true,
		MaxSizePerMsg: messageMax, MaxInflightMsgs: inflightMax, MaxInflightBytes: inflightSize,
		MaxCommittedSizePerReady: applyingMax, MaxUncommittedEntriesSize: math.MaxUint64,
		Logger: raftLogger(o.Logger),
	}
	if m.raft, err = raft.NewRawNode(config); err != nil {
		return nil, err
	}
	if members.soleVoter(id) {
		return m, m.raft.Campaign() // it disturbs no other node
	}
	return m, nil
}

// Tick reports that a tenth of the timeout has passed. now is the node's monotonic clock.
func (m *Machine) Tick(now time.Duration) {
	m.now = now
	m.quiet = max(0, m.quiet-1)
	m.raft.Tick()
	m.tickFetching()
	switch {
	case m.role != Leading:
	case !m.lease.off:
		m.raft.ReadIndex(m.lease.ask(now))
	case m.store.members.soleVoter(m.id):
		m.lease.begin() // no other node can lead without its vote, even if told to campaign
	case m.transferring > 0:
		m.transferring--
	default:
		_ = m.Transfer(m.successor()) // the voter that was told to campaign does not lead
	}
}

// receive handles a message from a peer. It ignores messages that peers do not send, and messages of
// nodes that are not members.
func (m *Machine) receive(msg Message) {
	if !msg.comesFromPeers() || msg.To() != m.id || !ValidID(msg.from()) || msg.from() == m.id || msg.asksForVote() && m.quiet > 0 {
		return
	}
	step := msg.pb
	if step.GetType() == raftpb.MsgSnap && m.takeSnapshot(step) {
		// raft gets a heartbeat instead: a node installs another journal only before it starts.
		step = &raftpb.Message{
			Type: raftpb.MsgHeartbeat.Enum(), To: step.To, From: step.From, Term: step.Term, Commit: new(uint64(0)),
		}
	}
	if m.raft.Step(step) != nil || !msg.isFromLeader() {
		return
	}
	if s := m.raft.BasicStatus(); s.Lead == msg.from() && s.GetTerm() == msg.pb.GetTerm() {
		m.quiet = electionTicks
	}
}

// takeSnapshot records that the leader's log no longer has the entries that this node needs. It
// reports false if this node needs none: then raft tells the leader its last index.
func (m *Machine) takeSnapshot(msg *raftpb.Message) bool {
	s := m.raft.BasicStatus()
	of := msg.GetSnapshot().GetMetadata()
	if of.GetIndex() <= s.GetCommit() {
		return false
	}
	if msg.GetTerm() >= s.GetTerm() {
		m.fetch = &Fetch{From: msg.GetFrom(), Index: of.GetIndex(), Term: of.GetTerm()}
	}
	return true
}

// Propose appends entries to the log, and returns the index of the first. It copies the data. After
// ErrNotLeader, also during a hand-over, the entries never enter the log.
func (m *Machine) Propose(data [][]byte) (first uint64, err error) {
	if m.role != Leading || len(data) == 0 {
		return 0, ErrNotLeader
	}
	entries := make([]*raftpb.Entry, len(data))
	for i, d := range data {
		entries[i] = &raftpb.Entry{Type: raftpb.EntryNormal.Enum(), Data: d}
	}
	if err := m.propose(entries); err != nil {
		return 0, err
	}
	first = m.last + 1
	m.last += uint64(len(entries))
	return first, nil
}

func (m *Machine) propose(entries []*raftpb.Entry) error {
	err := m.raft.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: new(m.id), Entries: entries})
	if errors.Is(err, raft.ErrProposalDropped) {
		return ErrNotLeader
	}
	return err
}

// ProposeChange appends a change of the members to the log, and returns its index. The error says
// why the change is refused, or not possible now.
func (m *Machine) ProposeChange(c Change) (index uint64, err error) {
	switch {
	case m.role != Leading:
		return 0, ErrNotLeader
	case m.change > m.store.applied:
		return 0, errBusy
	case c.Kind == Remove && c.Member.ID == m.id:
		return 0, ErrSelf
	}
	if _, err := m.store.members.After(c, m.last+1); err != nil {
		return 0, err
	}
	data, err := proto.Marshal(c.conf())
	if err != nil {
		return 0, err
	}
	e := &raftpb.Entry{Type: raftpb.EntryConfChangeV2.Enum(), Data: data}
	if err := m.propose([]*raftpb.Entry{e}); err != nil {
		return 0, err
	}
	m.last++
	m.change = m.last
	return m.last, nil
}

// Transfer hands over to another voter. Meanwhile, for one timeout at most, the node refuses
// proposals. When the voter has the whole log, the node tells it to campaign, which ends the lease
// (see Ready). If the voter does not catch up in time, the node continues to lead.
func (m *Machine) Transfer(to uint64) error {
	if m.role != Leading {
		return ErrNotLeader
	}
	if one := m.store.members.Find(to); one == nil || !one.Voter || to == m.id {
		return fmt.Errorf("%x is not another server that votes", to)
	}
	m.transferring = 2 * electionTicks
	m.raft.TransferLeader(to)
	return nil
}

// Transferring reports whether the result of a Transfer is not known yet.
func (m *Machine) Transferring() bool {
	return m.raft.BasicStatus().LeadTransferee != 0 || m.lease.off
}

// successor returns the voter that could take over soonest: it has answered recently, and has the
// most of the log; zero: there is none.
func (m *Machine) successor() (best uint64) {
	var most uint64
	m.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if id != m.id && kind == raft.ProgressTypePeer && p.RecentActive && p.Match >= most {
			best, most = id, p.Match
		}
	})
	return best
}

// leaseUntil returns the time, on the clock of Tick, until which no other node can lead. Zero:
// there is no lease.
func (m *Machine) leaseUntil() time.Duration { return m.lease.until }

// unreachable reports that messages to a node were lost.
func (m *Machine) unreachable(id uint64) { m.raft.ReportUnreachable(id) }

// Fetching reports that a node has begun to fetch the journal from this one. Until Fetched it gets
// no messages.
func (m *Machine) Fetching(id uint64) {
	if _, is := m.fetching[id]; is {
		m.fetching[id] = math.MaxInt
	}
}

// Fetched reports that a fetch has ended; ok: the node has the whole journal.
func (m *Machine) Fetched(id uint64, ok bool) {
	delete(m.fetching, id)
	status := raft.SnapshotFinish
	if !ok {
		status = raft.SnapshotFailure
	}
	m.raft.ReportSnapshot(id, status)
}

// tickFetching makes raft repeat the request to fetch the journal to nodes that have not begun:
// until they do, raft sends them nothing else.
func (m *Machine) tickFetching() {
	for _, id := range slices.Sorted(maps.Keys(m.fetching)) {
		if m.fetching[id]--; m.fetching[id] == 0 {
			m.Fetched(id, false)
		}
	}
}

// Applied returns the index of the last applied entry.
func (m *Machine) Applied() uint64 { return m.store.applied }

// Members returns the members after the last applied change.
func (m *Machine) Members() *Members { return m.store.members }

// applyChange makes raft follow a committed change. next is Members().After(the change), and must be
// on this node's disk: a node that forgets the others may count itself as a majority.
func (m *Machine) applyChange(e *Entry, next *Members) error {
	_, cc, err := parseChange(e.Data)
	if err != nil {
		return err
	}
	got := m.raft.ApplyConfChange(cc)
	m.store.members = next
	if want := next.confState(); len(got.Voters) != len(want.Voters) || len(got.Learners) != len(want.Learners) {
		panic(fmt.Sprintf("the members are %v, but to raft they are %v", want, got))
	}
	return nil
}
