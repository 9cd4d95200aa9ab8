package bootstrap

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"polystalk/router/cluster"
)

// A decider decides like decide, for a list in the order of the flag.
type decider func(self *Answer, list []string, answers map[string]*Answer) decision

func sorted(decide decider) decider {
	return func(self *Answer, list []string, answers map[string]*Answer) decision {
		return decide(self, slices.Sorted(slices.Values(list)), answers)
	}
}

// A world is a run of servers from one seed. Messages are lost and late, processes are killed between
// any two writes, disks are lost, lists change, and a server with a lost disk may still run while
// another one has its address.
type world struct {
	rng      *rand.Rand
	decide   decider
	byName   bool // a fault: founding members are known by their names
	addrs    []string
	procs    []*proc // the last of an address is the one that is restarted
	mail     []letter
	clusters map[uint64]*simCluster
	nextID   uint64
	wiped    int
	fault    error
}

// A simDisk is what a server has written.
type simDisk struct {
	id      uint64
	bound   string
	cluster uint64 // zero: it has no cluster.state
	founds  bool   // it is a founding member
	lost    bool
}

// A proc is the process of an address.
type proc struct {
	addr    string
	disk    *simDisk
	list    []string
	down    bool
	life    int
	self    Answer
	round   int
	answers map[string]*Answer
	last    action
	write   func() // the next write; nil: it waits for answers
}

// A letter is a question, or an answer to one.
type letter struct {
	to     *proc
	life   int
	from   *proc
	round  int
	answer *Answer
}

// A simCluster is a cluster with its current members. It is established once a majority of them
// has it on disks that are not lost: only then it can acknowledge anything.
type simCluster struct {
	founders    []cluster.Member
	members     map[uint64]string // addresses by ID
	established bool
}

func (w *world) fail(format string, args ...any) {
	if w.fault == nil {
		w.fault = fmt.Errorf(format, args...)
	}
}

// listOf returns a list in random order. If some is set, it lacks the last server, or has one more,
// which does not exist. So any two lists that can make a cluster share a majority of each.
func (w *world) listOf(some bool) []string {
	list := slices.Clone(w.addrs)
	switch {
	case some && len(list) > 2 && w.rng.IntN(2) == 0:
		list = list[:len(list)-1]
	case some && len(list) > 2:
		list = append(list, "z")
	}
	w.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func (w *world) start(p *proc, some bool) {
	p.life++
	p.down, p.write, p.answers, p.last = false, nil, nil, wait
	for p.list = w.listOf(some); !slices.Contains(p.list, p.addr); {
		p.list = w.listOf(some)
	}
	if p.disk.id == 0 {
		w.nextID++
		p.disk.id = w.nextID
	}
	p.self = Answer{Node: p.disk.id, Name: "n" + p.addr, Address: p.addr, List: digestOf(slices.Sorted(slices.Values(p.list))), Bound: p.disk.bound}
}

// answer is what a process tells another.
func (w *world) answer(p, asking *proc) *Answer {
	a := p.self
	c := w.clusters[p.disk.cluster]
	if c == nil {
		return &a
	}
	a = Answer{Node: a.Node, Name: a.Name, Address: a.Address, Cluster: p.disk.cluster}
	founders := slices.Clone(c.founders)
	for i := range founders {
		m := &founders[i]
		if w.byName && m.Name == asking.self.Name {
			m.ID = asking.disk.id
		}
		if _, is := c.members[m.ID]; (is || w.byName) && m.ID == asking.disk.id {
			a.Votes = true
		}
	}
	if a.Votes && p.disk.founds {
		a.Founders = founders
	}
	return &a
}

// deliver delivers a letter to a process that still runs.
func (w *world) deliver(l letter) {
	switch {
	case l.to.down || l.to.life != l.life:
	case l.answer == nil:
		w.mail = append(w.mail, letter{to: l.from, life: l.from.life, from: l.to, round: l.round, answer: w.answer(l.to, l.from)})
	case l.round == l.to.round && l.to.answers != nil:
		l.to.answers[l.from.addr] = l.answer
	}
}

// ask begins a round of questions. An address with two processes leads to either.
func (w *world) ask(p *proc) {
	p.round++
	p.answers = map[string]*Answer{p.addr: new(p.self)}
	for _, at := range p.list {
		var there []*proc
		for _, o := range w.procs {
			if o.addr == at && at != p.addr && !o.down {
				there = append(there, o)
			}
		}
		if len(there) > 0 {
			to := there[w.rng.IntN(len(there))]
			w.mail = append(w.mail, letter{to: to, life: to.life, from: p, round: p.round})
		}
	}
}

// end ends a round with a decision. Its write is a step of its own.
func (w *world) end(p *proc) {
	answers := p.answers
	p.answers = nil
	d := w.decide(&p.self, p.list, answers)
	last := p.last
	p.last = d.do
	switch d.do {
	case bind:
		p.write = func() { p.disk.bound, p.self.Bound = d.bound, d.bound }
	case discard:
		if last == discard {
			p.write = func() { p.disk.id, p.disk.bound = 0, ""; w.start(p, false) }
		}
	case found:
		for _, at := range p.list {
			if a := answers[at]; a == nil || a.Cluster != 0 {
				w.fail("%s founds, although the answer of %s is %+v", p.addr, at, a)
			}
		}
		p.write = func() {
			c := &simCluster{founders: d.members, members: map[uint64]string{}}
			for _, m := range d.members {
				c.members[m.ID] = m.Addr
				for id, other := range w.clusters {
					if slices.ContainsFunc(other.founders, func(o cluster.Member) bool { return o.ID == m.ID }) {
						w.fail("server %d founds two clusters, one of them %d", m.ID, id)
					}
				}
			}
			id := uint64(len(w.clusters) + 1)
			w.clusters[id] = c
			w.become(p, id, true)
		}
	case adopt:
		p.write = func() { w.become(p, d.cluster, true) }
	case join:
		p.write = func() { w.join(p, answers) }
	}
}

// become writes a state.
func (w *world) become(p *proc, id uint64, founds bool) {
	if p.disk.cluster != 0 {
		w.fail("%s is in two clusters", p.addr)
	}
	if founds && !slices.ContainsFunc(w.clusters[id].founders, func(m cluster.Member) bool { return m.ID == p.disk.id }) {
		w.fail("%s with the id %d is no founder of cluster %d", p.addr, p.disk.id, id)
	}
	p.disk.cluster, p.disk.founds = id, founds
	w.count()
}

// join joins a cluster that can commit, in the place of the lost server with the same name, which an
// operator has removed.
func (w *world) join(p *proc, answers map[string]*Answer) {
	for _, a := range answers {
		c := w.clusters[a.Cluster]
		if c == nil || !c.established || w.alive(a.Cluster) <= len(c.members)/2 {
			continue
		}
		for id, at := range c.members {
			if at != p.addr {
				continue
			}
			if slices.ContainsFunc(w.procs, func(o *proc) bool { return o.disk.id == id && !o.disk.lost }) {
				return // it still runs
			}
			delete(c.members, id)
		}
		c.members[p.disk.id] = p.addr
		w.become(p, a.Cluster, false)
		return
	}
}

// alive returns the number of members that have a cluster on their disks.
func (w *world) alive(id uint64) (n int) {
	for _, p := range w.procs {
		if _, is := w.clusters[id].members[p.disk.id]; is && p.disk.cluster == id && !p.disk.lost {
			n++
		}
	}
	return n
}

// count looks for clusters that are established.
func (w *world) count() {
	n := 0
	for id, c := range w.clusters {
		c.established = c.established || w.alive(id) > len(c.members)/2
		if c.established {
			n++
		}
	}
	if n > 1 {
		w.fail("%d clusters were established", n)
	}
}

// wipe replaces a process by one with an empty disk, unless an established cluster would lose its
// majority. If twin is set, the old process still runs.
func (w *world) wipe(i int, twin bool) {
	p := w.procs[i]
	if c := w.clusters[p.disk.cluster]; c != nil && c.established && w.alive(p.disk.cluster)-1 <= len(c.members)/2 {
		return
	}
	w.wiped++
	p.down, p.disk.lost = p.down || !twin, !twin
	n := &proc{addr: p.addr, disk: &simDisk{}}
	w.start(n, false)
	w.procs = append(w.procs, n)
}

// step does one thing at random.
func (w *world) step(faults bool, wrong int) {
	i := w.rng.IntN(len(w.procs))
	p := w.procs[i]
	switch k := w.rng.IntN(100); {
	case k < 50 && len(w.mail) > 0:
		j := w.rng.IntN(len(w.mail))
		l := w.mail[j]
		w.mail[j] = w.mail[len(w.mail)-1]
		w.mail = w.mail[:len(w.mail)-1]
		if !faults || w.rng.IntN(20) > 0 {
			w.deliver(l)
		}
	case p.disk.lost, p.down && k < 90:
	case k < 90 && p.disk.cluster != 0:
	case k < 90 && p.write != nil:
		write := p.write
		p.write = nil
		write()
	case k < 90 && p.answers != nil && (len(p.answers) == len(p.list) || w.rng.IntN(8) == 0):
		w.end(p)
	case k < 90 && p.answers == nil:
		w.ask(p)
	case k < 90 || !faults:
	case k < 93:
		p.down = true
		p.life++
	case k < 97 && p.down:
		w.start(p, w.rng.IntN(100) < wrong)
	case k < 98 && w.wiped < 6:
		w.wipe(i, len(w.addrs) > 1 && w.rng.IntN(3) == 0) // one server has nobody to agree with
	}
}

// settle ends all faults: an operator keeps one process of each address, and starts it with the right
// list. It is one of an established cluster, if there is one.
func (w *world) settle() {
	for _, at := range w.addrs {
		var keep *proc
		for _, p := range w.procs {
			c := w.clusters[p.disk.cluster]
			if p.addr == at && !p.disk.lost && (keep == nil || w.clusters[keep.disk.cluster] == nil || c != nil && c.established) {
				keep = p
			}
		}
		for _, p := range w.procs {
			if p.addr == at && p != keep {
				p.down, p.disk.lost = true, true
			}
		}
		w.start(keep, false)
	}
}

// A fault is a way to decide, and to answer.
type fault struct {
	decide decider
	byName bool
}

// simulate runs a seed, and reports whether the servers end in one cluster. With wipes they may not:
// see the package doc.
func simulate(seed uint64, f fault, wipes bool) (joined bool, err error) {
	w := &world{rng: rand.New(rand.NewPCG(seed, 22)), decide: f.decide, byName: f.byName, clusters: map[uint64]*simCluster{}}
	for i := range []int{1, 3, 3, 5}[seed%4] {
		w.addrs = append(w.addrs, string(rune('a'+i)))
	}
	wrong := w.rng.IntN(60)
	for _, at := range w.addrs {
		p := &proc{addr: at, disk: &simDisk{}, down: true}
		w.procs = append(w.procs, p)
	}
	if !wipes {
		w.wiped = 6
	}
	for range 150 + w.rng.IntN(600) {
		w.step(true, wrong)
	}
	w.settle()
	w.mail = nil
	for range 20 {
		for range 50 * len(w.addrs) {
			w.step(false, 0)
		}
		if w.count(); w.fault != nil {
			return false, fmt.Errorf("seed %d: %w", seed, w.fault)
		}
		for id, c := range w.clusters {
			if c.established && w.alive(id) == len(w.addrs) {
				return true, nil
			}
		}
	}
	return false, nil
}

var errNoCluster = errors.New("the servers end in no cluster, although no disk was lost")

// search simulates seeds, and returns the first fault.
func search(seeds uint64, f fault) (stuck int, err error) {
	for seed := range seeds {
		wipes := seed%3 > 0
		joined, err := simulate(seed, f, wipes)
		switch {
		case err != nil:
			return stuck, err
		case !joined && !wipes:
			return stuck, fmt.Errorf("seed %d: %w", seed, errNoCluster)
		case !joined:
			stuck++
		}
	}
	return stuck, nil
}

// seeds returns the number of seeds: 12,000 take ten seconds.
func seeds() uint64 {
	if testing.Short() {
		return 600
	}
	return 12_000
}

// TestOneClusterIsMade: whatever is lost, late or killed, and with any minority of the disks wiped, the
// servers never make two clusters that can acknowledge anything.
func TestOneClusterIsMade(t *testing.T) {
	stuck, err := search(seeds(), fault{decide: sorted(decide)})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d seeds with lost disks need an operator", stuck, seeds()*2/3)
	if stuck > int(seeds()/100) {
		t.Errorf("%d of %d seeds need an operator", stuck, seeds())
	}
}

// TestFaultyDecisionsAreSeen: the simulation finds each planted fault.
func TestFaultyDecisionsAreSeen(t *testing.T) {
	for name, faulty := range map[string]fault{
		"founds without all answers": {decide: sorted(func(self *Answer, list []string, answers map[string]*Answer) decision {
			return decide(self, slices.DeleteFunc(list, func(at string) bool { return answers[at] == nil }), answers)
		})},
		"knows founding members by their names": {decide: sorted(decide), byName: true},
		"founds by the order of the flag":       {decide: decide},
		"founds with servers that have not agreed": {decide: sorted(func(self *Answer, list []string, answers map[string]*Answer) decision {
			d := decide(self, list, answers)
			if d.do != bind && d.do != discard || answers[list[0]] == nil {
				return d
			}
			own, all := *self, map[string]*Answer{}
			own.Bound = bindingOf(list, answers[list[0]].Node)
			for at, a := range answers {
				all[at] = new(*a)
				all[at].Bound = own.Bound
			}
			return decide(&own, list, all)
		})},
	} {
		_, err := search(seeds(), faulty)
		if err == nil {
			t.Errorf("not found: a server that %s", name)
		}
		t.Logf("a server that %s: %v", name, err)
	}
}
