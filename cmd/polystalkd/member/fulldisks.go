package member

import (
	"log/slog"
	"maps"
	"slices"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// fullDisks are the other servers whose disks are full, their names by their numbers, as the
// leader has said in its log. The zero value is that all have room.
type fullDisks map[uint64]string

// A fullness is what is to be said of a server's disk.
type fullness struct {
	node string
	full bool
	room int64 // bytes
}

// look notes which disks are full by now, and gives what has changed. isFull says whether changes
// do not fit into so many bytes, and whether they would not with some to spare: a disk on the
// edge is not full anew each second.
func (f *fullDisks) look(members *cluster.Members, peers []transport.PeerStatus, isFull func(room int64) (full, nearly bool)) (news []fullness) {
	was := *f
	*f = make(fullDisks)
	for i := range peers {
		p := &peers[i]
		one := members.Find(p.Node)
		if one == nil || p.Room == nil {
			continue
		}
		full, nearly := isFull(*p.Room)
		_, said := was[p.Node]
		if full || said && nearly {
			(*f)[p.Node] = one.Name
		}
		if _, is := (*f)[p.Node]; is != said {
			news = append(news, fullness{one.Name, is, *p.Room})
		}
	}
	return news
}

// names are those of the servers, in order.
func (f fullDisks) names() []string { return slices.Sorted(maps.Values(f)) }

// tell says what has changed.
func (fullDisks) tell(log *slog.Logger, news []fullness) {
	for _, n := range news {
		if n.full {
			log.Warn("the disk of another server is full: it does not keep what the others do before there is space", "node", n.node, "room", n.room)
		} else {
			log.Info("there is space again on the disk of another server", "node", n.node, "room", n.room)
		}
	}
}

// FullDisks implements admin.Cluster.
func (m *Member) FullDisks() (here bool, others []string) {
	n := m.node.Load()
	if n == nil {
		return false, nil // the journal is being read
	}
	v, _ := n.View()
	full := make(fullDisks)
	full.look(v.Members, m.ways.transport.Status(), func(room int64) (bool, bool) { return m.journal.FullWith(room), false })
	return m.journal.FullHere(), full.names()
}

// fullWith is what fullDisks are told by.
func (m *Member) fullWith(room int64) (full, nearly bool) {
	return m.journal.FullWith(room), m.journal.FullWith(room - m.o.Config.BinlogSize)
}
