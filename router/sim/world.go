package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"polystalk/router"
	"polystalk/router/routertest"
	"polystalk/router/session"
	"polystalk/shard"
	"polystalk/shard/core"
)

// epoch is the time at which every world begins.
const epoch = 1_700_000_000 * core.Second

// A world is a server and its clients. One goroutine uses it.
type world struct {
	D *routertest.Driven

	rng    *rand.Rand
	clock  *rand.Rand // sets the system's clock, unless steady is set
	now    core.Time
	ahead  core.Time // the time of day minus now
	steady bool
	loops  []*loop
	socks  []*sock // connections that are open on at least one side

	// foreign is another, slow owner. It owns the shards in owned.
	foreign shard.Batch
	owned   []*shard.Shard
	next    int // loop of the next socket

	cfg     router.Config
	journal routertest.ByHand // nil: there is none
	down    error             // why the machine has stopped
	// lead, if not nil, returns the server that leads the cluster.
	lead func() (*routertest.Driven, routertest.ByHand, error)

	operator *operator          // nil: there is none
	doomed   map[*sock]struct{} // connections that an operator is about to close
	watch    func()             // if not nil, called before each event

	harsh bool // connections are evicted, and cannot always be paused
	drops int  // how many connections the server has dropped

	// Pauses counts how often the server has paused a connection.
	Pauses int
}

// A loop is one event loop and the pending calls of its GoOn.
type loop struct {
	*routertest.Loop
	asked bool        // it has requested a call
	later []core.Time // times at which it also wants calls
	slow  int         // only one of slow opportunities calls GoOn; zero: each does
}

func (l *loop) wants(now core.Time) bool { return l.asked || l.next() <= now }

// next returns the first time in later, or core.Never.
func (l *loop) next() core.Time {
	at := core.Never
	for _, t := range l.later {
		at = min(at, t)
	}
	return at
}

func (l *loop) drain(now core.Time) {
	l.asked = false
	l.later = slices.DeleteFunc(l.later, func(t core.Time) bool { return t <= now })
	l.GoOn()
}

// nobody is the Home of the foreign owner, which sends no messages.
type nobody struct{}

func (nobody) Post(m *core.Message) { panic("sim: a message came to nobody") }

// New makes a world with that many loops, and boots its server.
func New(seed uint64, loops int, cfg router.Config) (*world, error) {
	w := newWorld(seed, loops, cfg)
	if err := w.boot(); err != nil {
		return nil, err
	}
	return w, nil
}

// newWorld is New without a server.
func newWorld(seed uint64, loops int, cfg router.Config) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), clock: rand.New(rand.NewPCG(seed, 2)), now: epoch, doomed: make(map[*sock]struct{})}
	w.foreign.Home = nobody{}
	w.cfg, w.loops = cfg, make([]*loop, loops)
	return w
}

// Close releases the memory of the shards.
func (w *world) Close() {
	if w.operator != nil {
		w.operator.end()
	}
	w.D.Close()
}

// Now returns the world's time.
func (w *world) Now() core.Time { return w.now }

// A sock is both ends of one connection. It implements session.Conn.
type sock struct {
	w *world
	s *routertest.Session

	sent      []byte // sent by the client, and not yet received by the server
	seen      uint64 // bytes received by the server
	said      uint64 // bytes sent by the server
	shut      bool   // the client sends no more
	told      bool   // the server knows that the client sends no more
	broken    bool   // the client is gone, or an operator has closed it
	Got       []byte // received by the client
	Ended     bool   // the server has closed
	congested bool   // the client does not read
	Glutted   bool   // when congested, more is unsent than the server keeps
	paused    bool   // the server receives nothing
	inInput   bool
}

// Open connects to the next loop, round robin.
func (w *world) Open() *sock { return w.open((*routertest.Loop).Open) }

// openGearman is Open for a Gearman connection.
func (w *world) openGearman() *sock { return w.open((*routertest.Loop).OpenGearman) }

func (w *world) open(f func(*routertest.Loop, session.Conn) *routertest.Session) *sock {
	k := &sock{w: w}
	w.next = (w.next + 1) % len(w.loops)
	k.s = f(w.loops[w.next].Loop, k)
	w.socks = append(w.socks, k)
	return k
}

// Write implements session.Conn.
func (k *sock) Write(p []byte) {
	if k.Ended && !k.broken {
		panic("sim: the server writes after closing")
	}
	k.Got = append(k.Got, p...)
	k.said += uint64(len(p))
}

// WriteStable implements session.Conn.
func (k *sock) WriteStable(pieces [][]byte) {
	for _, p := range pieces {
		k.Write(p)
	}
}

// Unsent implements session.Conn.
func (k *sock) Unsent() int {
	switch {
	case k.congested && k.Glutted:
		return 1 << 30
	case k.congested:
		return 2 << 20
	}
	return 0
}

// Close implements session.Conn.
func (k *sock) Close() {
	if k.Ended {
		panic("sim: the server closes twice")
	}
	k.Ended = true
}

// Pause implements session.Conn.
func (k *sock) Pause() bool {
	if k.paused || !k.inInput {
		panic("sim: the server pauses what is paused, or out of turn")
	}
	if k.w.harsh && k.w.rng.IntN(5) == 0 {
		return false
	}
	k.paused = true
	k.w.Pauses++
	return true
}

// Resume implements session.Conn.
func (k *sock) Resume() bool {
	if !k.paused {
		panic("sim: the server resumes what is not paused")
	}
	k.paused = false
	return true
}

// Drop implements session.Conn. A client that an operator closed, or the server in a harsh world,
// may have lost what was in flight, like a client with a broken connection.
func (k *sock) Drop() {
	if _, doomed := k.w.doomed[k]; doomed || k.w.harsh {
		k.broken, k.sent = true, nil
		k.w.drops++
	}
	if k.congested {
		k.congested = false
		k.s.UnsentDropped()
	}
	if !k.Ended {
		k.Close()
	}
}

// doom notes that an operator is about to close the connection, and returns its number.
func (k *sock) doom() (number uint64) {
	k.w.doomed[k] = struct{}{}
	return k.s.Number()
}

// Send sends b to the server, which receives it later and in pieces.
func (k *sock) Send(b []byte) {
	if !k.shut && !k.broken {
		k.sent = append(k.sent, b...)
	}
}

// halfClose closes the client's sending side.
func (k *sock) halfClose() { k.shut = true }

// Abort breaks the connection at once; undelivered bytes are lost.
func (k *sock) Abort() {
	if k.broken {
		return
	}
	k.broken = true
	k.sent = nil
	if !k.Ended {
		k.s.Abort()
	}
}

// waiting reports whether a reserve of the client waits in the server.
func (k *sock) waiting() bool { return k.s.Waiting() }

// over reports whether both sides are done with the connection.
func (k *sock) over() bool { return k.s.Gone() && (k.Ended || k.broken) && !k.congested }

// arrive passes the next n bytes to the server, or the half-close behind the last one.
func (k *sock) arrive(n int) {
	switch {
	case k.Ended || k.broken:
		k.sent = nil
	case k.paused:
		k.s.HangUp()
	case len(k.sent) > 0:
		// A copy, overwritten afterwards: the server must not keep it.
		b := append([]byte(nil), k.sent[:n]...)
		k.sent = k.sent[n:]
		k.seen += uint64(n)
		k.inInput = true
		k.s.Input(b)
		k.inInput = false
		for i := range b {
			b[i] = '#'
		}
	case k.shut && !k.told:
		k.told = true
		k.s.HalfClose()
	}
}

// coming reports whether bytes or a half-close are on their way to the server.
func (k *sock) coming() bool {
	if k.Ended || k.broken || k.paused && !k.shut {
		return false
	}
	return len(k.sent) > 0 || k.shut && !k.told
}

func (k *sock) congest(on bool) {
	if k.congested && !on {
		k.congested = false
		k.s.AllSent()
		return
	}
	k.congested = k.congested || on && !k.Ended
}

// late lets one random event happen, if it is due. No time passes.
func (w *world) late() {
	if w.down != nil {
		return
	}
	w.look()
	if w.journal != nil && w.rng.IntN(4) == 0 {
		w.keep()
		return
	}
	if o := w.operator; o != nil && o.busy() > 0 && w.rng.IntN(3) == 0 {
		o.goOn(w.rng.IntN(o.busy()))
		return
	}
	if w.harsh && w.rng.IntN(16) == 0 {
		w.D.Server.Host().EvictLate()
		w.D.Server.Host().Evict()
	}
	switch w.rng.IntN(8) {
	case 0, 1:
		if l := w.loops[w.rng.IntN(len(w.loops))]; l.wants(w.now) && (l.slow == 0 || w.rng.IntN(l.slow) == 0) {
			l.drain(w.now)
		}
	case 2, 3:
		if k := w.anySock(); k != nil && k.coming() {
			n := len(k.sent)
			if n > 1 && w.rng.IntN(2) == 0 {
				n = 1 + w.rng.IntN(n)
			}
			k.arrive(n)
		}
	case 4:
		w.own(w.D.Shards()[w.rng.IntN(len(w.D.Shards()))])
	case 5:
		if len(w.owned) > 0 {
			w.release(w.rng.IntN(len(w.owned)))
		}
	case 6:
		sh := w.D.Shards()[w.rng.IntN(len(w.D.Shards()))]
		if sh.Due() <= w.now {
			w.tick(sh)
		}
	case 7:
		if k := w.anySock(); k != nil {
			k.congest(w.rng.IntN(4) == 0)
		}
	}
}

// jobs returns all jobs by id. Their bodies are valid until the next event.
func (w *world) jobs() map[uint64]core.JobView {
	all := make(map[uint64]core.JobView)
	for _, sh := range w.D.Shards() {
		for j := range sh.Jobs() {
			all[uint64(j.ID)] = j
		}
	}
	return all
}

// look calls watch before an event.
func (w *world) look() {
	if w.watch != nil {
		w.watch()
	}
}

func (w *world) anySock() *sock {
	w.forget()
	if len(w.socks) == 0 {
		return nil
	}
	return w.socks[w.rng.IntN(len(w.socks))]
}

func (w *world) forget() {
	kept := w.socks[:0]
	for _, k := range w.socks {
		if !k.over() {
			kept = append(kept, k)
		}
	}
	clear(w.socks[len(kept):])
	w.socks = kept
}

func (w *world) own(sh *shard.Shard) {
	if sh.Own(&w.foreign) {
		w.owned = append(w.owned, sh)
	}
}

// occupy makes foreign own about half of the shards.
func (w *world) occupy() {
	for _, sh := range w.D.Shards() {
		if w.rng.IntN(2) == 0 {
			w.own(sh)
		}
	}
}

func (w *world) release(i int) {
	sh := w.owned[i]
	w.owned = append(w.owned[:i], w.owned[i+1:]...)
	w.D.Stamp(&w.foreign)
	sh.Release(&w.foreign)
}

func (w *world) tick(sh *shard.Shard) bool {
	w.D.Stamp(&w.foreign)
	return sh.Tick(&w.foreign)
}

// restMax bounds the events until a world is at rest: far more than any command
// needs, but few enough to detect an endless loop.
const restMax = 200_000

// rest lets all due events happen, in a random order, until none is left. No
// time passes.
func (w *world) rest() error {
	tended := w.journal == nil
	for range restMax {
		w.look()
		if err := w.fault(); err != nil {
			return err
		}
		todo := w.toKeep()
		if o := w.operator; o != nil {
			for i := range o.busy() {
				todo = append(todo, func() { o.goOn(i) })
			}
		}
		if len(w.owned) > 0 {
			todo = append(todo, func() { w.release(w.rng.IntN(len(w.owned))) })
		}
		for _, l := range w.loops {
			if l.wants(w.now) {
				todo = append(todo, func() { l.drain(w.now) })
			}
		}
		for _, sh := range w.D.Shards() {
			if sh.Due() <= w.now {
				todo = append(todo, func() { w.tick(sh) })
			}
		}
		w.forget()
		for _, k := range w.socks {
			if k.congested {
				todo = append(todo, func() { k.congest(false) })
			}
			if k.coming() {
				todo = append(todo, func() { k.arrive(len(k.sent)) })
			}
		}
		switch {
		case len(todo) > 0:
			todo[w.rng.IntN(len(todo))]()
			tended = w.journal == nil
		case tended:
			return nil
		default:
			w.tendUnasked()
			tended = true
		}
	}
	return errors.New("the world is never at rest")
}

// Check compares the states of the server's parts with each other. The world
// must be at rest.
func (w *world) Check() error {
	if err := w.D.Check(); err != nil {
		return err
	}
	for _, k := range w.socks {
		if k.paused && !k.Ended && !k.broken && !k.waiting() {
			return fmt.Errorf("a connection is paused though its client does not wait")
		}
		if in, out := k.s.Bytes(); in != k.seen || out != k.said {
			return fmt.Errorf("a connection has brought %d bytes and was said %d; noted are %d and %d", k.seen, k.said, in, out)
		}
		if k.shut && !k.Ended && !k.broken {
			return fmt.Errorf("a client sends no more, and the server does not close")
		}
	}
	return nil
}
