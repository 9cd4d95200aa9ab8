package member

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
	"polystalk/shard/commit"
)

const (
	// awayTimeouts is the number of election timeouts without a message after which a server counts
	// as unreachable. A leader gets several answers within one.
	awayTimeouts = 4
	// behindMax is the number of entries that a server may lack to take over from a full leader.
	behindMax = 1024
)

// A quorum knows which servers a leader can reach, and their free disk space. It refuses operators'
// changes that consensus would accept, but after which no server could lead.
type quorum struct {
	cluster.Status
	self   uint64
	links  []transport.PeerStatus
	within time.Duration // see isHeard
}

func (m *Member) newQuorum(s *cluster.Status, links []transport.PeerStatus) *quorum {
	return &quorum{*s, m.id.Node, links, awayTimeouts * m.o.Config.Cluster.Timeout}
}

// askQuorum returns the quorum now. It is nil if this server does not lead: the node then refuses.
func (m *Member) askQuorum(ctx context.Context, n *cluster.Node) *quorum {
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	s, err := n.Status(ctx)
	if err != nil || s.Role != cluster.Leading {
		return nil
	}
	return m.newQuorum(&s, m.links.transport.Status())
}

// isHeard reports whether this server is connected to another, and has had a message of consensus
// from it within a time.
func isHeard(node uint64, links []transport.PeerStatus, s *cluster.Status, within time.Duration) bool {
	p := s.Peer(node)
	return p != nil && p.Heard >= 0 && p.Heard < within &&
		slices.ContainsFunc(links, func(p transport.PeerStatus) bool { return p.Node == node && p.ConnectedTo })
}

func (q *quorum) has(id uint64) bool {
	return id == q.self || isHeard(id, q.links, &q.Status, q.within)
}

// away returns the names of the voters that cannot be reached.
func (q *quorum) away(of *cluster.Members) []string {
	names := []string{}
	for i := range of.List {
		if o := &of.List[i]; o.Voter && !q.has(o.ID) {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return names
}

// checkChange refuses a change after which no majority of the voters could be reached. Consensus
// refuses invalid changes.
func (q *quorum) checkChange(c cluster.Change) error {
	if q == nil {
		return nil
	}
	one := q.Members.Find(c.Member.ID)
	next, err := q.Members.After(c, q.Members.Index+1)
	if err != nil || one == nil || one.ID == q.self || next.Voters() == q.Members.Voters() {
		return nil
	}
	away := q.away(next)
	if next.Voters()-len(away) > next.Voters()/2 {
		return nil
	}
	names := strings.Join(away, ", ")
	if c.Kind == cluster.Promote {
		return wire.NotChanged.With("node", "if "+one.Name+" voted, no majority of the voters could be reached: no server could lead without "+names, "start "+names+" first")
	}
	return wire.NotChanged.With("node", "without "+one.Name+" no majority of the voters could be reached: no server could lead without "+names,
		"start "+names+" first, or remove what will not come back first: polystalk cluster remove "+away[0])
}

// checkLeader refuses a next leader that cannot be reached, or has a full disk: it would hand over
// again.
func (q *quorum) checkLeader(one *cluster.Member, isFull func(room int64) bool) error {
	if q == nil {
		return nil
	}
	if !q.has(one.ID) {
		return wire.NotChanged.With("node", one.Name+" cannot be reached, so it cannot take over",
			"start it first, or name another one: polystalk cluster status shows which servers are connected")
	}
	if room := q.roomOf(one.ID); room != nil && isFull(*room) {
		return wire.NotChanged.With("node", "the disk of "+one.Name+" is full, so it cannot take over",
			"free space there first, or name another one: polystalk cluster status shows which disks are full")
	}
	return nil
}

// roomOf returns the free bytes that a server reported last; nil: it never did.
func (q *quorum) roomOf(id uint64) *int64 {
	for i := range q.links {
		if q.links[i].Node == id {
			return q.links[i].Room
		}
	}
	return nil
}

// withRoom returns the voter with the most free space among the voters that lack little of the log.
// It is nil unless a majority without this server has at least least bytes.
func (q *quorum) withRoom(least int64) (best *cluster.Member) {
	most, able := int64(-1), 0
	for i := range q.Members.List {
		one := &q.Members.List[i]
		room, peer := q.roomOf(one.ID), q.Peer(one.ID)
		if !one.Voter || one.ID == q.self || !q.has(one.ID) || room == nil || *room < least {
			continue
		}
		able++
		if peer.Match+behindMax >= q.Commit && *room > most {
			most, best = *room, one
		}
	}
	if able <= q.Members.Voters()/2 {
		return nil
	}
	return best
}

// roomOfMajority returns the number of bytes that a majority of voters with this server has room
// for, and the names of the servers that limit it. A server that never reported its room sets no
// limit, and a server that cannot be reached does not count. Without a reachable majority there is
// no limit, since consensus ends the lead.
func (q *quorum) roomOfMajority() (room int64, of []string) {
	type voter struct {
		room int64
		name string
	}
	var all []voter
	for i := range q.Members.List {
		v := &q.Members.List[i]
		if !v.Voter || v.ID == q.self || !q.has(v.ID) {
			continue
		}
		all = append(all, voter{math.MaxInt64, v.Name})
		if told := q.roomOf(v.ID); told != nil {
			all[len(all)-1].room = *told
		}
	}
	needed := q.Members.Voters() / 2 // in addition to this server
	if needed == 0 || len(all) < needed {
		return math.MaxInt64, nil
	}
	slices.SortFunc(all, func(a, b voter) int { return cmp.Or(cmp.Compare(a.room, b.room), cmp.Compare(a.name, b.name)) })
	room = all[len(all)-needed].room
	for _, v := range all[:len(all)-needed+1] {
		of = append(of, v.name)
	}
	return room, of
}

const (
	// fullLooks is the number of looks after which a full leader hands over: compaction may make
	// enough room before.
	fullLooks = 5
	// stuckLooks is the number of looks without progress after which a leader steps down because of
	// full disks. Clients have waited for three seconds at most by then.
	stuckLooks = 2
)

// errNoRoom ends the lead of a server that can commit nothing.
var errNoRoom = errors.New("too few of the servers that can be reached have space on their disks, so nothing can be committed")

// room returns the number of bytes that this server can write. It is negative until the journal is
// read, and zero while the server must fetch a journal and has no space for it.
func (m *Member) room() int64 {
	if m.node.Load() == nil {
		return -1
	}
	if last := m.cramped.Load(); last != 0 && last == m.journal.Entries().Last() {
		return 0
	}
	return m.journal.Room()
}

// A spaceWatch tells a leader's journal how much space the others have. Without space at a majority
// nothing can be committed, not even a delete that frees space. So the journal refuses other changes
// before that. If commits still stop, the leader steps down: clients must not wait for an operator.
type spaceWatch struct {
	full    fullDisks
	stuck   stall
	refuses bool
	fullFor int // looks at which only this server's disk was full
}

// look is called every lookEvery. q is nil if this server does not lead.
func (w *spaceWatch) look(m *Member, n *cluster.Node, q *quorum) {
	room, short := int64(math.MaxInt64), []string(nil)
	if q != nil {
		room, short = q.roomOfMajority()
		w.full.look(q.Members, q.links, m.fullWith, m.log)
	}
	refuses := m.journal.SetRoomElsewhere(room)
	switch {
	case refuses && !w.refuses:
		m.log.Error("the disks of too many other servers are full: changes that need space are refused; deleting still works", "nodes", short, "away", q.away(q.Members))
	case w.refuses && !refuses:
		m.log.Info("there is space again on the disks of the other servers: changes are accepted")
	}
	w.refuses = refuses
	isFull := m.journal.Pressure() == commit.Full
	if w.fullFor++; refuses || !isFull { // a disk that is full only here need not keep clients waiting
		w.fullFor = 0
	}
	ends := w.stuck.look(q) >= stuckLooks && isFull
	if q != nil && (ends || w.fullFor%fullLooks == 0 && w.fullFor > 0) {
		ends = !m.relieve(n, q) && ends
	}
	if ends {
		m.log.Error(errNoRoom.Error()+": this server steps down", "nodes", short, "away", q.away(q.Members))
		n.StepDown(errNoRoom)
	}
}

// relieve hands over to a server with free space, if a majority has it. It reports whether another
// server leads.
func (m *Member) relieve(n *cluster.Node, q *quorum) bool {
	to := q.withRoom(m.journal.Room() + 4*m.o.Config.BinlogSize)
	if to == nil {
		return false
	}
	m.log.Warn("the disk is full here, and others have space: handing over", "to", to.Name)
	ctx, cancel := context.WithTimeout(m.ctx, lookEvery)
	defer cancel()
	err := n.Transfer(ctx, to.ID)
	if err != nil {
		m.log.Warn("another server does not lead yet", "to", to.Name, "err", err)
	}
	return err == nil
}

// A stall counts looks in a row without progress: the leader has proposals, had some at the previous
// look, and has applied nothing since.
type stall struct {
	waits   bool
	applied uint64
	looks   int
}

// look counts a look. q is nil if this server does not lead.
func (s *stall) look(q *quorum) (looks int) {
	if q == nil {
		*s = stall{}
		return 0
	}
	next := stall{waits: q.Proposals > 0, applied: q.Applied}
	if next.waits && s.waits && next.applied == s.applied {
		next.looks = s.looks + 1
	}
	*s = next
	return s.looks
}

// fullDisks has the numbers of the other servers with full disks.
type fullDisks map[uint64]bool

// look updates the list and logs each change. isFull reports whether room bytes are too few for
// changes, or nearly too few. A known full disk stays full while nearly is true, so that a disk at
// the limit does not change every second.
func (f *fullDisks) look(members *cluster.Members, links []transport.PeerStatus, isFull func(room int64) (full, nearly bool), log *slog.Logger) {
	was := *f
	*f = make(fullDisks)
	for _, p := range links {
		one := members.Find(p.Node)
		if one == nil || p.Room == nil {
			continue
		}
		full, nearly := isFull(*p.Room)
		is := full || was[p.Node] && nearly
		(*f)[p.Node] = is
		switch {
		case is && !was[p.Node]:
			log.Warn("the disk of another server is full: it stores no changes until there is space", "node", one.Name, "room", *p.Room)
		case was[p.Node] && !is:
			log.Info("there is space again on the disk of another server", "node", one.Name, "room", *p.Room)
		}
	}
}

// FullDisks implements admin.Cluster.
func (m *Member) FullDisks() (here bool, others []string) {
	n, v := m.view()
	if n == nil {
		return false, nil
	}
	for _, p := range m.links.transport.Status() {
		if one := v.Members.Find(p.Node); one != nil && p.Room != nil && m.journal.FullWith(*p.Room) {
			others = append(others, one.Name)
		}
	}
	slices.Sort(others)
	return m.journal.FullHere(), others
}

// fullWith is the isFull of a leader.
func (m *Member) fullWith(room int64) (full, nearly bool) {
	return m.journal.FullWith(room), m.journal.FullWith(room - m.o.Config.BinlogSize)
}
