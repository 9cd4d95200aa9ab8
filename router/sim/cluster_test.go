package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"polystalk/router"
	"polystalk/router/cluster"
	"polystalk/router/cluster/snapshot"
	"polystalk/router/routertest"
	"polystalk/shard"
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	"polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// clusterTimeout is the election timeout on the cluster's own clock, which is independent of the
// clients' time.
const clusterTimeout = 10 * time.Millisecond

// bagMax bounds the messages on their way; more are lost.
const bagMax = 200

// A Cluster is several servers in one goroutine, each with a journal on its disk. The World has the
// leader.
type Cluster struct {
	seed   uint64
	rng    *rand.Rand
	w      *world
	now    time.Duration
	all    []*member
	bag    []parcel
	cut    map[[2]uint64]bool // links that lose all messages
	calm   bool               // no message is lost
	serves *leader            // the leader that the World has
	waited int                // how often the leader's journal had no progress
	fault  clusterFault
	seen   map[string]int
}

// A clusterFault is a fault in the servers' code.
type clusterFault int

const (
	honest     clusterFault = iota
	replyEarly              // a commit is acknowledged once it is proposed
	leaveOut                // a follower skips a part of the history
	applyTwice              // or applies it twice
	floorFirst              // the leader sends copies after the Floor that needs them
)

// A parcel is a message on its way.
type parcel struct {
	to      uint64
	message []byte
}

// A member is one of the servers, with the state that outlives its process.
type member struct {
	c     *Cluster
	id    uint64
	name  string
	disk  *fakedisk.Disk
	joins bool // its directory does not belong to a node yet
	gone  bool // it was removed, and shuts down
	up    bool
	busy  bool // it is paused
	away  int  // it stays down for so long, in steps
	state *cluster.State
	d     *routertest.Driven
	f     *router.Follower
	props *cluster.Proposals
	hand  *cluster.Stepper
	fetch *cluster.Fetch
	led   bool // it has led
	tight bool // its disk was perhaps full at some time

	received *snapshot.Received // a received journal, next to its own; nil: there is none
}

// newCluster makes three servers with empty disks.
func newCluster(seed uint64, seen map[string]int) *Cluster {
	c := &Cluster{seed: seed, seen: seen, rng: rand.New(rand.NewPCG(seed, 33)), cut: map[[2]uint64]bool{}}
	members := &cluster.Members{}
	for id := range uint64(3) {
		m := c.newMember(fmt.Sprint("n", id+1))
		members.List = append(members.List, cluster.Member{ID: m.id, Name: m.name, Addr: "x", Voter: true})
	}
	for _, m := range c.all {
		s, err := cluster.CreateState(m.disk, m.identity(), cluster.Vote{}, members)
		if err != nil {
			panic(err)
		}
		s.Close()
	}
	return c
}

// newMember makes a server with an empty disk.
func (c *Cluster) newMember(name string) *member {
	id := uint64(len(c.all) + 1)
	m := &member{c: c, id: id, name: name, disk: fakedisk.New(c.seed ^ id<<40)}
	c.all = append(c.all, m)
	return m
}

func (m *member) identity() cluster.Identity {
	return cluster.Identity{Cluster: 1, Node: m.id, Name: m.name}
}

// errOver means that a process has ended without a disk fault.
var errOver = errors.New("the process has ended")

// start starts a process. If its disk stops meanwhile, the error is ErrDead.
func (m *member) start() (err error) {
	m.props, m.fetch, m.received, m.led, m.busy, m.tight = cluster.NewProposals(), nil, nil, false, false, m.disk.Limit > 0
	cfg := m.c.w.cfg
	cfg.Journal = &router.Journal{Disk: m.disk, SegmentSize: wal.SegmentMin, Proposer: m.proposer(), Node: m.id}
	if m.d, err = m.c.w.newServer(cfg); err != nil {
		return err
	}
	if m.state, err = cluster.OpenState(m.disk); err != nil {
		return err
	}
	if m.f, err = m.d.Server.FollowByHand(m.c.w.noted); err != nil {
		return err
	}
	if err = snapshot.Settle(m.disk, m.state); err != nil {
		return err
	}
	m.hand, err = cluster.NewStepper(cluster.StepperOptions{
		NodeOptions: cluster.NodeOptions{
			State: m.state, Log: m.f.Journal().Entries(), Replica: m, Proposals: m.props, Acknowledge: m.f.Journal().Committed,
			Timeout: clusterTimeout, Fetch: func(f cluster.Fetch) { m.fetch = &f },
		},
		Send: m.send, Now: func() time.Duration { return m.c.now },
	})
	m.up = err == nil
	return err
}

// Apply implements cluster.Replica.
func (m *member) Apply(rec *record.Record) error {
	if m.c.fault != honest && m.c.rng.IntN(10) == 0 {
		switch m.c.fault {
		case leaveOut:
			return nil
		case applyTwice:
			if err := m.f.Apply(rec); err != nil {
				return err
			}
		}
	}
	return m.f.Apply(rec)
}

// Settle implements cluster.Replica.
func (m *member) Settle() { m.f.Settle() }

// Lead implements cluster.Replica.
func (m *member) Lead() error {
	m.led = true
	return m.f.Lead(m.least)
}

// least returns the commit on which replies depend.
func (m *member) least() uint64 {
	if m.hand.Leased() {
		return 0
	}
	n := m.f.Journal().Begun() + 1
	m.f.Journal().Wake()
	return n
}

// send adds a message to the bag.
func (m *member) send(msg cluster.Message) {
	b, err := msg.Encode()
	if err != nil {
		panic(err)
	}
	if len(m.c.bag) < bagMax && !m.c.cut[[2]uint64{m.id, msg.To()}] {
		m.c.bag = append(m.c.bag, parcel{msg.To(), b})
	}
}

// stop ends the process, with or without a power failure.
func (m *member) stop() {
	if m.up || m.d != nil {
		m.c.seen["stops"]++
	}
	m.up = false
	if m.d != nil && m.d != m.c.w.D {
		m.d.Close() // the World closes its Driven itself
	}
	m.d, m.hand = nil, nil
	m.disk.CrashAt = 0
	if m.c.rng.IntN(3) > 0 {
		m.disk.Cut()
	} else {
		m.disk.Kill()
	}
}

// after handles the result of a member's step. It returns only errors that no simulated fault
// explains.
func (m *member) after(err error) error {
	var f *commit.Failure
	switch {
	case err == nil:
		return nil
	case wal.IsFull(err) && m.f != nil: // until the space is checked again
		return m.after(m.f.Journal().Tend())
	case wal.IsFull(err): // the start has failed, and is retried
	case errors.As(err, &f) && f.Cause == commit.Deposed:
		m.c.seen["deposed"]++
	case errors.Is(err, cluster.ErrRemoved):
		m.gone = true
		m.c.seen["removed"]++
	case !errors.Is(err, fakedisk.ErrDead):
		return fmt.Errorf("member %d: %w", m.id, err)
	}
	m.stop()
	return nil
}

// step runs one event of the cluster.
func (c *Cluster) step() error {
	switch r := c.rng.IntN(20); {
	case r == 0 || len(c.bag) == 0 && c.rng.IntN(3) == 0:
		return c.tick()
	case r < 12 && len(c.bag) > 0:
		return c.deliver()
	}
	m := c.anyone()
	switch {
	case m.joins:
		return m.join()
	case !m.up:
		if m.away--; c.calm || m.away < 0 && c.rng.IntN(40) == 0 {
			return m.after(m.start())
		}
	case m.busy && !c.calm:
		m.busy = c.rng.IntN(60) > 0
	case !c.calm && !m.led && c.rng.IntN(300) == 0:
		// The request is late, or from a deposed leader: neither must do harm.
		m.fetch = &cluster.Fetch{From: 1 + uint64(c.rng.IntN(len(c.all)))}
	case m.fetch != nil && m.received == nil:
		return m.receive()
	case m.received != nil && (c.calm || c.rng.IntN(30) == 0):
		return m.exchange()
	case m.hand.Writes() > 0 && c.rng.IntN(2) == 0:
		return m.after(m.hand.Write(1 + c.rng.IntN(m.hand.Writes())))
	case m.hand.Applies() > 0:
		return m.after(m.hand.Apply())
	case !m.led && (m.f.Journal().Untended() || c.rng.IntN(20) == 0):
		return m.after(m.f.Journal().Tend())
	}
	return nil
}

// tick lets a tenth of the timeout pass for every running member.
func (c *Cluster) tick() error {
	c.now += clusterTimeout / 10
	for _, m := range c.all {
		if m.up && (!m.busy || c.calm) && c.rng.IntN(20) > 0 {
			if err := m.after(m.hand.Tick()); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliver delivers or loses one message of the bag.
func (c *Cluster) deliver() error {
	i := c.rng.IntN(min(len(c.bag), 12)) // out of order by at most a few messages
	if c.rng.IntN(50) == 0 {
		i = c.rng.IntN(len(c.bag))
	}
	p := c.bag[i]
	if c.calm || c.rng.IntN(20) > 0 { // else it is delivered twice
		c.bag = slices.Delete(c.bag, i, i+1)
	}
	m := c.all[p.to-1]
	if !m.up || !c.calm && (m.busy || c.rng.IntN(40) == 0) {
		return nil
	}
	msg, err := cluster.Decode(p.message)
	if err != nil {
		return err
	}
	return m.after(m.hand.Receive(msg))
}

// receive lets a member receive the journal of another one. It continues to follow meanwhile.
func (m *member) receive() error {
	f := m.fetch
	m.fetch = nil
	from := m.c.all[f.From-1]
	if !from.up || from == m {
		return nil
	}
	var err error
	m.received, err = m.stream(from)
	return m.after(err)
}

// stream lets a member receive the journal of another one. It fails if the sender ends or the disk
// is too small; the members' states show which. Neither machine stops meanwhile, because the
// receiver has a goroutine and the seed would not replay.
func (m *member) stream(from *member) (got *snapshot.Received, err error) {
	tell := func(do func(x *cluster.Machine)) error { return from.after(from.hand.Do(do)) }
	if err := tell(func(x *cluster.Machine) { x.Fetching(m.id) }); err != nil || !from.up {
		return nil, err
	}
	for _, d := range []*fakedisk.Disk{m.disk, from.disk} {
		defer func(at int) {
			if d.CrashAt = at; at > 0 {
				d.CrashAt = max(at, d.Ops+1)
			}
		}(d.CrashAt)
		d.CrashAt = 0
	}
	var stream bytes.Buffer
	note := from.hand.Machine().Members().Encode()
	pin := from.f.Journal().Pin()
	_, err = snapshot.Send(context.Background(), &stream, pin, snapshot.SendOptions{Note: note})
	pin.Release()
	if err != nil {
		return nil, from.after(err)
	}
	torn := !m.c.calm && m.c.rng.IntN(8) == 0
	if torn {
		stream.Truncate(m.c.rng.IntN(stream.Len()))
	}
	got, err = snapshot.Receive(context.Background(), &stream, m.disk, snapshot.ReceiveOptions{})
	if err := tell(func(x *cluster.Machine) { x.Fetched(m.id, err == nil) }); err != nil {
		return nil, err
	}
	if _, full := errors.AsType[*snapshot.RoomError](err); full || torn && err != nil {
		return nil, nil // the request is repeated
	}
	return got, err
}

// exchange restarts a member with its received journal, unless its own has more by now. The process
// may end at any disk operation of the exchange.
func (m *member) exchange() error {
	got := m.received
	log := m.f.Journal().Entries()
	last := log.Last()
	term, err := log.Term(last)
	if err != nil {
		return m.after(err)
	}
	m.stop()
	state, err := cluster.OpenState(m.disk)
	if err != nil {
		return m.after(err)
	}
	defer state.Close()
	if m.c.rng.IntN(2) == 0 {
		m.disk.CrashAt = m.disk.Ops + 1 + m.c.rng.IntN(30)
	}
	switch err = snapshot.Exchange(got, state, last, term); {
	case errors.Is(err, snapshot.ErrOlder):
		err = nil
	case err == nil:
		m.c.seen["fetches"]++
	}
	m.disk.CrashAt = 0
	return m.after(err)
}

// lead gives the World the next leader, in place of the previous one.
func (c *Cluster) lead() (*routertest.Driven, routertest.ByHand, error) {
	for range 300_000 {
		for _, m := range c.all {
			if m.up && m.led && m.hand.Leads() != 0 {
				c.serves = &leader{m, m.hand}
				c.seen["elections"]++
				return m.d, c.serves, nil
			}
		}
		if c.rng.IntN(300) == 0 {
			c.relieve()
		}
		if err := c.step(); err != nil {
			return nil, nil, err
		}
	}
	var text strings.Builder
	text.WriteString("nobody comes to lead:")
	for _, m := range c.all {
		if !m.up {
			fmt.Fprintf(&text, " %d is down;", m.id)
			continue
		}
		x := m.hand.Machine()
		fmt.Fprintf(&text, " %d leads in term %d, led %v, has applied %d of %d, %d writes wait;", m.id, x.Leads(), m.led, x.Applied(), m.f.Journal().Entries().Last(), m.hand.Writes())
	}
	return nil, nil, errors.New(text.String())
}

// relieve ends the faults that do not end by themselves.
func (c *Cluster) relieve() {
	clear(c.cut)
	c.waited = 0
	for _, m := range c.all {
		m.disk.Limit, m.away = 0, 0
	}
}

// A leader is the journal of the World's member, with the cluster behind it. The cluster continues
// whenever the journal would.
type leader struct {
	*member
	life *cluster.Stepper
}

// alive reports whether its process still runs and leads.
func (l *leader) alive() bool { return l.up && l.hand == l.life }

// isWaiting reports whether entries are not committed.
func (m *member) isWaiting() bool {
	n, _ := m.props.Outstanding()
	return n > 0
}

// Requested implements routertest.ByHand.
func (l *leader) Requested() bool {
	return l.alive() && (l.f.Journal().Requested() || l.isWaiting())
}

// Commit implements routertest.ByHand.
func (l *leader) Commit() error {
	c := l.c
	if l.alive() && l.props.Room() && l.f.Journal().Requested() {
		err := l.f.Journal().Commit()
		if err == nil && c.fault == replyEarly {
			err = l.f.Journal().Committed(l.f.Journal().Begun())
		}
		if err == nil {
			err = l.hand.Propose()
		}
		if err := l.after(err); err != nil {
			return err
		}
	}
	if c.waited++; l.alive() && !l.isWaiting() {
		c.waited = 0
	}
	if c.waited > 500 { // the world may be waiting until it is at rest
		c.relieve()
	}
	for range 1 + c.rng.IntN(30) {
		if err := c.step(); err != nil {
			return err
		}
	}
	if !l.alive() {
		return errOver
	}
	return nil
}

// Untended implements routertest.ByHand.
func (l *leader) Untended() bool { return l.alive() && l.f.Journal().Untended() }

// Tend implements routertest.ByHand.
func (l *leader) Tend() error {
	if !l.alive() {
		return errOver
	}
	if err := l.after(l.f.Journal().Tend()); err != nil || !l.alive() {
		return errors.Join(err, errOver)
	}
	return nil
}

// digests returns the digests of all shards of a member, a moment later. Cores order events of one
// time by nanoseconds, so a leader may be ahead of a follower.
func (m *member) digests() (all []uint64) {
	var b shard.Batch
	m.d.Stamp(&b)
	b.Now += core.Time(time.Microsecond)
	for _, sh := range m.d.Shards() {
		all = append(all, sh.Digest(&b))
	}
	return all
}
