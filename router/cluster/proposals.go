package cluster

import (
	"fmt"
	"sync"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/stats"
	"polystalk/shard/wal"
)

// Limits of uncommitted proposals. At a limit the journal waits, so that its next entry is larger. A
// limit of one would double the latency on a slow disk. With a limit of 64 small entries, the
// throughput of 800 clients was a sixth lower, and of 50 clients or one no higher. Full entries gain
// nothing from waiting: only their bytes are limited.
const (
	proposedMax  = 2 // entries smaller than fullSize
	fullSize     = wal.EntryMax / 2
	proposedSize = 8 << 20
)

// Proposals queues the entries that a leading journal appends. It implements commit.Proposer: one
// goroutine calls Propose and End, and only while the node leads. The node takes entries and reports
// commits. The journal has its Proposals before there is a node.
type Proposals struct {
	// acknowledge tells the journal that all commits up to n are committed.
	acknowledge func(n uint64) error
	// wake tells the node that there are entries to take.
	wake func()
	// leased reports whether no other node can lead.
	leased func() bool
	// byHand: Propose never waits; the simulator checks Room before.
	byHand bool

	// telling is held during acknowledge, so that calls keep the order of commits. It is not mu,
	// because acknowledge may send replies, and Propose must not wait for that.
	telling sync.Mutex
	told    uint64 // the last commit acknowledged

	mu     sync.Mutex
	room   sync.Cond
	failed error
	queue  [][]byte   // not proposed yet, oldest first
	taken  []proposal // proposed and not committed, oldest first
	bytes  int        // in queue and taken
	small  int        // entries in queue and taken that are smaller than fullSize
	number uint64     // entries proposed so far
	done   uint64     // entries that are committed
	ends   []ending   // not acknowledged, oldest first

	begun []time.Time     // when the entries in queue and taken were proposed, oldest first
	times stats.Histogram // from Propose to commit
}

// A proposal is an entry that the Machine has accepted.
type proposal struct {
	index uint64
	size  int
}

// An ending is the position at which a commit ends.
type ending struct {
	commit uint64
	behind uint64 // entries up to the end of the commit
}

var _ commit.Proposer = (*Proposals)(nil)

// NewProposals returns Proposals for one node.
func NewProposals() *Proposals {
	p := &Proposals{}
	p.room.L = &p.mu
	return p
}

// attach connects a node.
func (p *Proposals) attach(acknowledge func(uint64) error, wake func(), leased func() bool) {
	p.acknowledge, p.wake, p.leased = acknowledge, wake, leased
}

// Propose implements commit.Proposer. It waits while a limit is reached.
func (p *Proposals) Propose(data []byte, n uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.byHand && p.failed == nil && !p.hasRoom() {
		p.room.Wait()
	}
	if p.failed != nil {
		return p.failed
	}
	if k := len(p.ends); k > 0 && p.ends[k-1].commit >= n {
		panic(fmt.Sprintf("commit %d goes on after commit %d has ended", n, p.ends[k-1].commit))
	}
	p.queue = append(p.queue, data)
	p.bytes += len(data)
	if len(data) < fullSize {
		p.small++
	}
	p.number++
	p.begun = append(p.begun, time.Now())
	p.wake()
	return nil
}

// hasRoom reports whether another entry may be added. mu is held.
func (p *Proposals) hasRoom() bool {
	return p.small < proposedMax && p.bytes < proposedSize
}

// Room reports whether Propose would not wait.
func (p *Proposals) Room() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hasRoom()
}

// End implements commit.Proposer.
func (p *Proposals) End(n uint64) error {
	p.mu.Lock()
	if err := p.failed; err != nil {
		p.mu.Unlock()
		return err
	}
	p.ends = append(p.ends, ending{n, p.number})
	last := p.ended()
	p.mu.Unlock()
	return p.tell(last)
}

// Wanted implements commit.Proposer: without a lease, only a committed entry proves that the node
// leads.
func (p *Proposals) Wanted() bool { return !p.leased() }

// take returns all entries that are not proposed yet.
func (p *Proposals) take() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queue
	p.queue = nil
	return q
}

// giveBack returns entries that cannot be proposed now.
func (p *Proposals) giveBack(list [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(list, p.queue...)
}

// accepted records the indexes of entries that were proposed.
func (p *Proposals) accepted(list [][]byte, first uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, d := range list {
		p.taken = append(p.taken, proposal{first + uint64(i), len(d)})
	}
}

// committed records that all entries up to an index are committed, and acknowledges commits.
func (p *Proposals) committed(index uint64) error {
	p.mu.Lock()
	for len(p.taken) > 0 && p.taken[0].index <= index {
		p.bytes -= p.taken[0].size
		if p.taken[0].size < fullSize {
			p.small--
		}
		p.taken = p.taken[1:]
		p.times.Took(time.Since(p.begun[0]))
		p.begun = append(p.begun[:0], p.begun[1:]...)
		p.done++
	}
	p.room.Signal()
	last := p.ended()
	p.mu.Unlock()
	return p.tell(last)
}

// ended returns the last commit without uncommitted entries; zero: none since the last call. mu is
// held.
func (p *Proposals) ended() (last uint64) {
	for len(p.ends) > 0 && p.ends[0].behind <= p.done {
		last = p.ends[0].commit
		p.ends = p.ends[1:]
	}
	return last
}

// tell acknowledges a commit, unless a later one was acknowledged, or the node has ended.
func (p *Proposals) tell(n uint64) error {
	if n == 0 {
		return nil
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	if n <= p.told || p.err() != nil {
		return nil
	}
	p.told = n
	return p.acknowledge(n)
}

// err returns the error of Fail, or nil.
func (p *Proposals) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// Fail makes Propose return an error, now and later, and ends acknowledgements.
func (p *Proposals) Fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
	}
	p.room.Broadcast()
}

// Times returns the histogram of commit latencies of this node's entries, from Propose to commit.
func (p *Proposals) Times() stats.Counts { return p.times.Read() }

// Outstanding returns the number of entries that are not committed, and their bytes.
func (p *Proposals) Outstanding() (n, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue) + len(p.taken), p.bytes
}
