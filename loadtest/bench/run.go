package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A turn is the smallest piece of a connection's behaviour that leaves nothing unanswered. It
// returns errDone if there is nothing left to do.
type turn func(l *lane) error

var errDone = errors.New("nothing left to do")

// A runner plays a workload. It is called once in each phase. It returns when every command is
// answered, with the server in the state after the setup, so that it can be called again.
type runner func(ph *phase) error

// traits are properties of a workload that must be known before it runs.
type traits uint16

const (
	once        traits = 1 << iota // it changes the server permanently: no warm-up, and only its jobs end it
	onceCounted                    // like once, if there is a count
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
	unit     string // what an operation is; empty: the protocol's
	defaults Load
	traits   traits
	// setup prepares the workload. It may be slow and is not measured.
	setup func(ctx context.Context, e *env) (runner, error)
}

func (s spec) is(t traits) bool { return s.traits&t == t }

// A protocol is the protocol of a server, and how to drive the server.
type protocol struct {
	name    string
	addr    string            // default address of a server
	args    string            // default arguments of a command line without {port}
	unit    string            // what an operation is, for reports
	first   string            // default workload
	ask     string            // the command that asks for the version
	version *regexp.Regexp    // matches the version in the answer
	read    func(*Conn) error // reads a reply
	// clean removes the jobs and functions of a run from a server that keeps running.
	clean     func(ctx context.Context, e *env) error
	workloads map[string]spec
	bench     []string // loads that judge polystalkd
	goals     []string // assertions about them
}

var protocols = map[string]*protocol{beanstalkd.name: beanstalkd, gearmand.name: gearmand}

// endless reports whether l ends with its jobs. Then it has neither a time limit nor a warm-up,
// which would change the measurement.
func (p *protocol) endless(l Load) bool {
	s := p.workloads[l.Workload]
	return s.is(once) || s.is(onceCounted) && l.Count > 0
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// A plan is the task of one load process.
type plan struct {
	Load      Load
	Addr      string // host:port
	Run       string // part of tube names, so that runs share no tube
	ServerPID int    // 0: not known
	Constant  bool   // the server answers constants: check kind and length only
	Throwaway bool   // the server ends with the run: do not remove its jobs
}

// An env is the state of a load process. Any goroutine may use it.
type env struct {
	plan
	protocol *protocol
	memory   Memory // set by a workload about memory
	growth   growth // set by a workload with a queue that grows

	mu    sync.Mutex
	conns map[*Conn]bool
	names map[string]bool // tubes or functions of this run
	err   error           // the first failure; connections are closed once it is set
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
	for c := range e.conns {
		c.Close()
	}
}

func (e *env) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// first prefers the failure that closed the connections to err, which is its consequence.
func (e *env) first(err error) error { return cmp.Or(e.failure(), err) }

// open opens a connection that fail closes.
func (e *env) open(ctx context.Context) (*Conn, error) {
	c, err := dial(ctx, e.Addr)
	if err != nil {
		return nil, err
	}
	c.read, c.depth, c.constant, c.body, c.tube = e.protocol.read, e.Load.Depth, e.Constant, newBody(e.Load.Body), "default"
	c.unique = fmt.Appendf(nil, "lt.%s.u.%s", e.plan.Run, make([]byte, StampLen))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		c.Close()
		return nil, e.err
	}
	e.conns[c] = true
	return c, nil
}

// drop closes a connection.
func (e *env) drop(c *Conn) {
	e.mu.Lock()
	delete(e.conns, c)
	e.mu.Unlock()
	c.Close()
}

// openAll opens n connections and calls each with them. It opens only a few at a time, because a
// listener's backlog is short.
func (e *env) openAll(ctx context.Context, n int, each func(i int, c *Conn) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error {
			c, err := e.open(ctx)
			if err != nil {
				return err
			}
			return each(i, c)
		})
	}
	return g.Wait()
}

// uniform sets up a workload with connections that all do the same. each prepares connection i.
func (e *env) uniform(ctx context.Context, each func(i int, c *Conn) (turn, error)) (runner, error) {
	turns := make([]turn, e.Load.Conns)
	err := e.openAll(ctx, len(turns), func(i int, c *Conn) (err error) {
		turns[i], err = each(i, c)
		return err
	})
	return func(ph *phase) error { return ph.all(turns) }, err
}

// tubeName names a tube, or a function, of this run.
func (e *env) tubeName(kind string, i int) string {
	name := fmt.Sprintf("lt.%s.%s%d", e.plan.Run, kind, i)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names[name] = true
	return name
}

// A phase is one timed part of a load. Times are nanoseconds of Now.
type phase struct {
	*env
	ctx      context.Context
	rec      *recorder
	started  int64
	deadline int64
	count    int64 // commands over all lanes; 0: until the deadline

	lanes                     []*lane
	excludedCPU, excludedWall time.Duration // not counted
}

// unmeasured returns a lane for work that is not part of a phase.
func unmeasured() *lane { return &lane{rec: new(recorder), deadline: math.MaxInt64} }

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
	step := 1e9 / ph.Load.Rate * float64(n) // the lanes share the rate; each is shifted by its part of the step
	return l, l.openLoop(ph.started+int64(step*float64(i)/float64(n)), step)
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
	if ph.ServerPID == 0 {
		return errNoPID
	}
	before, err := CPU(ph.ServerPID)
	if err == nil {
		err = ph.untimed(f)
	}
	if err != nil {
		return err
	}
	after, err := CPU(ph.ServerPID)
	ph.excludedCPU += after - before
	return err
}

var errNoPID = errors.New("this workload needs the server's process id (-compare, or -pid)")

// untimed runs f and subtracts its time. The server's CPU meanwhile counts.
func (ph *phase) untimed(f func() error) error {
	t := Now()
	err := f()
	ph.excludedWall += time.Duration(Now() - t)
	return err
}

// grace is how long the last replies may arrive after the end of a phase before the run fails, so
// that a lost reply does not look like a very slow one.
const grace = 20 * time.Second

// drive runs a load in this process.
func drive(ctx context.Context, p plan) (*Run, error) {
	proto := cmp.Or(protocols[p.Load.Protocol], peers[p.Load.Protocol])
	e := &env{plan: p, protocol: proto, conns: map[*Conn]bool{}, names: map[string]bool{}, ended: make(chan struct{})}
	defer context.AfterFunc(ctx, func() { e.fail(context.Cause(ctx)) })()
	defer e.fail(errors.New("the run is over")) // closes all connections
	before, err := e.serverUsage()
	if err != nil {
		return nil, err
	}
	run, err := proto.workloads[p.Load.Workload].setup(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("setup: %w", e.first(err))
	}
	if p.Load.Warmup > 0 {
		if _, err := e.measure(ctx, run, Load{Duration: p.Load.Warmup}, false); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	r, err := e.measure(ctx, run, p.Load, proto.endless(p.Load))
	if err != nil {
		return nil, err
	}
	if r.Ops == 0 {
		return nil, fmt.Errorf("no operation was answered in %v s", r.Seconds)
	}
	r.RSSBefore = before.rss
	if p.Throwaway || p.Constant {
		return r, nil
	}
	for c := range maps.Clone(e.conns) {
		e.drop(c)
	}
	if err := proto.clean(ctx, e); err != nil {
		return nil, fmt.Errorf("teardown: %w", e.first(err))
	}
	return r, nil
}

// A usage is what a process and its children have used until now. It is zero if the process is not known.
type usage struct {
	cpu time.Duration
	rss int64
}

func (e *env) serverUsage() (u usage, err error) {
	if e.ServerPID == 0 {
		return u, nil
	}
	for _, pid := range family(e.ServerPID) {
		cpu, err := CPU(pid)
		rss, err2 := RSS(pid)
		if err := cmp.Or(err, err2); err != nil {
			if pid != e.ServerPID {
				continue // a child has just ended
			}
			return u, err
		}
		u.cpu, u.rss = u.cpu+cpu, u.rss+rss
	}
	return u, nil
}

// measure calls run until the duration of l is over or the phase reaches its count. If endless is
// set, there is no such limit: run decides when it ends.
func (e *env) measure(ctx context.Context, run runner, l Load, endless bool) (*Run, error) {
	ph := &phase{env: e, ctx: ctx, rec: new(recorder), count: l.Count}
	before, err := e.serverUsage()
	own, err2 := CPU(os.Getpid())
	if err := cmp.Or(err, err2); err != nil {
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
	if err := run(ph); err != nil || e.failure() != nil {
		return nil, e.first(err)
	}
	wall := (time.Duration(Now()-ph.started) - ph.excludedWall).Seconds()
	after, err := e.serverUsage()
	ownAfter, err2 := CPU(os.Getpid())
	if err := cmp.Or(err, err2); err != nil {
		return nil, err
	}
	r := &Run{Load: l.Name, Seconds: wall, Latency: ph.rec.take(), RSSAfter: after.rss, Memory: e.memory, Growth: e.growth}
	for _, l := range ph.lanes {
		r.Ops += l.done
		r.Unsent += l.unsent()
	}
	cpu, load, ops := (after.cpu - before.cpu - ph.excludedCPU).Seconds(), (ownAfter - own).Seconds(), float64(r.Ops)
	r.OpsRate = ops / wall
	r.CPU, r.LoadCPU = cpu*1e6/ops, load*1e6/ops
	r.Busy, r.LoadBusy = cpu/wall, load/wall
	return r, nil
}

// drivePinned runs a load in a process of its own, on the cores of the load.
func drivePinned(ctx context.Context, sp Spawner, p plan) (*Run, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p.Run = strconv.FormatInt(int64(os.Getpid()), 36) + strconv.FormatInt(time.Now().UnixMilli()&0xfffffff, 36)
	task, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	var errs tail
	cmd := exec.CommandContext(ctx, self, "worker")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(task), &out, &errs
	w, err := sp.Start(cmd, p.Load.LoadCPUs)
	if err != nil {
		return nil, err
	}
	if <-w.Ended; !w.ProcessState.Success() {
		return nil, fmt.Errorf("load process: %v: %s", w.ProcessState, &errs)
	}
	r := new(Run)
	return r, json.Unmarshal(out.Bytes(), r)
}

// worker is the main function of a load process: its input is the plan, its output the Run.
func worker(ctx context.Context) error {
	var p plan
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	r, err := drive(ctx, p)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
