package member

import (
	"context"
	"math"
	"slices"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
	"polystalk/shard/commit"
)

// roomEvery is how often a leader looks at what room the others have.
const roomEvery = time.Second

// room is how many bytes this server has room for; below zero: it is not known yet.
func (m *Member) room() int64 {
	if m.node.Load() == nil {
		return -1
	}
	return m.journal.Room()
}

// watchRoom has the journal know, while this server leads, what room the others have: where too
// many of their disks are full nothing could be committed any more, not even what frees space. So
// changes are refused before, and deletes go on. It is a goroutine, and ends with Close.
func (m *Member) watchRoom() {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	var full fullDisks
	for was, fullFor := false, 0; ; {
		select {
		case <-m.ctx.Done():
			return
		case <-tick.C:
		}
		room := int64(math.MaxInt64)
		if v, _ := m.node.Load().View(); v.Leads {
			peers := m.ways.transport.Status()
			room = roomOfMost(v.Members, m.id.Node, peers)
			full.tell(m.log, full.look(v.Members, peers, m.fullWith))
		}
		refuses := m.journal.SetRoomElsewhere(room)
		switch {
		case refuses && !was:
			m.log.Error("the disks of too many other servers are full: changes for which there is no space are refused; deleting goes on", "nodes", full.names())
		case was && !refuses:
			m.log.Info("there is space again on the disks of the other servers: changes are taken")
		}
		was = refuses
		// A disk that is full only here need not keep clients waiting.
		if fullFor++; refuses || m.journal.Pressure() != commit.Full {
			fullFor = 0
		}
		if fullFor%fullLooks == 0 && fullFor > 0 {
			m.relieve()
		}
	}
}

// fullLooks is at how many looks in a row the disk must be full before another server is to lead:
// what is given up meanwhile may be enough.
const fullLooks = 5

// relieve has a server lead that has room, if there is one with which a majority has.
func (m *Member) relieve() {
	n := m.node.Load()
	v, _ := n.View()
	if !v.Leads {
		return
	}
	to := withRoom(v.Members, m.id.Node, m.ways.transport.Status(), m.journal.Room()+4*m.o.Config.BinlogSize)
	if to == nil {
		return
	}
	m.log.Warn("the disk is full here, and has room at others: another server is to lead", "to", to.Name)
	ctx, cancel := context.WithTimeout(m.ctx, roomEvery)
	defer cancel()
	if err := n.Transfer(ctx, to.ID); err != nil {
		m.log.Warn("another server does not lead yet", "to", to.Name, "err", err)
	}
}

// withRoom is the voter that has most room, if with it a majority without self has at least so
// many bytes; else nil.
func withRoom(members *cluster.Members, self uint64, peers []transport.PeerStatus, least int64) (best *cluster.Member) {
	most, able := int64(-1), 0
	for i := range members.List {
		one := &members.List[i]
		if !one.Voter || one.ID == self {
			continue
		}
		for k := range peers {
			p := &peers[k]
			if p.Node != one.ID || !p.ConnectedTo || p.Room == nil || *p.Room < least {
				continue
			}
			if able++; *p.Room > most {
				most, best = *p.Room, one
			}
		}
	}
	if able <= members.Voters()/2 {
		return nil
	}
	return best
}

// roomOfMost is what as many of the other voters have room for as it takes, with self, to commit
// something. Who has never said so is no limit; who is gone counts with what it said last.
func roomOfMost(members *cluster.Members, self uint64, peers []transport.PeerStatus) int64 {
	var rooms []int64
	for _, one := range members.List {
		if !one.Voter || one.ID == self {
			continue
		}
		room := int64(math.MaxInt64)
		for i := range peers {
			if p := &peers[i]; p.Node == one.ID && p.Room != nil {
				room = *p.Room
			}
		}
		rooms = append(rooms, room)
	}
	// Of n others and self a majority is self and half of the others, rounded up.
	needed := (len(rooms) + 1) / 2
	if needed == 0 {
		return math.MaxInt64
	}
	slices.Sort(rooms)
	return rooms[len(rooms)-needed]
}
