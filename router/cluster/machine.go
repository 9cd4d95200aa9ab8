package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// electionTicks is the election timeout, in ticks: so long a node waits at least for a leader
// it has heard of. Of those are a heartbeat's, and a lease's.
const (
	electionTicks  = 10
	heartbeatTicks = 2
	leaseTicks     = 8
	fetchTicks     = 3 * electionTicks // within which who was told to fetch the journal begins
)

// Limits of what is under way.
const (
	messageMax   = 1 << 20 // bytes of entries in one message, if there are several
	inflightMax  = 64      // messages to one follower that it has not answered
	inflightSize = 16 << 20
	applyingMax  = 4 << 20 // bytes of entries that are being applied
)

// A Role is what a node does at a time.
type Role uint8

// The roles.
const (
	Following Role = iota
	Campaigning
	Leading
)

// String is the role's name.
func (r Role) String() string { return [...]string{"follower", "candidate", "leader"}[r] }

// Options say what a Machine begins with.
type Options struct {
	ID      uint64
	Log     Log
	Vote    Vote     // as it was synced
	Members *Members // likewise
	// Timeout is the election timeout: Tick is to be called ten times in it, and the calls
	// must never be closer than a tenth of it, since leases of others are counted in them.
	Timeout time.Duration
	Logger  *slog.Logger
}

// A Vote is what a node must not forget of a term.
type Vote struct{ Term, For uint64 }

// A Machine decides what a node does, and does nothing. It has neither clock nor disk nor
// goroutine; one goroutine uses it. What it wants done is in a Ready.
//
// It draws one thing at random, through raft from crypto/rand: how much longer than the
// timeout it waits for a leader, up to twice that. Who needs a run to be the same again gives
// the process another source.
type Machine struct {
	id           uint64
	raft         *raft.RawNode
	store        *storage
	tick         time.Duration
	now          time.Duration // as of the last call
	role         Role          // as of the last Ready, as are leader and vote
	leader       uint64
	vote         Vote
	last         uint64 // Leading: the index of the last entry
	change       uint64 // Leading: the index of the last change that was proposed
	holding      holding
	quiet        int // so many ticks nobody is voted for
	transferring int // so many ticks until a hand-over counts as failed
	lease        lease
	fetching     map[uint64]int // ticks until a node is told again to fetch the journal
	fetches      uint64         // how often one was
	fetch        *Fetch
	ledTerm      uint64 // the last term in which it has led
}

// ErrNotLeader is the error of what only a leader can do, and who hands over no longer.
var ErrNotLeader = errors.New("this server does not lead")

// ErrBusy is the error of a change while another has not been applied, or while the node has
// only begun to lead.
var ErrBusy = errors.New("another change of the servers is not done: ask again in a moment")

// ErrSelf is the error of a leader that is to remove itself: the others might never hear that
// this is committed, and wait for its vote.
var ErrSelf = errors.New("this server leads: hand over first, and let the next leader remove it")

// NewMachine makes one that goes on where its log and its vote have ended.
func NewMachine(o Options) (*Machine, error) {
	if !ValidID(o.ID) {
		return nil, fmt.Errorf("%x is no id of a server", o.ID)
	}
	store := &storage{log: o.Log}
	committed := max(o.Log.Committed(), store.before())
	members, err := o.Members.later(o.Log)
	if err != nil {
		return nil, err
	}
	known := max(committed, members.Index) // a change was applied, so it was committed
	if known > o.Log.Last() {
		return nil, fmt.Errorf("the log ends at entry %d, but %d was committed: this disk has lost what it had promised to keep; remove the server and let it join anew", o.Log.Last(), known)
	}
	m := &Machine{
		id: o.ID, tick: o.Timeout / electionTicks, vote: o.Vote, fetching: map[uint64]int{},
		quiet: electionTicks, // it may have heard of a leader right before it stopped
		store: store,
	}
	if term, err := store.Term(o.Log.Last()); err != nil {
		return nil, err
	} else if term > o.Vote.Term { // of a journal that was alone, or was another's
		m.vote = Vote{Term: term}
		o.Vote = m.vote
	}
	store.members, store.applied = members, committed
	if err := m.holding.begin(o.Log, committed); err != nil {
		return nil, err
	}
	store.hard = &raftpb.HardState{Term: new(o.Vote.Term), Vote: new(o.Vote.For), Commit: new(known)}
	m.lease.length = m.tick * leaseTicks
	m.lease.end()
	config := &raft.Config{
		ID: o.ID, Storage: m.store, Applied: committed,
		ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		AsyncStorageWrites: true, CheckQuorum: true, PreVote: true,
		StepDownOnRemoval: true, DisableProposalForwarding: true,
		MaxSizePerMsg: messageMax, MaxInflightMsgs: inflightMax, MaxInflightBytes: inflightSize,
		MaxCommittedSizePerReady: applyingMax, MaxUncommittedEntriesSize: math.MaxUint64,
		Logger: &logger{o.Logger},
	}
	if m.raft, err = raft.NewRawNode(config); err != nil {
		return nil, err
	}
	if members.soleVoter(o.ID) {
		return m, m.raft.Campaign() // there is nobody whom it could disturb
	}
	return m, nil
}

// Tick tells it that a tenth of the timeout has passed, by a clock that only goes forward.
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
		m.lease.begin() // without its vote nobody leads, whatever was said before
	case m.transferring > 0:
		m.transferring--
	default:
		_ = m.Transfer(m.Successor()) // the voter that was told to campaign does not lead: another one may
	}
}

// Receive takes a message from a peer. The error is for a message that no peer sends, and for
// one from a node that is no member; either changes nothing.
func (m *Machine) Receive(msg Message) error {
	if !msg.comesFromPeers() || msg.To() != m.id || !ValidID(msg.From()) || msg.From() == m.id {
		return fmt.Errorf("no server sends %v", msg)
	}
	if msg.asksForVote() && m.quiet > 0 {
		return nil
	}
	step := msg.pb
	if step.GetType() == raftpb.MsgSnap && m.takeSnapshot(step) {
		// To raft it is a heartbeat: the state of a node only ever changes with its journal,
		// before it starts.
		step = &raftpb.Message{
			Type: raftpb.MsgHeartbeat.Enum(), To: step.To, From: step.From, Term: step.Term, Commit: new(uint64(0)),
		}
	}
	if err := m.raft.Step(step); err != nil {
		return fmt.Errorf("%v: %w", msg, err)
	}
	if msg.isFromLeader() {
		if s := m.raft.BasicStatus(); s.Lead == msg.From() && s.GetTerm() == msg.pb.GetTerm() {
			m.quiet = electionTicks
		}
	}
	return nil
}

// takeSnapshot notes that a leader no longer has the entries that this node needs. It reports
// false if that is not so: then raft tells the leader what there is.
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

// Propose adds entries to the history, if it can, and gives the index of the first. The
// data is copied. With ErrNotLeader, which it is also while the node hands over, they are not
// in it, and never will be.
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

// ProposeChange adds a change of the members to the history, and gives its index. The error
// says why it cannot be made, or not now.
func (m *Machine) ProposeChange(c Change) (index uint64, err error) {
	switch {
	case m.role != Leading:
		return 0, ErrNotLeader
	case m.change > m.store.applied:
		return 0, ErrBusy
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

// Transfer hands the lead over to another voter. The node takes no proposals meanwhile, for one
// timeout at most. It tells the voter to campaign as soon as the voter has the whole log, which
// ends the lease (see Ready). If the voter does not get that far, the node goes on leading.
func (m *Machine) Transfer(to uint64) error {
	if m.role != Leading {
		return ErrNotLeader
	}
	if one := m.store.members.Find(to); one == nil || !one.Voter || to == m.id {
		return fmt.Errorf("%x is no other server that votes", to)
	}
	m.transferring = 2 * electionTicks
	m.raft.TransferLeader(to)
	return nil
}

// Transferring reports whether the result of a Transfer is not known yet.
func (m *Machine) Transferring() bool {
	return m.raft.BasicStatus().LeadTransferee != 0 || m.lease.off
}

// Successor is the voter that could take over soonest: it has answered not long ago, and has
// most of the history. Zero if there is none.
func (m *Machine) Successor() (best uint64) {
	var most uint64
	m.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if id != m.id && kind == raft.ProgressTypePeer && p.RecentActive && p.Match >= most {
			best, most = id, p.Match
		}
	})
	return best
}

// LeaseUntil is the time, on the clock of Tick, until which no other node can lead. Zero if
// there is no such time.
func (m *Machine) LeaseUntil() time.Duration { return m.lease.until }

// Unreachable tells it that messages to a node were lost.
func (m *Machine) Unreachable(id uint64) { m.raft.ReportUnreachable(id) }

// Fetching tells it that a node has begun to fetch the journal from this one: it is left alone
// until Fetched.
func (m *Machine) Fetching(id uint64) {
	if _, is := m.fetching[id]; is {
		m.fetching[id] = math.MaxInt
	}
}

// Fetched tells it what has become of that.
func (m *Machine) Fetched(id uint64, ok bool) {
	delete(m.fetching, id)
	status := raft.SnapshotFinish
	if !ok {
		status = raft.SnapshotFailure
	}
	m.raft.ReportSnapshot(id, status)
}

// tickFetching has those be told again who were told to fetch the journal, and have not begun:
// until then raft sends them nothing else.
func (m *Machine) tickFetching() {
	for _, id := range slices.Sorted(maps.Keys(m.fetching)) {
		if m.fetching[id]--; m.fetching[id] == 0 {
			m.Fetched(id, false)
		}
	}
}

// Applied is the last entry that the replica has met.
func (m *Machine) Applied() uint64 { return m.store.applied }

// Members are those as of the last change that was applied.
func (m *Machine) Members() *Members { return m.store.members }

// ApplyChange has raft go by a change that is committed. The members as it leaves them must be
// on this disk: a node that forgets who the others are may take itself for a majority. They are
// in After, of what Members gives now.
func (m *Machine) ApplyChange(e *Entry, next *Members) error {
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
