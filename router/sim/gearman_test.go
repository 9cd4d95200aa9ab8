package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/router"
)

// TestChaosOfBothProtocols is TestChaosKeepsEveryJobInOnePlace with Gearman clients and workers, and
// beanstalkd clients on the same tubes.
func TestChaosOfBothProtocols(t *testing.T) {
	seen := map[string]int{}
	seeds(t, 150, func(seed uint64) error {
		return newGearChaos(seed, seen).run(1500)
	})
	wantSeen(t, seen, "JOB_CREATED", "JOB_ASSIGN", "JOB_ASSIGN_UNIQ", "JOB_ASSIGN_ALL", "NO_JOB", "NOOP", "ERROR", "WORK_DATA", "WORK_WARNING",
		"WORK_STATUS", "WORK_COMPLETE", "WORK_FAIL", "WORK_EXCEPTION", "ECHO_RES", "STATUS_RES", "STATUS_RES_UNIQUE", "OPTION_RES", "TEXT",
		"joined", "copied", "cut off", "swallowed", "cancelled", "kept back", "floods")
}

// A gearChaos is a world with clients of both protocols. The data of chaos about jobs, their bodies
// and ids includes submitted jobs.
type gearChaos struct {
	chaos
	gears       []*gearConn
	retries     uint32
	wakeup      int
	bury        bool
	calm        bool // time passes in small steps, so that loops are busy
	leavesEarly bool // clients leave with reports for them under way

	jobs           map[uint64]*gearJob // jobs acknowledged by JOB_CREATED
	home           map[string]string   // functions by body
	reports        []*gearReport       // by number
	open           []*gearReport       // reports not checked yet
	fates          map[uint64]*fate
	operatorClient *operatorClient // the operator, or nil
	shaky          map[uint64]bool // jobs that an operator may have taken from their workers
}

// A gearJob is the clients' knowledge of a submitted job.
type gearJob struct {
	fn, unique string
	background bool
}

// A fate is the knowledge of how a job may have ended.
type fate struct {
	gone      bool // it has ended
	at        int  // the step in which it ended
	cancelled bool // it was cancelled: it has ended, unless it runs
	mayBeGone bool // it may have ended without a reply
	mayFail   bool // a client tried something that makes it fail, or end
}

// A gearReport is a worker's report about a job.
type gearReport struct {
	n       int
	t       gearman.Type
	id      uint64
	data    string
	due     map[*gearConn]uint32 // how often clients must receive it
	settled bool                 // it is known whether the server accepted it
	refused bool
}

// A bias is the preferred behavior of a connection.
type bias int

const (
	ofAllKinds bias = iota
	worker
	client
	sleeper // a worker that seldom asks for jobs
	patient // a client that waits for one job after the other
	numBiases
)

// A gearConn is a client, a worker and an administrator.
type gearConn struct {
	k       *sock
	bias    bias
	asked   []gearAsk
	reports bool // the last report may be refused, and no later reply has arrived
	listing bool // in the middle of a list

	able       map[string]bool // functions, by the messages sent
	timed      map[string]bool // functions that ever had a timeout
	blind      map[string]bool // functions registered while it slept
	sleeps     int             // PRE_SLEEPs without a NOOP since its last grab
	heard      bool            // a NOOP has arrived since then: no other may follow
	exceptions bool
	excepted   uint64
	waits      map[uint64]*gearWait // foreground jobs, by id
	told       map[uint64]bool      // jobs that it got
	holds      map[uint64]gearHold  // jobs of told that it has not released
	got        map[int]uint32       // how often it has received a report
}

// A gearHold is a job that a worker runs, as far as it knows.
type gearHold struct {
	fn   string
	firm bool // it is certain: no timer takes the job from it
}

// A gearWait is a client's view of a job that it submitted in the foreground.
type gearWait struct {
	n     uint32 // number of JOB_CREATED
	ended uint32
	last  int // the last report received
	by    gearman.Type
}

// A gearAsk is a message that a client has sent, and that the server has perhaps not processed.
type gearAsk struct {
	t          gearman.Type
	line       string // of Text
	fn, unique string
	body       string
	id         uint64
	report     *gearReport
	able       []string
	over       bool // of GET_STATUS: the job had certainly ended
	at         int  // the step in which it was sent
}

func newGearChaos(seed uint64, seen map[string]int) *gearChaos {
	rng := rand.New(rand.NewPCG(seed, 4))
	c := &gearChaos{
		jobs: map[uint64]*gearJob{}, home: map[string]string{},
		fates: map[uint64]*fate{}, shaky: map[uint64]bool{}, calm: rng.IntN(2) == 0, leavesEarly: rng.IntN(2) == 0,
	}
	if rng.IntN(4) == 0 {
		c.retries = 1 + rng.Uint32N(3)
	}
	if rng.IntN(4) == 0 {
		c.wakeup = 1 + rng.IntN(2)
	}
	c.bury = rng.IntN(4) == 0
	c.chaos = *newChaos(seed, router.Config{Gearman: router.GearmanConfig{
		Prefix: prefix, Retries: c.retries, Wakeup: c.wakeup, BuryFailed: c.bury,
	}}, seen)
	c.given = c.reservedOnce
	for _, l := range c.w.loops {
		l.slow = []int{0, 0, 4, 16}[rng.IntN(4)]
	}
	return c
}

// prefix begins the handles of the jobs.
const prefix = "H:sim"

func (c *gearChaos) run(n int) error {
	defer c.w.Close()
	err := c.play(n, c.step, c.rest, func() {
		for _, cn := range c.gears {
			c.part(cn)
		}
	})
	if err != nil {
		return err
	}
	return c.dropAll()
}

func (c *gearChaos) step() error {
	for _, cn := range c.gears {
		if c.leavesEarly && !cn.k.shut && !cn.k.broken && cn.k.s.HasMail() && c.rng.IntN(4) == 0 {
			c.w.occupy() // so that it takes time
			c.part(cn)
			c.goOn(cn)
		}
	}
	if c.operatorClient != nil {
		if err := c.operatorClient.step(); err != nil {
			return err
		}
	}
	switch r := c.rng.IntN(100); {
	case r < 60:
		for range 1 + c.rng.IntN(10) {
			c.w.late()
		}
	case r < 66:
		c.ask()
		c.noteDoubts()
	case r < 88:
		c.gearAsk()
	case r < 90:
		if cn := c.any(); cn != nil && c.rng.IntN(3) == 0 {
			c.vanish(cn)
		}
	case r < 92:
		if cn := c.anyGear(); cn != nil && c.rng.IntN(4) == 0 {
			c.part(cn)
		}
	case r < 95:
		if len(c.live) < 2 && c.rng.IntN(2) == 0 {
			c.live = append(c.live, &chaosConn{k: c.w.Open(), told: map[uint64]bool{}})
		}
		if len(c.gears) < 8 {
			c.gears = append(c.gears, c.join())
		}
	case r < 99:
		c.pass()
	default:
		return c.rest()
	}
	return c.readAll()
}

func (c *gearChaos) readAll() error {
	for _, cn := range c.live {
		if err := c.read(cn); err != nil {
			return err
		}
	}
	for i, cn := range c.gears {
		if err := c.listen(cn); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return nil
}

// pass lets time pass without running timers.
func (c *gearChaos) pass() {
	d := time.Duration(c.rng.IntN(700)) * time.Millisecond
	if c.calm && c.rng.IntN(50) > 0 {
		d = time.Duration(c.rng.IntN(40)) * time.Microsecond
		if c.rng.IntN(8) == 0 {
			d = time.Duration(c.rng.IntN(1500)) * time.Microsecond
		}
	}
	c.w.jump(d)
}

func (c *gearChaos) join() *gearConn {
	cn := &gearConn{
		k: c.w.openGearman(), bias: bias(c.rng.IntN(int(numBiases))),
		able: map[string]bool{}, timed: map[string]bool{}, blind: map[string]bool{}, waits: map[uint64]*gearWait{},
		told: map[uint64]bool{}, holds: map[uint64]gearHold{}, got: map[int]uint32{},
	}
	cn.k.Glutted = c.rng.IntN(10) == 0
	if cn.bias == worker || cn.bias == sleeper {
		for _, name := range c.names {
			if c.rng.IntN(3) > 0 {
				cn.able[name] = true
				c.say(cn, gearAsk{t: gearman.CanDo, fn: name}, name)
			}
		}
	}
	return cn
}

func (c *gearChaos) anyGear() *gearConn {
	if len(c.gears) == 0 {
		return nil
	}
	return c.gears[c.rng.IntN(len(c.gears))]
}

// goOn lets the workers of jobs for which cn waits report.
func (c *gearChaos) goOn(cn *gearConn) {
	for _, o := range c.gears {
		for _, id := range slices.Sorted(maps.Keys(o.holds)) {
			if w := cn.waits[id]; o != cn && !o.k.shut && !o.k.broken && w != nil && w.ended == 0 && c.rng.IntN(2) == 0 {
				c.reportOn(o, gearAsk{t: gearman.WorkData, id: id})
			}
		}
	}
}

// part ends a client in one of several ways.
func (c *gearChaos) part(cn *gearConn) {
	if c.rng.IntN(2) == 0 {
		cn.k.halfClose()
	} else {
		cn.k.Abort()
	}
}

// fate returns the fate of job id.
func (c *gearChaos) fate(id uint64) *fate {
	f := c.fates[id]
	if f == nil {
		f = new(fate)
		c.fates[id] = f
	}
	return f
}

// noteDoubts records the jobs that a beanstalkd client may make fail.
func (c *gearChaos) noteDoubts() {
	for _, cn := range c.live {
		for i := len(cn.asked) - 1; i >= 0 && i >= len(cn.asked)-4; i-- {
			var id uint64
			q := cn.asked[i].line
			if n, _ := fmt.Sscanf(q, "delete %d", &id); n == 1 {
				c.fate(id).mayFail = true
			}
			if n, _ := fmt.Sscanf(q, "bury %d", &id); n == 1 {
				c.fate(id).mayFail = true
			}
		}
	}
}
