package member

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
	"polystalk/shard/commit"
)

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
		w.full.log(m.log, w.full.look(q.Members, q.links, m.fullWith))
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

// fullDisks has the names of the other servers with full disks, by number. The leader logs changes.
type fullDisks map[uint64]string

// A diskChange is a disk that has become full, or has space again.
type diskChange struct {
	node string
	full bool
	room int64 // bytes
}

// look updates the list, and returns what has changed. isFull reports whether room bytes are too few
// for changes, or nearly too few. A known full disk stays full while nearly is true, so that a disk
// at the limit does not change every second.
func (f *fullDisks) look(members *cluster.Members, links []transport.PeerStatus, isFull func(room int64) (full, nearly bool)) (changes []diskChange) {
	was := *f
	*f = make(fullDisks)
	for i := range links {
		p := &links[i]
		one := members.Find(p.Node)
		if one == nil || p.Room == nil {
			continue
		}
		full, nearly := isFull(*p.Room)
		_, known := was[p.Node]
		if full || known && nearly {
			(*f)[p.Node] = one.Name
		}
		if _, is := (*f)[p.Node]; is != known {
			changes = append(changes, diskChange{one.Name, is, *p.Room})
		}
	}
	return changes
}

func (f fullDisks) names() []string { return slices.Sorted(maps.Values(f)) }

func (fullDisks) log(log *slog.Logger, changes []diskChange) {
	for _, n := range changes {
		if n.full {
			log.Warn("the disk of another server is full: it stores no changes until there is space", "node", n.node, "room", n.room)
		} else {
			log.Info("there is space again on the disk of another server", "node", n.node, "room", n.room)
		}
	}
}

// FullDisks implements admin.Cluster.
func (m *Member) FullDisks() (here bool, others []string) {
	n, v := m.view()
	if n == nil {
		return false, nil
	}
	full := make(fullDisks)
	full.look(v.Members, m.links.transport.Status(), func(room int64) (bool, bool) { return m.journal.FullWith(room), false })
	return m.journal.FullHere(), full.names()
}

// fullWith is the isFull of a leader.
func (m *Member) fullWith(room int64) (full, nearly bool) {
	return m.journal.FullWith(room), m.journal.FullWith(room - m.o.Config.BinlogSize)
}
