package member

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"polystalk/router/cluster"
	"polystalk/shard/commit"
)

const (
	// roomEvery is the interval at which a leader looks at the room of the others.
	roomEvery = time.Second
	// fullLooks is the number of looks in a row after which a leader whose disk is full hands over:
	// compaction may make enough room before.
	fullLooks = 5
	// stuckLooks is the number of looks in a row without progress after which a leader gives the
	// lead up because of full disks. Clients have waited for three seconds at most by then.
	stuckLooks = 2
	// behindMax is the number of entries that a server may lack when a full leader chooses it.
	behindMax = 1024
)

// errNoRoom ends the lead of a server that cannot have anything committed.
var errNoRoom = errors.New("too few of the servers that can be reached have room on their disks, so nothing can be committed")

// room returns the number of bytes that this server can write. It is negative until the journal is
// read. It is zero while the server needs the journal of another one and has no room to fetch it.
func (m *Member) room() int64 {
	if m.node.Load() == nil {
		return -1
	}
	if last := m.cramped.Load(); last != 0 && last == m.journal.Entries().Last() {
		return 0
	}
	return m.journal.Room()
}

// watchRoom tells the journal of a leader what room the others have. Without room at a majority
// nothing could be committed, not even what frees space. So the journal refuses changes before that,
// and takes deletes. If nothing is committed all the same, the leader gives the lead up: clients
// must not wait for an operator. watchRoom is a goroutine, and ends with Close.
func (m *Member) watchRoom() {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	var full fullDisks
	var stuck stall
	for was, fullFor := false, 0; ; {
		select {
		case <-m.ctx.Done():
			return
		case <-tick.C:
		}
		n := m.node.Load()
		room, short, r := int64(math.MaxInt64), []string(nil), (*roll)(nil)
		if v, _ := n.View(); v.Leads {
			if r = m.call(m.ctx, n); r == nil {
				continue // it is busy, or leads no more
			}
			room, short = r.roomOfMost()
			full.tell(m.log, full.look(r.members, r.ways, m.fullWith))
		}
		refuses := m.journal.SetRoomElsewhere(room)
		switch {
		case refuses && !was:
			m.log.Error("the disks of too many other servers are full: changes for which there is no space are refused; deleting goes on", "nodes", short, "away", r.away(r.members))
		case was && !refuses:
			m.log.Info("there is space again on the disks of the other servers: changes are taken")
		}
		was = refuses
		isFull := m.journal.Pressure() == commit.Full
		// A disk that is full only here need not keep clients waiting.
		if fullFor++; refuses || !isFull {
			fullFor = 0
		}
		ends := stuck.look(r) >= stuckLooks && isFull
		if r != nil && (ends || fullFor%fullLooks == 0 && fullFor > 0) {
			ends = !m.relieve(n, r) && ends
		}
		if ends {
			m.log.Error(errNoRoom.Error()+": this server gives the lead up", "nodes", short, "away", r.away(r.members))
			n.StepDown(errNoRoom)
		}
	}
}

// A stall counts the looks in a row at which a leader had proposals, as at the look before, and had
// done none since.
type stall struct {
	waits   bool
	applied uint64
	looks   int
}

// look counts a look; r is nil if this server does not lead.
func (s *stall) look(r *roll) (looks int) {
	if r == nil {
		*s = stall{}
		return 0
	}
	next := stall{waits: r.proposals > 0, applied: r.applied}
	if next.waits && s.waits && next.applied == s.applied {
		next.looks = s.looks + 1
	}
	*s = next
	return s.looks
}

// relieve hands the lead over to a server that has room, if a majority has room with it. It reports
// whether another server leads.
func (m *Member) relieve(n *cluster.Node, r *roll) bool {
	to := r.withRoom(m.journal.Room() + 4*m.o.Config.BinlogSize)
	if to == nil {
		return false
	}
	m.log.Warn("the disk is full here, and has room at others: another server is to lead", "to", to.Name)
	ctx, cancel := context.WithTimeout(m.ctx, roomEvery)
	defer cancel()
	err := n.Transfer(ctx, to.ID)
	if err != nil {
		m.log.Warn("another server does not lead yet", "to", to.Name, "err", err)
	}
	return err == nil
}

// withRoom returns the voter with the most room that lacks little of the log. It is nil unless a
// majority without this server has at least that many bytes.
func (r *roll) withRoom(least int64) (best *cluster.Member) {
	most, able := int64(-1), 0
	for i := range r.members.List {
		one := &r.members.List[i]
		room := r.roomOf(one.ID)
		if !one.Voter || one.ID == r.self || !r.has(one.ID) || room == nil || *room < least {
			continue
		}
		able++
		caughtUp := slices.ContainsFunc(r.peers, func(p cluster.Peer) bool { return p.ID == one.ID && p.Match+behindMax >= r.commit })
		if caughtUp && *room > most {
			most, best = *room, one
		}
	}
	if able <= r.members.Voters()/2 {
		return nil
	}
	return best
}

// roomOf returns the room that a server told last; nil: it never did.
func (r *roll) roomOf(id uint64) *int64 {
	for i := range r.ways {
		if r.ways[i].Node == id {
			return r.ways[i].Room
		}
	}
	return nil
}

// roomOfMost returns the number of bytes that a majority of voters has room for, with this server.
// It also returns the names of the servers that set this limit. A server that never told its room
// sets no limit. A server that cannot be reached counts for nothing. If no majority can be reached
// there is no limit, since consensus ends the lead then.
func (r *roll) roomOfMost() (room int64, of []string) {
	type one struct {
		room int64
		name string
	}
	var all []one
	for i := range r.members.List {
		v := &r.members.List[i]
		if !v.Voter || v.ID == r.self || !r.has(v.ID) {
			continue
		}
		all = append(all, one{math.MaxInt64, v.Name})
		if told := r.roomOf(v.ID); told != nil {
			all[len(all)-1].room = *told
		}
	}
	needed := r.members.Voters() / 2 // besides this server
	if needed == 0 || len(all) < needed {
		return math.MaxInt64, nil
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(a.room, b.room), cmp.Compare(a.name, b.name)) })
	room = all[len(all)-needed].room
	for _, v := range all[:len(all)-needed+1] {
		of = append(of, v.name)
	}
	return room, of
}
