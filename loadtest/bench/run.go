package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A workload is one process's part of a load. setup may be slow and is not measured. run is called
// once in each phase. It returns when every command is answered, with the server in the state after
// setup, so that it can be called again.
type workload interface {
	setup(ctx context.Context) error
	run(ph *phase) error
}

// A turn is the smallest piece of a connection's behaviour that leaves nothing unanswered. It
// returns errDone if there is nothing left to do.
type turn func(l *lane) error

var errDone = errors.New("nothing left to do")

// traits are properties of a workload that must be known before it runs.
type traits uint16

const (
	once        traits = 1 << iota // run changes the server permanently: no warm-up, and only its jobs end it
	onceCounted                    // like once, if there is a count
	alone                          // one process only
	pairs                          // needs a producer and a consumer
	workers                        // has worker connections in addition to -conns
	unpaced                        // has no open loop
	single                         // has one command in flight
	stamped                        // needs bodies with a stamp
	constant                       // makes sense against a server that answers constants
)

// A spec describes a workload. help describes a turn.
type spec struct {
	help     string
	defaults Load
	traits   traits
	build    func(*env) workload
}

func (s spec) is(t traits) bool { return s.traits&t == t }

// A Protocol is the protocol of a server, and how to drive the server.
type Protocol struct {
	name    string
	addr    string         // default address of a server
	args    string         // default arguments of a command line without {port}
	unit    string         // what an operation is, for reports
	first   string         // default workload
	ask     string         // the command that asks for the version
	version *regexp.Regexp // matches the version in the answer
	// clean removes the jobs and functions of a run from a server that keeps running.
	clean     func(ctx context.Context, e *env) error
	workloads map[string]spec
	bench     []string // loads that judge polystalkd
	goals     []string // assertions about them
}

// versionOf asks the server at addr for its version.
func (p *Protocol) versionOf(ctx context.Context, addr string) (string, error) {
	k, err := dialLink(ctx, addr, 0)
	if err != nil {
		return "", err
	}
	defer k.shut()
	k.nc.SetDeadline(time.Now().Add(grace))
	k.out = append(k.out, p.ask...)
	for err = k.flush(); err == nil; err = k.receive(len(k.unread()) + 1) {
		if m := p.version.FindSubmatch(k.unread()); m != nil {
			return string(m[1]), nil
		}
	}
	return "", fmt.Errorf("%.100q has no version: %w", k.unread(), err)
}

var protocols = map[string]*Protocol{beanstalkd.name: beanstalkd, gearmand.name: gearmand}

// endless reports whether l ends with its jobs. Then it has neither a time limit nor a warm-up,
// which would change the measurement.
func (p *Protocol) endless(l Load) bool {
	s := p.workloads[l.Workload]
	return s.is(once) || s.is(onceCounted) && l.Count > 0
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// A Plan is the task of one load process.
type Plan struct {
	Load      Load
	Addr      string // host:port
	Process   int    // 0 … Load.Processes-1
	Run       string // part of tube names, so that runs share no tube
	ServerPID int    // 0: not known
	Constant  bool   // the server answers constants: check kind and length only
	Throwaway bool   // the server ends with the run: do not remove its jobs
	// Latencies receives the latencies instead of the report. Only callers of Drive set it.
	Latencies *Recorder `json:"-"`
}

// share returns this process's part of n. The first processes get the remainder.
func (p *Plan) share(n int) int { return (n + p.Load.Processes - 1 - p.Process) / p.Load.Processes }

// An env is the state of a workload in its process. Any goroutine may use it.
type env struct {
	Plan
	memory Memory // set by a workload about memory
	growth growth // set by a workload with a queue that grows

	mu    sync.Mutex
	links map[*link]bool
	names map[string]bool // tubes or functions of this run
	err   error           // the first failure; links are closed once it is set
	ended chan struct{}   // closed once err is set
}

// fail records the first failure and closes all connections, so goroutines that wait for a reply
// return.
func (e *env) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil || err == nil {
		return
	}
	e.err = err
	close(e.ended)
	for k := range e.links {
		k.shut()
	}
}

func (e *env) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// dial opens a connection that fail closes.
func (e *env) dial(ctx context.Context) (*link, error) {
	k, err := dialLink(ctx, e.Addr, e.Load.Body)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		k.shut()
		return nil, e.err
	}
	e.links[k] = true
	return k, nil
}

// drop closes a connection.
func (e *env) drop(k *link) {
	e.mu.Lock()
	delete(e.links, k)
	e.mu.Unlock()
	k.shut()
}

// tubeName names a tube, or a function, of this run and process.
func (e *env) tubeName(kind string, i int) string {
	name := fmt.Sprintf("lt.%s.%d.%s%d", e.Plan.Run, e.Process, kind, i)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names[name] = true
	return name
}

// openAll opens n connections and calls each with them. It opens only a few at a time, because a
// listener's backlog is short.
func openAll[C any](ctx context.Context, n int, open func(context.Context) (C, error), each func(i int, c C) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error {
			c, err := open(ctx)
			if err != nil {
				return err
			}
			return each(i, c)
		})
	}
	return g.Wait()
}

// A uniform workload has connections that all do the same.
type uniform[C any] struct {
	*env
	open   func(context.Context) (C, error)
	before func(ctx context.Context) error // called first by setup; may be nil
	make   func(i int, c C) (turn, error)  // prepares connection i
	turns  []turn
}

func (w *uniform[C]) setup(ctx context.Context) error {
	if w.before != nil {
		if err := w.before(ctx); err != nil {
			return err
		}
	}
	w.turns = make([]turn, w.share(w.Load.Conns))
	return openAll(ctx, len(w.turns), w.open, func(i int, c C) (err error) {
		w.turns[i], err = w.make(i, c)
		return err
	})
}

func (w *uniform[C]) run(ph *phase) error { return ph.all(w.turns) }

// A phase is one timed part of a workload in one process. Times are nanoseconds of Now.
type phase struct {
	*env
	ctx      context.Context
	rec      *Recorder
	started  int64
	deadline int64
	count    int64 // commands over all lanes; 0: until the deadline

	lanes                     []*lane
	excludedCPU, excludedWall time.Duration // not counted
}

// unmeasured returns a lane for work that is not part of a phase.
func unmeasured() *lane { return &lane{rec: new(Recorder), deadline: math.MaxInt64} }

// lane returns lane i of n. Unpaced lanes send commands that follow from other lanes' commands. The
// caller must end it.
func (ph *phase) lane(i, n int, paced bool) (*lane, error) {
	l := &lane{rec: ph.rec, deadline: ph.deadline}
	if ph.count > 0 {
		l.budget = max(1, ph.count/int64(n))
	}
	ph.lanes = append(ph.lanes, l)
	if !paced || ph.Load.Rate == 0 {
		return l, nil
	}
	// The lanes of all processes share the rate. Each is shifted by its part of the step.
	lanes := float64(n * ph.Load.Processes)
	step := 1e9 / ph.Load.Rate * lanes
	return l, l.openLoop(ph.started+int64(step*float64(i*ph.Load.Processes+ph.Process)/lanes), step)
}

// all gives every turn a goroutine and a lane, and repeats it until the phase is over.
func (ph *phase) all(turns []turn) error {
	var wg sync.WaitGroup
	for i, t := range turns {
		l, err := ph.lane(i, len(turns), true)
		if err != nil {
			ph.fail(err)
			break
		}
		wg.Go(func() {
			defer l.end()
			for l.more() && ph.ctx.Err() == nil {
				if err := t(l); err != nil {
					if err != errDone {
						ph.fail(err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	return ph.failure()
}

// exclude runs f outside of the measurement: it subtracts f's time and the server's CPU. It is
// exact only for workloads with one connection, since nothing else may drive the server.
func (ph *phase) exclude(f func() error) error {
	cpu, err := ph.serverCPU()
	if err == nil {
		err = ph.untimed(f)
	}
	if err != nil {
		return err
	}
	after, err := ph.serverCPU()
	ph.excludedCPU += after - cpu
	return err
}

func (ph *phase) serverCPU() (time.Duration, error) {
	if ph.ServerPID == 0 {
		return 0, errNoPID
	}
	return CPU(ph.ServerPID)
}

var errNoPID = errors.New("this workload needs the server's process id (-compare, or -pid)")

// untimed runs f and subtracts its time. The server's CPU meanwhile counts.
func (ph *phase) untimed(f func() error) error {
	t := Now()
	err := f()
	ph.excludedWall += time.Duration(Now() - t)
	return err
}

// rest waits, untimed.
func (ph *phase) rest(d time.Duration) error {
	return ph.untimed(func() error {
		select {
		case <-time.After(d):
		case <-ph.ended:
		}
		return ph.failure()
	})
}

// A report has the measurements of one process.
type report struct {
	Ops         int64
	Wall        time.Duration // without excluded time
	Unsent      int64         // arrivals of an open loop that were due and not sent
	ExcludedCPU time.Duration // CPU of the server that does not count
	LoadCPU     time.Duration // CPU of this load process
	Latency     []byte        // encoded histogram
	Memory      Memory
	Growth      growth
}

// grace is how long the last replies may arrive after the end of a phase before the run fails, so
// that a lost reply does not look like a very slow one.
const grace = 20 * time.Second

// Drive runs one process's part of a load. It calls tell with nil when the server is ready and
// warm, and with the report after the measured phase. tell may delay the next stage.
func Drive(ctx context.Context, p Plan, tell func(*report) error) error {
	proto := protocols[p.Load.Protocol]
	e := &env{Plan: p, links: map[*link]bool{}, names: map[string]bool{}, ended: make(chan struct{})}
	defer context.AfterFunc(ctx, func() { e.fail(context.Cause(ctx)) })()
	defer e.fail(errors.New("the run is over")) // closes all connections
	w := proto.workloads[p.Load.Workload].build(e)
	if err := w.setup(ctx); err != nil {
		return fmt.Errorf("setup: %w", e.first(err))
	}
	if p.Load.Warmup > 0 {
		if _, err := e.measure(ctx, w, Load{Duration: p.Load.Warmup}, false); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	if err := tell(nil); err != nil {
		return err
	}
	rep, err := e.measure(ctx, w, p.Load, proto.endless(p.Load))
	if err != nil {
		return err
	}
	if err := tell(rep); err != nil {
		return err
	}
	if p.Throwaway || p.Constant {
		return nil
	}
	for k := range maps.Clone(e.links) {
		e.drop(k)
	}
	if err := proto.clean(ctx, e); err != nil {
		return fmt.Errorf("teardown: %w", e.first(err))
	}
	return nil
}

// first prefers the failure that closed the connections to err, which is its consequence.
func (e *env) first(err error) error { return cmp.Or(e.failure(), err) }

// measure runs w for the duration of l, or until the phase reaches its count. If endless is set, it
// runs w until w ends by itself.
func (e *env) measure(ctx context.Context, w workload, l Load, endless bool) (*report, error) {
	ph := &phase{env: e, ctx: ctx, rec: new(Recorder)}
	if e.Latencies != nil {
		ph.rec = e.Latencies
	}
	if l.Count > 0 {
		ph.count = max(1, l.Count/int64(l.Processes))
	}
	cpu, err := CPU(os.Getpid())
	if err != nil {
		return nil, err
	}
	ph.started = Now()
	ph.deadline = ph.started + int64(l.Duration)
	if endless {
		ph.deadline = math.MaxInt64
	} else {
		defer time.AfterFunc(2*l.Duration+grace, func() {
			e.fail(fmt.Errorf("replies are still missing %v after the end of the phase", l.Duration+grace))
		}).Stop()
	}
	if err := w.run(ph); err != nil || e.failure() != nil {
		return nil, e.first(err)
	}
	rep := &report{Wall: time.Duration(Now()-ph.started) - ph.excludedWall, ExcludedCPU: ph.excludedCPU, Memory: e.memory, Growth: e.growth}
	after, err := CPU(os.Getpid())
	if err != nil {
		return nil, err
	}
	rep.LoadCPU = after - cpu
	for _, l := range ph.lanes {
		rep.Ops += l.done
		rep.Unsent += l.unsent()
	}
	rep.Latency, err = ph.rec.encode()
	return rep, err
}

// A message goes from a load process to its coordinator.
type message struct {
	Report *report
	Error  string
}

// worker is the main function of a load process. It reads its plan from in and goes through the
// stages of Drive. After each stage it waits for a line of in. It ends when the coordinator ends.
func worker(ctx context.Context, in io.Reader, out io.Writer) error {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	var p Plan
	if err := dec.Decode(&p); err != nil {
		return fmt.Errorf("load process: plan: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	step := make(chan struct{})
	go func() {
		for {
			var proceed bool
			if dec.Decode(&proceed) != nil {
				cancel(errors.New("the coordinator has ended"))
				return
			}
			step <- struct{}{}
		}
	}()
	err := Drive(ctx, p, func(rep *report) error {
		if err := enc.Encode(message{Report: rep}); err != nil {
			return err
		}
		select {
		case <-step:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		enc.Encode(message{Error: err.Error()})
	}
	return err
}

// Beside runs a load in this process until ctx ends, while the caller measures something else. line
// is the load's one-line form. rec receives the latencies.
func Beside(ctx context.Context, protocol, addr, line string, rec *Recorder) error {
	base := newLoad()
	base.Duration, base.Warmup = 24*time.Hour, 0
	l, err := protocols[protocol].parseLoad(line, base)
	if err != nil {
		return err
	}
	err = Drive(ctx, Plan{Load: l, Addr: addr, Run: "beside", Throwaway: true, Latencies: rec}, func(*report) error { return nil })
	if ctx.Err() != nil {
		return nil
	}
	return err
}
