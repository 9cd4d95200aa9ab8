package keep

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// An errand is a connection that changes jobs in its own tubes, and knows what
// of that was acknowledged.
type errand struct {
	k     *killing
	n     int
	rng   *rand.Rand
	jobs  []*mirrorJob // those that are there, or may be
	used  string
	puts  int
	done  int // commands acknowledged
	order int64

	// The tube that is paused: until when, as acknowledged and as sent last.
	paused, pausing [2]time.Time // at the earliest, at the latest
	inPause         bool

	c       *conversation.Client
	out     strings.Builder
	waiting []func(reply string) error
}

// A killing is the whole campaign on one directory.
type killing struct {
	t       *testing.T
	errands []*errand
	mu      sync.Mutex
	seen    map[uint64]bool // ids that were given out
	floor   uint64          // ids of this round are above
	high    atomic.Uint64   // the highest so far
}

func (e *errand) tube(i int) string { return fmt.Sprintf("w%d-%c", e.n, 'a'+i) }

// say queues a command; then takes its reply.
func (e *errand) say(then func(reply string) error, format string, args ...any) {
	fmt.Fprintf(&e.out, format, args...)
	e.waiting = append(e.waiting, then)
}

func want(reply string) func(string) error {
	return func(got string) error {
		if got != reply {
			return fmt.Errorf("got %.80q, want %q", got, reply)
		}
		return nil
	}
}

// change queues a command that makes f of j.
func (e *errand) change(j *mirrorJob, f fact, reply, format string, args ...any) {
	j.chain = append(j.chain, f)
	e.say(func(got string) error {
		if got != reply {
			return fmt.Errorf("job %d, known as %+v: got %.80q, want %q", j.id, j.chain, got, reply)
		}
		e.acknowledged(j)
		return nil
	}, format, args...)
}

// acknowledged: the first command on j that was not acknowledged is.
func (e *errand) acknowledged(j *mirrorJob) {
	j.chain = j.chain[1:]
	if f := &j.chain[0]; f.state == "delayed" {
		f.until = time.Now().Add(time.Duration(f.delay) * time.Second)
		for i := range j.chain[1:] {
			if j.chain[i+1].state == "delayed" && j.chain[i+1].from.Equal(f.from) {
				j.chain[i+1].until = f.until
			}
		}
	}
}

func (e *errand) delay() int { return []int{0, 0, 0, 1, 1000}[e.rng.IntN(5)] }

// withDelay is a job that gets a delay now.
func withDelay(f fact, delay int) fact {
	f.delay, f.state = delay, "ready"
	if delay > 0 {
		f.state = "delayed"
		f.from = time.Now().Add(time.Duration(delay) * time.Second)
		f.until = f.from.Add(daemon.Hang)
	}
	return f
}

func (e *errand) put() {
	tube := e.tube(e.rng.IntN(2))
	if tube != e.used {
		e.used = tube
		e.say(want("USING "+tube+"\r\n"), "use %s\r\n", tube)
	}
	e.puts++
	j := &mirrorJob{tube: tube, token: fmt.Sprintf("w%d put %d;", e.n, e.puts), ttr: 1000 + e.rng.IntN(1000)}
	switch n := e.rng.IntN(200); {
	case n < 2:
		j.size = 100_000 + e.rng.IntN(100_000)
	case n < 10:
		j.size = e.rng.IntN(66_000)
	default:
		j.size = e.rng.IntN(400)
	}
	f := withDelay(fact{pri: e.rng.IntN(2000)}, e.delay())
	j.chain = []fact{{}, f}
	e.jobs = append(e.jobs, j)
	body := j.body()
	e.say(func(got string) error {
		if _, err := fmt.Sscanf(got, "INSERTED %d\r\n", &j.id); err != nil {
			return fmt.Errorf("put: %q", got)
		}
		e.acknowledged(j)
		return e.k.newID(j.id)
	}, "put %d %d %d %d\r\n%s\r\n", f.pri, f.delay, j.ttr, len(body), body)
}

// newID takes an id that was given out in this round.
func (k *killing) newID(id uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen[id] || id <= k.floor {
		return fmt.Errorf("id %d was given out again (they were up to %d)", id, k.floor)
	}
	k.seen[id] = true
	k.high.Store(max(k.high.Load(), id))
	return nil
}

// step queues something.
func (e *errand) step() {
	n := e.rng.IntN(100)
	switch {
	case len(e.jobs) < 20 || n < 25 && len(e.jobs) < 150:
		e.put()
		return
	case n < 28:
		e.pause()
		return
	}
	j := e.jobs[e.rng.IntN(len(e.jobs))]
	f := j.last()
	switch {
	case j.id == 0 || f.state == "":
	case j.held:
		j.held = false
		switch e.rng.IntN(6) {
		case 0, 1:
			f = withDelay(f, e.delay())
			f.pri = e.rng.IntN(2000)
			f.releases++
			f.reserves, f.since = f.reserves+f.since, 0
			e.change(j, f, "RELEASED\r\n", "release %d %d %d\r\n", j.id, f.pri, f.delay)
		case 2, 3:
			f.state, f.pri = "buried", e.rng.IntN(2000)
			f.buries++
			f.reserves, f.since = f.reserves+f.since, 0
			e.order++
			f.order = e.order
			e.change(j, f, "BURIED\r\n", "bury %d %d\r\n", j.id, f.pri)
		case 4:
			e.change(j, fact{}, "DELETED\r\n", "delete %d\r\n", j.id)
		default:
			e.say(want("TOUCHED\r\n"), "touch %d\r\n", j.id)
			j.held = true
		}
	case f.state == "buried" && e.rng.IntN(3) == 0, f.state == "delayed" && f.delay > 100 && e.rng.IntN(3) == 0:
		f.state = "ready"
		f.kicks++
		f.reserves, f.since = f.reserves+f.since, 0
		e.change(j, f, "KICKED\r\n", "kick-job %d\r\n", j.id)
	case e.rng.IntN(4) == 0:
		e.change(j, fact{}, "DELETED\r\n", "delete %d\r\n", j.id)
	default:
		j.held = true
		f.state = "ready"
		f.since++ // it is recorded with the next change, or if it was not ready
		j.chain = append(j.chain, f)
		wanted := fmt.Sprintf("RESERVED %d %d\r\n%s\r\n", j.id, len(j.body()), j.body())
		e.say(func(got string) error {
			if got != wanted {
				return fmt.Errorf("job %d, known as %+v: got %.80q, want %.80q", j.id, j.chain, got, wanted)
			}
			e.acknowledged(j)
			return nil
		}, "reserve-job %d\r\n", j.id)
	}
}

// pause pauses the third tube, which a job that stays keeps alive.
func (e *errand) pause() {
	d := []int{0, 1, 1000}[e.rng.IntN(3)]
	if e.inPause {
		return // one at a time is enough to tell them apart
	}
	e.inPause = true
	length := time.Duration(d) * time.Second
	now := time.Now()
	e.pausing = [2]time.Time{now.Add(length), now.Add(length + daemon.Hang)}
	if d == 0 {
		e.pausing = [2]time.Time{}
	}
	e.say(func(got string) error {
		e.inPause = false
		if d > 0 {
			e.pausing[1] = time.Now().Add(length)
		}
		e.paused = e.pausing
		return want("PAUSED\r\n")(got)
	}, "pause-tube %s %d\r\n", e.tube(2), d)
}

// kick makes the tube's oldest buried jobs ready. Nothing else is under way.
func (e *errand) kick() {
	var buried []*mirrorJob
	for _, j := range e.jobs {
		if j.tube == e.used && j.last().state == "buried" {
			buried = append(buried, j)
		}
	}
	if len(buried) == 0 {
		return
	}
	slices.SortFunc(buried, func(a, b *mirrorJob) int { return int(a.last().order - b.last().order) })
	n := 1 + e.rng.IntN(min(len(buried), 20))
	for _, j := range buried[:n] {
		f := j.last()
		f.state = "ready"
		f.kicks++
		f.reserves, f.since = f.reserves+f.since, 0
		j.chain = append(j.chain, f)
	}
	e.say(func(got string) error {
		for _, j := range buried[:n] {
			e.acknowledged(j)
		}
		return want(fmt.Sprintf("KICKED %d\r\n", n))(got)
	}, "kick %d\r\n", n)
}

// take reserves what comes first in the errand's tubes.
func (e *errand) take() {
	// Whichever it is: if the reply never comes, its reservation may be counted.
	for _, j := range e.jobs {
		for i := range j.chain {
			j.chain[i].since++
		}
	}
	e.say(func(got string) error {
		for _, j := range e.jobs {
			for i := range j.chain {
				j.chain[i].since--
			}
		}
		if got == "TIMED_OUT\r\n" {
			for _, j := range e.jobs {
				if j.id != 0 && !j.held && j.last().state == "ready" {
					return fmt.Errorf("job %d is ready, but nothing was to be had", j.id)
				}
			}
			return nil
		}
		head, body, _ := strings.Cut(got, "\r\n")
		var id uint64
		if _, err := fmt.Sscanf(head, "RESERVED %d ", &id); err != nil {
			return fmt.Errorf("reserve: %.80q", got)
		}
		for _, j := range e.jobs {
			f := &j.chain[0]
			if j.id != id {
				continue
			}
			if j.held || body != j.body()+"\r\n" || f.state == "buried" || f.state == "delayed" && time.Now().Before(f.from) {
				return fmt.Errorf("reserve gave job %d, which is %+v: %.80q", id, *f, got)
			}
			// Not recorded: if it was delayed it is so still, as far as a restart is
			// concerned, and over.
			j.held = true
			f.since++
			return nil
		}
		return fmt.Errorf("reserve gave a job that is not there: %.80q", got)
	}, "reserve-with-timeout 0\r\n")
}

// errKilled ends an errand.
var errKilled = errors.New("the connection ended")

// flush sends what was queued and takes the replies.
func (e *errand) flush() error {
	out := e.out.String()
	e.out.Reset()
	fed := daemon.Feed(e.c, []byte(out))
	for len(e.waiting) > 0 {
		reply, err := e.c.Reply(conversation.Patience)
		if err != nil {
			<-fed
			return errKilled
		}
		then := e.waiting[0]
		e.waiting = e.waiting[1:]
		if err := then(string(reply)); err != nil {
			return err
		}
		e.done++
	}
	return <-fed
}

// run works until the server is gone.
func (e *errand) run(address string) error {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return errKilled // before it began; that the server serves, others of its clients show
	}
	defer c.Close()
	e.c, e.used, e.waiting = c, "", nil
	e.out.Reset()
	e.say(func(string) error { return nil }, "watch %s\r\n", e.tube(0))
	e.say(func(string) error { return nil }, "watch %s\r\n", e.tube(1))
	for {
		for range 1 + e.rng.IntN(12) {
			e.step()
		}
		if err := e.flush(); err != nil {
			return err
		}
		if e.rng.IntN(3) == 0 {
			e.kick()
		} else {
			e.take()
		}
		if err := e.flush(); err != nil {
			return err
		}
		e.jobs = slices.DeleteFunc(e.jobs, func(j *mirrorJob) bool { return j.last().state == "" })
	}
}

// check compares everything with what the restarted server has.
func (k *killing) check(c *conversation.Client, inFlight uint64) {
	t := k.t
	t.Helper()
	high := k.high.Load() + inFlight
	var ids []uint64
	for id := k.floor + 1; id <= high; id++ {
		ids = append(ids, id)
	}
	for _, e := range k.errands {
		for _, j := range e.jobs {
			if j.id != 0 && j.id <= k.floor {
				ids = append(ids, j.id)
			}
		}
	}
	found := see(t, c, ids)
	byToken := make(map[string]uint64)
	for id, s := range found {
		byToken[tokenOf(s.body)] = id
		k.high.Store(max(k.high.Load(), id))
	}
	there := 0
	for _, e := range k.errands {
		for _, j := range e.jobs {
			if j.id == 0 {
				j.id = byToken[j.token]
			}
			s := found[j.id]
			delete(found, j.id)
			if s != nil {
				there++
			}
			if err := j.check(s); err != nil {
				t.Error(err)
			}
		}
		e.jobs = slices.DeleteFunc(e.jobs, func(j *mirrorJob) bool { return j.chain[0].state == "" })
		e.checkPause(t, c)
	}
	for id, s := range found {
		t.Errorf("job %d was deleted, or never put: %s", id, s.shape())
	}
	// Whatever else came back from earlier rounds would be counted here.
	st := fields(daemon.MustAsk(t, c, "stats\r\n"))
	counted := 0
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		var n int
		fmt.Sscan(st["current-jobs-"+state], &n)
		counted += n
	}
	if want := there + len(k.errands); counted != want {
		t.Errorf("there are %d jobs, %d are known", counted, want)
	}
	k.floor = k.high.Load()
}

func (e *errand) checkPause(t *testing.T, c *conversation.Client) {
	t.Helper()
	reply := daemon.MustAsk(t, c, "stats-tube %s\r\n", e.tube(2))
	now := time.Now()
	var left int
	fmt.Sscan(fields(reply)["pause-time-left"], &left)
	fits := func(p [2]time.Time) bool {
		if left == 0 {
			return p[0].Before(now.Add(slack))
		}
		d := time.Duration(left) * time.Second
		return d > p[0].Sub(now)-slack && d < p[1].Sub(now)+slack
	}
	switch {
	case e.inPause && fits(e.pausing):
		e.paused = e.pausing
	case !fits(e.paused):
		t.Errorf("the pause of %s has %d s left; it was to last until %v (sent: %v to %v)", e.tube(2), left, e.paused, e.inPause, e.pausing)
	}
	if left > 0 {
		e.paused[1] = now.Add(time.Duration(left+1) * time.Second)
	}
	e.inPause = false
}

// TestKillLosesNothingAcknowledged: clients change jobs, the process is killed,
// and what comes back is what they were told, for hundreds of times if
// POLYSTALKD_KILLS says so. The journal rotates and compacts meanwhile.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	eachPolicy(t, daemon.Amount(t, "POLYSTALKD_KILLS", 51), runKills)
}

// eachPolicy shares so many rounds between the policies of syncing, at a time, each with its
// arguments and a seed of its own.
func eachPolicy(t *testing.T, total int, run func(t *testing.T, seed uint64, rounds int, args []string)) {
	policies := []struct {
		name string
		args []string
	}{{"always", nil}, {"every", []string{"-f", "5"}}, {"never", []string{"-F"}}}
	for i, p := range policies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			run(t, uint64(i), (total+i)/3, p.args)
		})
	}
}

func runKills(t *testing.T, seed uint64, rounds int, args []string) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(seed, *daemon.Seed))
	k := &killing{t: t, seen: make(map[uint64]bool)}
	for n := range 4 {
		k.errands = append(k.errands, &errand{k: k, n: n, rng: rand.New(rand.NewPCG(rng.Uint64(), 1))})
	}
	var last map[string]string
	compacted := func() bool { return last["binlog-oldest-index"] != "1" }
	// A busy machine may need more rounds until there is anything to give up.
	round := 0
	for ; round < rounds || !compacted() && round < 20*rounds; round++ {
		shards := []string{"1", "2", "4", "16"}[rng.IntN(4)]
		s := startKept(t, dir, append([]string{"-s", "300000", "-z", "200000", "--shards", shards}, args...)...)
		c := daemon.Client(t, s)
		if round == 0 {
			for _, e := range k.errands {
				daemon.MustAsk(t, c, "use %s\r\n", e.tube(2))
				k.high.Store(putN(t, c, 1, "put 0 0 100 6\r\nkeeper\r\n"))
			}
			k.floor = k.high.Load()
		} else if k.check(c, 500); t.Failed() {
			t.Fatalf("in round %d, with %s shards", round, shards)
		}
		var wg sync.WaitGroup
		for _, e := range k.errands {
			wg.Go(func() {
				if err := e.run(s.Address); err != errKilled {
					t.Errorf("errand %d: %v", e.n, err)
				}
			})
		}
		time.Sleep(time.Duration(20+rng.IntN(150)) * time.Millisecond)
		last = fields(daemon.MustAsk(t, c, "stats\r\n"))
		daemon.Kill(s)
		wg.Wait()
		c.Close()
	}
	s := startKept(t, dir, append([]string{"-z", "200000", "-s", "300000"}, args...)...)
	k.check(daemon.Client(t, s), 500)
	done := 0
	for _, e := range k.errands {
		done += e.done
	}
	t.Logf("%d kills, %d commands acknowledged, segments %s to %s", round, done, last["binlog-oldest-index"], last["binlog-current-index"])
	if !compacted() {
		t.Error("nothing was ever compacted: the test does not test that")
	}
}
