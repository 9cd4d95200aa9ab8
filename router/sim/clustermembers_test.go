package sim

import (
	"errors"
	"fmt"
	"io/fs"

	"polystalk/router/cluster"
	"polystalk/router/cluster/snapshot"
)

// everMax bounds the total number of servers, including removed ones.
const everMax = 8

// anyone returns one of the servers that are not removed.
func (c *Cluster) anyone() *member {
	for {
		if m := c.all[c.rng.IntN(len(c.all))]; !m.gone {
			return m
		}
	}
}

// members returns the members that the leader lists.
func (c *Cluster) members() (list []*member) {
	for _, one := range c.serves.hand.Machine().Members().List {
		list = append(list, c.all[one.ID-1])
	}
	return list
}

// operate runs an operator's request at the leader: a leadership transfer or a change of the
// members. A member joins under a new name or the name of a removed member, gets a vote, perhaps
// before it has the whole history, or is removed.
func (c *Cluster) operate(m *member) error {
	l := c.serves
	if !l.alive() || l.hand.Leads() == 0 {
		return nil
	}
	if c.rng.IntN(4) == 0 {
		return l.after(l.hand.Do(func(x *cluster.Machine) {
			if x.Transfer(m.id) == nil {
				c.seen["transfers"]++
			}
		}))
	}
	members := l.hand.Machine().Members()
	change := cluster.Change{Kind: cluster.Add}
	switch one := members.Find(m.id); {
	case one == nil && !m.joins:
		m.stop() // it was removed, even if it does not know
		m.gone = true
		return nil
	case one == nil: // it was to be added before, and that has come to nothing
	case m.joins:
		return nil
	case !one.Voter:
		change.Kind = cluster.Promote
	case members.Voters() > 3 || members.Voters() > 2 && c.rng.IntN(3) == 0:
		change.Kind = cluster.Remove
	default:
		if m = c.joiner(members); m == nil {
			return nil
		}
	}
	change.Member = cluster.Member{ID: m.id, Name: m.name, Addr: "x"}
	return l.after(l.hand.Do(func(x *cluster.Machine) {
		if _, err := x.ProposeChange(change); err == nil {
			c.seen["changes"]++
		}
	}))
}

// joiner returns a server that will join, perhaps in place of a removed one.
func (c *Cluster) joiner(members *cluster.Members) *member {
	name := ""
	for _, m := range c.all {
		if m.joins {
			return nil // one at a time
		}
		if members.Named(m.name) == nil {
			name = m.name
		}
	}
	if len(c.all) == everMax {
		return nil
	}
	if name == "" {
		name = fmt.Sprint("n", len(c.all)+1)
	}
	m := c.newMember(name)
	m.joins = true
	// The id of the new member; a real server draws it.
	f, err := m.disk.Create(snapshot.PendingName)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "%016x\n", m.id), 0)
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close(), m.disk.Sync())
	}
	if err != nil {
		panic(err)
	}
	return m
}

// join lets a server try to become a member, once the leader knows it: it fetches the journal, and
// may stop at any disk operation of the exchange.
func (m *member) join() error {
	l := m.c.serves
	if l == nil || !l.alive() || l.hand.Machine().Members().Find(m.id) == nil || !m.c.calm && m.c.rng.IntN(20) > 0 {
		return nil
	}
	err := m.begin(l.member)
	if _, full := errors.AsType[*snapshot.RoomError](err); full {
		return nil
	}
	return m.after(err)
}

// begin starts the process of a server that will join, or has joined and ended before it knew.
func (m *member) begin(from *member) error {
	state, err := cluster.OpenState(m.disk)
	if err == nil {
		m.joins = false
		m.c.seen["joined"]++
		return state.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := snapshot.Clear(m.disk); err != nil {
		return err
	}
	if id, err := snapshot.NodeID(m.disk); err != nil || id != m.id {
		return fmt.Errorf("it joins as %x: %w", id, err)
	}
	got, err := m.stream(from)
	if err != nil || got == nil {
		return err
	}
	if m.c.rng.IntN(2) == 0 {
		m.disk.CrashAt = m.disk.Ops + 1 + m.c.rng.IntN(30)
	}
	state, err = snapshot.Install(m.disk, got, m.identity())
	if err != nil {
		if _, disk := errors.AsType[*snapshot.DiskError](err); !disk {
			err = nil // the journal is older than its membership, or it votes already
		}
		return err
	}
	m.joins = false
	m.c.seen["joined"]++
	m.disk.CrashAt = 0
	return state.Close()
}
