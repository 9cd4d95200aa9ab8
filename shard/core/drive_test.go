package core

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A driver plays random connections against a core and its twin.
type driver struct {
	core  *Core
	twin  *model
	log   []string // of the core's Directory
	pick  func(n int) int
	conns []*conn
	names []string
	now   Time
	last  JobID
	looks int
	scan  *scanTwin

	readied uint64         // entries of the core's ReadyLog that were compared
	best    map[string]Key // that tubes published then
	moves   []*moveTwin
	// putBack: jobs were put back, so of those that entered a state at one moment any may be
	// the first in its list.
	putBack bool
	polices bool // policies change
	puts    int  // how many more operations are puts: some histories begin with a full queue
	trace   []string
}

// conn is what a session knows of itself.
type conn struct {
	number  uint64
	id      ClientID
	use     TubeID
	watches map[string]TubeID
	waiter  *Waiter
	waits   bool
	mirrors map[string]*Mirror

	// The twin's copy of the waiter's word.
	seq  uint64
	word uint64
	fit  bool // the last visit for the closed wait queued it, or left it queued
}

func (d *driver) TubeAdded(name string)      { d.log = append(d.log, "+"+name) }
func (d *driver) ClassOf(name string) uint16 { return testClass(name) }
func (d *driver) TubeRemoved(name string)    { d.log = append(d.log, "-"+name) }

// newDriver lets pick decide everything: pick(n) is in [0, n).
func newDriver(pick func(n int) int) *driver {
	d := &driver{twin: newModel(), best: map[string]Key{}, pick: pick, now: 1_700_000_000 * Second}
	d.core = New(d)
	d.core.Pin("default")
	d.twin.open("default", 1).pinned = true
	d.twin.collectMost = 1 + pick(6)
	d.core.ensureCollection().most = d.twin.collectMost
	for range 1 + pick(8) {
		d.conns = append(d.conns, &conn{number: uint64(len(d.conns)) + 100, waiter: new(Waiter), watches: map[string]TubeID{}, mirrors: map[string]*Mirror{}})
	}
	d.names = []string{"default"}
	n, wide := pick(6), pick(8) == 0
	if wide {
		n = 24 // watch lists beyond watchScan
	}
	for i := range n {
		d.names = append(d.names, fmt.Sprintf("t%d", i))
	}
	if wide {
		d.widen()
	}
	if pick(16) == 0 {
		d.puts = 150
	}
	d.polices = pick(2) == 0
	return d
}

// widen lets the first connection watch most tubes.
func (d *driver) widen() {
	cn := d.conns[0]
	for _, name := range d.names {
		if d.pick(6) > 0 {
			op := &Op{Kind: OpWatch, Client: cn.id, Conn: cn.number, Waiter: cn.waiter, Name: []byte(name)}
			if err := d.do(cn, op); err != nil {
				panic(err)
			}
		}
	}
}

func (d *driver) oneOf(list ...uint32) uint32 { return list[d.pick(len(list))] }

// tick moves the time: often not at all, often in whole seconds so that many
// things are due at one moment, sometimes back.
func (d *driver) tick() {
	switch d.pick(12) {
	case 0, 1:
		d.now += Time(d.pick(1000)) * Second / 1000
	case 2, 3:
		d.now += Second
	case 4:
		if next := d.core.Next(); next < d.now+1000*Second {
			d.now = max(d.now, next)
		}
	case 5:
		d.now += Time(d.pick(20)) * Second
	case 6:
		d.now -= Time(d.pick(3)) * Second
	case 7:
		d.now += Time(d.pick(3))
	}
}

// step does one random thing to both and compares.
func (d *driver) step() error {
	switch {
	case d.scan == nil && d.pick(20) == 0:
		d.scan = d.beginScan()
	case d.scan != nil && d.pick(2) == 0:
		if err := d.scanOn(d.scan); err != nil {
			return err
		}
		if d.scan.over {
			d.scan = nil
		}
	}
	d.tick()
	if d.polices && d.pick(40) == 0 {
		if err := d.changePolicies(); err != nil {
			return err
		}
	}
	if d.pick(8) == 0 {
		d.trace = append(d.trace, fmt.Sprintf("%d expire", d.now))
		d.core.Expire(d.now)
		d.twin.expire(d.now)
		return d.compare()
	}
	i := d.pick(len(d.conns))
	cn := d.conns[i]
	if cn.waits && cn.fit && cn.word != waitOpen && d.pick(2) == 0 {
		d.trace = append(d.trace, fmt.Sprintf("conn %d: opens", i))
		if opened := cn.waiter.Open(cn.seq); opened != (cn.word == waitClosed) {
			return fmt.Errorf("conn %d: opened: %v, its wait: %d", i, opened, cn.word)
		} else if opened {
			cn.word = waitOpen
		} else {
			cn.waiter.Reset(cn.seq)
			cn.word, cn.fit = waitClosed, false
		}
	}
	if cn.waits && d.pick(3) == 0 {
		// Another shard wins: this one is not told, or only later.
		cn.over()
		d.trace = append(d.trace, fmt.Sprintf("conn %d: served elsewhere", i))
	}
	op := d.op(cn)
	if op == nil {
		return nil
	}
	return d.do(cn, op)
}

// do applies op to both and compares.
func (d *driver) do(cn *conn, op *Op) error {
	var got Reply
	seq := cn.seq
	offer := func() offered {
		switch {
		case cn.seq != seq || cn.word == waitClaimed:
			return offerLost
		case cn.word == waitOpen:
			cn.word = waitClaimed
			return offerWon
		}
		cn.word = waitCalled
		return offerCalled
	}
	d.trace = append(d.trace, fmt.Sprintf("%d conn %d: %s", d.now, slices.Index(d.conns, cn), opString(op)))
	d.core.Apply(d.now, made(op), &got)
	d.trace = append(d.trace, fmt.Sprintf("  status %d client %d tube %d job %d n %d", got.Status, got.Client, got.Tube, got.ID, got.N))
	want := d.twin.apply(d.now, op, offer, &got)
	if err := compareReply(&got, &want); err != nil {
		return err
	}
	if op.Kind == opMany && !slices.Equal(op.Operator.Results, d.twin.results) {
		return fmt.Errorf("results %v, want %v", op.Operator.Results, d.twin.results)
	}
	if op.Kind == opFlush && op.Operator.Flushed != d.twin.flushed {
		return fmt.Errorf("flushed %+v, want %+v", op.Operator.Flushed, d.twin.flushed)
	}
	if (got.Mirror != nil) != (op.Mirror || op.Kind == OpMirror) {
		return fmt.Errorf("mirror %v", got.Mirror)
	}
	if err := d.moved(op); err != nil {
		return err
	}
	d.settle(cn, op, &got)
	if err := d.compareStats(op, &got); err != nil {
		return err
	}
	return d.compare()
}

func opString(op *Op) string {
	return fmt.Sprintf("kind %d client %d tube %d id %d pri %d n %d delay %d ttr %d name %q body %d wait %v until %d seq %d bound %v",
		op.Kind, op.Client, op.Tube, op.ID, op.Pri, op.N, op.Delay, op.TTR, op.Name, len(op.Body), op.Wait, op.Until, op.Seq, op.Bound)
}

func compareReply(got, want *Reply) error {
	g, w := *got, *want
	if (g.Face == nil) != (w.Face == nil) || g.Face != nil && (g.Face.Name() != w.Face.Name() || g.Face.ID() != g.Tube) {
		return fmt.Errorf("face %+v, want %+v", g.Face, w.Face)
	}
	g.Face, w.Face = nil, nil
	g.Mirror, g.Body, w.Body, g.Large, g.Commit = nil, nil, nil, nil, 0
	if fmt.Sprint(g) != fmt.Sprint(w) {
		return fmt.Errorf("reply %+v, want %+v", g, w)
	}
	body := got.Body
	if got.Large != nil {
		body = got.Large.Append(nil)
	}
	if !bytes.Equal(body, want.Body) || (got.Large != nil) != (len(want.Body) > 65536) {
		return fmt.Errorf("body of %d bytes (large: %v), want %d bytes", len(body), got.Large != nil, len(want.Body))
	}
	return nil
}

// op makes an operation that cn may send now; nil when there is none.
func (d *driver) op(cn *conn) *Op {
	op := &Op{Client: cn.id, Conn: cn.number, Waiter: cn.waiter, Tube: cn.use}
	if cn.waits {
		switch d.pick(4) {
		case 0:
			op.Kind = OpCancel
			return op
		case 1:
			op.Kind = OpClose
			return op
		}
		return nil
	}
	kinds := []opKind{
		OpJoin, OpUse, OpUnuse, OpWatch, OpWatch, OpMirror, OpIgnore, OpReturn, OpClose,
		OpPut, OpPut, OpPut, OpPut, OpPut, OpReserve, OpReserve, OpReserve, OpReserve, OpReserve, OpCancel, OpReserveJob,
		OpDelete, OpDelete, OpRelease, OpRelease, OpBury, OpBury, OpTouch, OpKick, OpKickJob,
		OpPeek, OpPeekReady, OpPeekDelayed, OpPeekBuried, OpPause, OpStatsJob, OpStatsTube, OpStats,
		opMany, opFlushStep, opEdit, opPutCopies, opPutCopies, opFlush, opAskFlushed,
	}
	op.Kind = kinds[d.pick(len(kinds))]
	if d.puts > 0 {
		d.puts--
		op.Kind = OpPut
	}
	if op.Kind == opPutCopies {
		if d.polices {
			return nil // the jobs that were put back have no exact order of arrival
		}
		return d.move(op)
	}
	name := d.names[d.pick(len(d.names))]
	op.Name = []byte(name)
	op.ID = d.someJob(cn)
	op.Pri = d.oneOf(0, 1, 5, 1023, 1024, 1<<32-1)
	op.Delay = d.oneOf(0, 0, 0, 1, 2, 5, 1<<32-1)
	op.N = d.oneOf(0, 1, 2, 3, 100)
	switch op.Kind {
	case OpJoin:
		if cn.id != 0 || cn.use != 0 {
			return nil
		}
	case OpWatch:
		if cn.watches[name] != 0 {
			return nil
		}
		op.Mirror = d.pick(2) == 0
	case OpMirror, OpIgnore:
		op.Tube = cn.watches[name]
		if op.Tube == 0 {
			return nil
		}
	case OpPut:
		if cn.use == 0 {
			op.Kind = OpUse
			return op
		}
		d.last++
		op.ID = d.last
		op.TTR = d.oneOf(1, 1, 2, 3, 10, 1<<32-1)
		n := d.oneOf(0, 1, 2, 16, 17, 100, 1000)
		if d.pick(40) == 0 {
			n = d.oneOf(65536, 65537, 70000)
		}
		op.Body = bytes.Repeat([]byte{byte(op.ID), byte(op.ID >> 8)}, int(n+1)/2)[:n]
		if len(op.Body) > 65536 {
			cut := 1 + d.pick(len(op.Body)-1)
			op.Large = Large{op.Body[:cut:cut], op.Body[cut:]}
			op.Body = nil
		}
	case OpReserve:
		if cn.id == 0 {
			return nil
		}
		op.Bound = MaxKey
		if d.pick(6) == 0 {
			op.Bound = Key{op.Pri, op.ID}
		}
		if op.Wait = d.pick(4) > 0; op.Wait {
			op.Until = d.now + Time(d.pick(8))*Second
			if d.pick(2) == 0 {
				op.Until = Never
			}
		}
		switch {
		case cn.waits && cn.word != waitOpen && d.pick(2) == 0:
			op.Multi = true // the same wait once more
		case op.Wait && d.pick(2) == 0:
			op.Multi = true
			cn.seq, cn.word = cn.waiter.ArmClosed(), waitClosed
		case op.Wait:
			cn.seq, cn.word = cn.waiter.Arm(), waitOpen
		}
		op.Seq = cn.seq
	case OpKick, OpPeekReady, OpPeekDelayed, OpPeekBuried:
		if cn.use == 0 {
			return nil
		}
	case OpDelete:
		op.HeldOnly = d.pick(4) == 0
	case OpStatsJob:
		op.JobStats = new(JobStats)
	case OpStatsTube:
		op.TubeStats = new(TubeStats)
	case OpStats:
		op.Counts = new(Counts)
	case opMany, opFlushStep, opEdit, opFlush, opAskFlushed:
		d.operate(cn, op)
	}
	return op
}

// someJob is often a job that cn has, sometimes any one, sometimes none.
func (d *driver) someJob(cn *conn) JobID {
	var ids []JobID
	mine := d.pick(3) > 0
	for id, j := range d.twin.jobs {
		if !mine || j.client != nil && j.client == d.twin.clients[cn.id] {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 || d.pick(20) == 0 {
		return JobID(d.pick(int(d.last) + 2))
	}
	if len(d.twin.lists) > 0 && d.pick(3) == 0 {
		list := d.twin.lists[d.pick(len(d.twin.lists))].jobs
		return list[d.pick(len(list))].id // it is over
	}
	slices.Sort(ids)
	return ids[d.pick(len(ids))]
}

// settle notes in the connection what the reply said.
func (d *driver) settle(cn *conn, op *Op, r *Reply) {
	cn.id = r.Client
	switch op.Kind {
	case OpJoin, OpWatch:
		cn.watches[r.Face.Name()] = r.Tube
		if op.Kind == OpJoin {
			cn.use = r.Tube
		}
		if r.Mirror != nil {
			cn.mirrors[r.Face.Name()] = r.Mirror
		}
	case OpMirror:
		cn.mirrors[string(op.Name)] = r.Mirror
	case OpUse:
		cn.use = r.Tube
	case OpUnuse:
		cn.use = 0
	case OpIgnore:
		delete(cn.watches, string(op.Name))
		delete(cn.mirrors, string(op.Name))
	case OpReserve:
		cn.fit = r.Status == StatusWaiting
		switch r.Status {
		case StatusWaiting:
			cn.waits = true
		case StatusReserved, StatusDeadlineSoon:
			cn.waits = false
			if op.Multi {
				cn.word = waitClaimed
				if got, want := cn.waiter.word.Load(), waitWord(op.Seq, waitClaimed); op.Seq != 0 && got != want {
					panic(fmt.Sprintf("the word of the wait is %d after it has ended, want %d", got, want))
				}
			}
		default:
			cn.waits = cn.waits && op.Multi
		}
	case OpCancel:
		cn.over() // the session gives up
	case OpClose:
		*cn = conn{waiter: new(Waiter), watches: map[string]TubeID{}, mirrors: map[string]*Mirror{}}
	}
}

// over ends the wait of cn.
func (cn *conn) over() {
	cn.waits = false
	if cn.word == waitOpen {
		cn.waiter.Claim(cn.seq)
	} else {
		cn.waiter.Take(cn.seq)
	}
	cn.word = waitClaimed
}

func (d *driver) compareStats(op *Op, r *Reply) error {
	if r.Status == StatusNotFound {
		return nil
	}
	var got, want any
	switch op.Kind {
	case OpStatsJob:
		op.JobStats.Commit = 0 // the journal's, not the job's
		got, want = *op.JobStats, d.twin.jobStats(d.twin.jobs[op.ID])
	case OpStatsTube:
		got, want = *op.TubeStats, d.twin.tubeStats(d.twin.tubeNamed(string(op.Name)))
	case OpStats:
		counts := *op.Counts
		counts.MappedBytes = 0
		got, want = counts, d.twin.counts()
	}
	if got != want {
		return fmt.Errorf("stats %+v, want %+v", got, want)
	}
	return nil
}

// compare looks at everything that can be seen from outside, and at Check.
func (d *driver) compare() error {
	for _, w := range d.core.TakeWoken(nil) {
		if len(d.twin.woken) == 0 {
			return fmt.Errorf("woken: %+v, and nobody should be", w.Msg.Reply)
		}
		want := d.twin.woken[0]
		d.twin.woken = d.twin.woken[1:]
		r := &w.Msg.Reply
		if w != want.waiter || r.Status != want.status || r.ID != want.id || string(r.Body)+string(r.Large.Append(nil)) != want.body || r.Client != want.client || r.Held != want.held {
			return fmt.Errorf("woken: %+v, want %+v", r, want)
		}
		for _, cn := range d.conns { // none when it has closed just now
			if cn.waiter == w {
				cn.waits = false
			}
		}
		w.Msg.Done()
	}
	if len(d.twin.woken) > 0 {
		return fmt.Errorf("not woken: %+v", d.twin.woken)
	}
	if !slices.Equal(d.log, d.twin.log) {
		return fmt.Errorf("directory heard %v, want %v", d.log, d.twin.log)
	}
	for _, cn := range d.conns {
		for name, m := range cn.mirrors {
			want := Key{}
			if j := d.twin.best(d.twin.tubeNamed(name)); j != nil {
				want = Key{j.pri, j.id}
			}
			if got, ok := m.Load(); got != want || ok != (want.ID != 0) {
				return fmt.Errorf("tube %q publishes %v, want %v", name, got, want)
			}
		}
	}
	if err := d.compareReadied(); err != nil {
		return err
	}
	if d.looks++; d.looks%(1+len(d.twin.jobs)/16) > 0 {
		return d.core.Check() // the twin is slow with many jobs
	}
	for _, t := range d.twin.tubes {
		if got, want := d.core.tubeStats(d.core.names[t.name]), d.twin.tubeStats(t); got != want {
			return fmt.Errorf("tube stats %+v, want %+v", got, want)
		}
	}
	if err := d.compareFlows(); err != nil {
		return err
	}
	if err := d.comparePolicies(); err != nil {
		return err
	}
	if d.pick(8) == 0 {
		if err := d.compareBrowsed(); err != nil {
			return err
		}
	}
	if at, _, _ := d.twin.next(); d.core.Next() > at {
		return fmt.Errorf("Next is %d, something happens at %d", d.core.Next(), at)
	}
	for id, j := range d.twin.jobs {
		_, cj, ct := d.core.find(id)
		if cj == nil {
			return fmt.Errorf("job %d is lost", id)
		}
		got, want := d.core.jobStats(cj, ct), d.twin.jobStats(j)
		got.Commit = 0 // the journal's, not the job's
		if got != want {
			return fmt.Errorf("job stats %+v, want %+v", got, want)
		}
		if by := cj.buriedBy(); cj.State == Buried && by != j.by {
			return fmt.Errorf("job %d is buried by %d, want %d", id, by, j.by)
		}
	}
	return d.core.Check()
}

// compareReadied compares the ReadyLog with the published keys: for a key that is new or smaller
// there is an entry of that key or a smaller one. A tube without a Mirror has none.
func (d *driver) compareReadied() error {
	l := d.core.Readied()
	logged := map[string][]Key{}
	for ; d.readied < l.Head(); d.readied++ {
		f, k, ok := l.At(d.readied)
		if !ok {
			return fmt.Errorf("entry %d of %d is not kept", d.readied, l.Head())
		}
		logged[f.Name()] = append(logged[f.Name()], k)
	}
	for _, t := range d.core.tubes {
		if t == nil {
			continue
		}
		was, known := d.best[t.name]
		delete(d.best, t.name)
		if !t.mirrored {
			if len(logged[t.name]) > 0 {
				return fmt.Errorf("tube %q is logged, and has no mirror", t.name)
			}
			continue
		}
		is := t.mirror.stored()
		if better := is.ID != 0 && (was.ID == 0 || is.Less(was)); known && better && !slices.ContainsFunc(logged[t.name], func(k Key) bool { return !is.Less(k) }) {
			return fmt.Errorf("tube %q got the key %v, was %v, and the log has %v", t.name, is, was, logged[t.name])
		}
	}
	clear(d.best)
	for _, t := range d.core.tubes {
		if t != nil && t.mirrored {
			d.best[t.name] = t.mirror.stored()
		}
	}
	return nil
}

// compareFlows compares what has passed through each tube, and through all.
func (d *driver) compareFlows() error {
	for _, t := range append([]*modelTube{nil}, d.twin.tubes...) {
		x := new(OperatorOp)
		op, name := new(Op), "all"
		op.AskFlow(nil, x)
		if t != nil {
			name = t.name
			op.AskFlow([]byte(name), x)
		}
		d.core.applyFlow(op, new(Reply))
		got := x.Flow
		got.Wait.Sum, got.Run.Sum = 0, 0 // to a microsecond only
		if want := d.twin.flowOf(t); got != want {
			return fmt.Errorf("tube %q: flow %+v, want %+v", name, got, want)
		}
	}
	return nil
}

// drain closes all connections and deletes all jobs: nothing may be left.
func (d *driver) drain() error {
	d.endMoves()
	op := new(Op)
	op.SetPolicies(nil, false)
	d.core.Apply(d.now, op, new(Reply))
	for from := d.core.Classify(0); from > 0; {
		from = d.core.Classify(from)
	}
	for _, cn := range d.conns {
		var r Reply
		d.core.Apply(d.now, &Op{Kind: OpClose, Client: cn.id, Tube: cn.use}, &r)
	}
	for id := range d.last {
		var r Reply
		d.core.Apply(d.now, &Op{Kind: OpDelete, ID: id + 1}, &r)
	}
	collectAll(d.core, &d.now)
	n := d.core.Counts()
	if n.Tubes != 1 || n.Clients != 0 || n.Ready+n.Delayed+n.Reserved+n.Buried != 0 || d.core.jobs.Len() != 0 {
		return fmt.Errorf("after closing and deleting everything: %+v", n)
	}
	return d.core.Check()
}

// recent is the end of the history, for a failing test.
func (d *driver) recent() string { return strings.Join(d.trace[max(0, len(d.trace)-60):], "\n") }

var modelSeed = flag.Uint64("model.seed", 0, "play only this history of TestCoreEqualsModel")

func TestCoreEqualsModel(t *testing.T) {
	first, last, steps := uint64(1), uint64(160), 1000
	if testing.Short() {
		last = 8
	}
	if *modelSeed != 0 {
		first, last = *modelSeed, *modelSeed
	}
	for seed := first; seed <= last; seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := newDriver(rng.IntN)
		err := d.compare()
		for n := 0; n < steps && err == nil; n++ {
			err = d.step()
		}
		if err == nil {
			err = d.drain()
		}
		if err != nil {
			t.Fatalf("%v\nhistory:\n%s\nrerun: go test ./shard -run TestCoreEqualsModel -model.seed=%d", err, d.recent(), seed)
		}
		d.core.Close()
	}
}

// FuzzCore reads the decisions of the driver from bytes.
func FuzzCore(f *testing.F) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 2))
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		pick := func(n int) int {
			v := 0
			for used := 1; used < n && len(b) > 0; used <<= 8 {
				v = v<<8 | int(b[0])
				b = b[1:]
			}
			return v % n
		}
		d := newDriver(pick)
		defer d.core.Close()
		for n := 0; n < 2000 && len(b) > 0; n++ {
			if err := d.step(); err != nil {
				t.Fatalf("%v\nhistory:\n%s", err, d.recent())
			}
		}
		if err := d.drain(); err != nil {
			t.Fatalf("%v\nhistory:\n%s", err, d.recent())
		}
	})
}
