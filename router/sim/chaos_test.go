package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/router"
	"polystalk/shard/core"
)

// TestChaosKeepsEveryJobInOnePlace lets clients pipeline, overlap and disappear, and checks the
// rules that hold in any order: no job is lost or duplicated, each command gets one reply of its
// kind, no client waits for an available job, and all counts are right.
func TestChaosKeepsEveryJobInOnePlace(t *testing.T) {
	seen := map[string]int{}
	seeds(t, 150, func(seed uint64) error {
		c := newChaos(seed, router.Config{}, seen)
		err := c.run(1500)
		seen["paused"] += c.w.Pauses
		return err
	})
	wantSeen(t, seen, "paused")
}

type chaos struct {
	generator
	w     *world
	live  []*chaosConn // sockets that may still get replies
	dead  []*chaosConn // closed before all replies arrived
	steps int
	flood bool // one client sends more than the work of a turn
	kept  bool // there is a journal: replies wait for commits
	tight bool // a disk may be full
	seen  map[string]int

	inserted map[uint64]string     // acknowledged jobs: their bodies
	deleted  map[uint64]bool       // acknowledged deletions
	bodies   map[string]uint64     // every body sent, with its job's id if known
	alike    map[string]bool       // jobs that may have copies
	given    func(id uint64) error // if not nil, also checks each reservation
	access   *accessJudge          // nil: there is no access file
}

// A chaosConn is a client that records its commands.
type chaosConn struct {
	k     *sock
	asked []question
	told  map[uint64]bool // ids that were reserved for it
	quit  bool
	holder
}

// newChaos makes a world with chaosConns.
func newChaos(seed uint64, cfg router.Config, seen map[string]int) *chaos {
	rng := rand.New(rand.NewPCG(seed, 3))
	cfg.Shards, cfg.MaxJobSize = []int{1, 2, 4, 16}[rng.IntN(4)], 200_000
	w, err := New(seed, 1+rng.IntN(3), cfg)
	if err != nil {
		panic(err)
	}
	return newChaosIn(w, rng, seen)
}

func newChaosIn(w *world, rng *rand.Rand, seen map[string]int) *chaos {
	c := &chaos{
		w: w, generator: generator{rng: rng, names: []string{"default"}}, seen: seen,
		inserted: map[uint64]string{}, deleted: map[uint64]bool{}, bodies: map[string]uint64{}, alike: map[string]bool{},
	}
	if rng.IntN(2) == 0 {
		// Then a few commands behind a waiting reserve exceed the limit.
		w.D.HoldAtMost(1000 + rng.IntN(2000)) // above four lines, or half a line is never resumed
	}
	n := rng.IntN(6)
	if rng.IntN(10) == 0 {
		n = 25
	}
	for i := range n {
		c.names = append(c.names, fmt.Sprintf("tube-%d", i))
	}
	c.flood = rng.IntN(20) == 0
	return c
}

func (c *chaos) run(n int) error {
	defer c.w.Close()
	return c.play(n, c.step, c.rest, func() {})
}

// play runs n steps, lets all clients leave, and checks that only jobs are left.
func (c *chaos) play(n int, step, rest func() error, leave func()) error {
	for c.steps < n {
		c.steps++
		if err := step(); err != nil {
			return fmt.Errorf("step %d, %d shards: %w", c.steps, len(c.w.D.Shards()), err)
		}
	}
	if err := rest(); err != nil {
		return fmt.Errorf("at rest after %d steps, %d shards: %w", n, len(c.w.D.Shards()), err)
	}
	for _, cn := range c.live {
		c.vanish(cn)
	}
	leave()
	if err := rest(); err != nil {
		return fmt.Errorf("after all have left: %w", err)
	}
	return empty(c.w)
}

func (c *chaos) step() error {
	switch r := c.rng.IntN(100); {
	case r < 62:
		c.w.late()
	case r < 88:
		c.ask()
	case r < 90:
		// At any time, during any operation.
		if cn := c.any(); cn != nil && c.rng.IntN(3) == 0 {
			c.vanish(cn)
		}
	case r < 92:
		if len(c.live) < 6 {
			cn := &chaosConn{k: c.w.Open(), told: map[uint64]bool{}}
			c.live = append(c.live, cn)
			if c.access != nil {
				c.access.open(cn)
			}
			for i := 10; i < len(c.names); i++ {
				// Long lists change from scanning to an index.
				q := question{line: "watch " + c.names[i]}
				cn.asked = append(cn.asked, q)
				cn.k.Send([]byte(q.line + "\r\n"))
			}
		}
	case r < 99:
		// Time passes, and timers are late.
		c.w.jump(time.Duration(c.rng.IntN(700)) * time.Millisecond)
	default:
		return c.rest()
	}
	for _, cn := range c.live {
		if err := c.read(cn); err != nil {
			return err
		}
	}
	return nil
}

func (c *chaos) any() *chaosConn {
	if len(c.live) == 0 {
		return nil
	}
	return c.live[c.rng.IntN(len(c.live))]
}

// vanish ends a client in one of several ways.
func (c *chaos) vanish(cn *chaosConn) {
	if c.rng.IntN(2) == 0 {
		cn.k.halfClose()
		return
	}
	cn.k.Abort()
}

// ask sends one to four commands at once.
func (c *chaos) ask() {
	cn := c.any()
	if cn == nil || cn.quit || cn.k.shut || cn.k.broken {
		return
	}
	n := 1 + c.rng.IntN(4)
	if c.flood && c.steps > 300 {
		// More than the work of a turn, and more jobs than one visit moves.
		c.flood = false
		n = 6000
	}
	flood := n > 4
	for i := range n {
		q := c.command(len(words), c.id(cn))
		if flood {
			q = c.flooding(i)
		}
		if c.access != nil {
			c.access.asks(cn, &q)
		}
		cn.asked = append(cn.asked, q)
		if q.line == "quit" {
			cn.quit = true
		}
		if strings.HasPrefix(q.line, "put") {
			c.bodies[q.body] = 0
		}
		cn.k.Send(q.bytes())
		if cn.quit {
			return
		}
	}
	if c.rng.IntN(60) == 0 {
		// The beginning of a body that is never completed.
		cn.k.Send([]byte("put 0 0 10 100000\r\nhalf a body"))
		cn.quit = true
		c.vanish(cn)
	}
}

// flooding puts many delayed jobs, kicks them at once, and reserves them.
func (c *chaos) flooding(i int) question {
	switch {
	case i < 2500:
		c.puts++
		body := fmt.Sprintf("job-%d ", c.puts)
		return question{line: fmt.Sprintf("put 5 9 2 %d", len(body)), body: body}
	case i == 2500:
		return question{line: "kick 3000"}
	case i < 4600:
		return question{line: "reserve-with-timeout 0"}
	}
	return question{line: "list-tube-used"}
}

// id returns an id, often one of cn's jobs.
func (c *chaos) id(cn *chaosConn) uint64 {
	if len(cn.told) > 0 && c.rng.IntN(3) > 0 {
		least := ^uint64(0) // the order of a map does not depend on the seed
		for id := range cn.told {
			if !c.deleted[id] {
				least = min(least, id)
			}
		}
		if least != ^uint64(0) {
			return least
		}
	}
	return uint64(c.rng.IntN(c.puts + 2))
}

// read takes the replies of cn, and checks each.
func (c *chaos) read(cn *chaosConn) error {
	for len(cn.k.Got) > 0 {
		head, rest, ok := bytes.Cut(cn.k.Got, []byte("\r\n"))
		if !ok {
			return fmt.Errorf("half a line: %q", cn.k.Got)
		}
		words := strings.Fields(string(head))
		var body []byte
		switch words[0] {
		case "RESERVED", "FOUND", "OK":
			size, err := strconv.Atoi(words[len(words)-1])
			if (c.kept || c.access != nil) && err == nil && len(rest) < size+2 {
				return nil // the rest comes later, unless the session is killed
			}
			if err != nil || len(rest) < size+2 || string(rest[size:size+2]) != "\r\n" {
				if cn.k.congested || cn.k.Ended {
					return fmt.Errorf("a reply is cut off: %q", head)
				}
				return fmt.Errorf("bad frame: %q, %d bytes follow", head, len(rest))
			}
			body, rest = rest[:size], rest[size+2:]
		}
		if len(cn.asked) == 0 {
			return fmt.Errorf("%q, and nothing was asked", head)
		}
		q := cn.asked[0]
		cn.asked = cn.asked[1:]
		if err := c.judge(cn, q, words, string(body)); err != nil {
			return fmt.Errorf("%q answered with %q: %w", q.line, head, err)
		}
		cn.k.Got = rest
	}
	return nil
}

// replies has the possible first words of the replies to a command.
var replies = map[string]string{
	"put": "INSERTED", "reserve": "RESERVED TIMED_OUT DEADLINE_SOON", "reserve-with-timeout": "RESERVED TIMED_OUT DEADLINE_SOON",
	"reserve-job": "RESERVED NOT_FOUND", "delete": "DELETED NOT_FOUND", "release": "RELEASED NOT_FOUND",
	"bury": "BURIED NOT_FOUND", "touch": "TOUCHED NOT_FOUND", "kick": "KICKED", "kick-job": "KICKED NOT_FOUND",
	"peek": "FOUND NOT_FOUND", "peek-ready": "FOUND NOT_FOUND", "peek-delayed": "FOUND NOT_FOUND", "peek-buried": "FOUND NOT_FOUND",
	"pause-tube": "PAUSED NOT_FOUND", "stats-job": "OK NOT_FOUND", "stats-tube": "OK NOT_FOUND", "stats": "OK",
	"list-tubes": "OK", "list-tubes-watched": "OK", "list-tube-used": "USING", "use": "USING",
	"watch": "WATCHING", "ignore": "WATCHING NOT_IGNORED", "nonsense": "UNKNOWN_COMMAND", "long": "BAD_FORMAT",
}

func (c *chaos) judge(cn *chaosConn, q question, words []string, body string) error {
	asked := strings.Fields(q.line)
	if c.access != nil {
		if denied, err := c.access.judge(cn, q, asked, words, body); denied || err != nil {
			return err
		}
	}
	if c.tight && words[0] == "OUT_OF_MEMORY" {
		c.seen["no room"]++
		return nil
	}
	if !strings.Contains(" "+replies[asked[0]]+" ", " "+words[0]+" ") {
		return errors.New("no such reply")
	}
	if words[0] == "TIMED_OUT" && asked[0] == "reserve" && !cn.k.shut {
		return errors.New("nobody gave up")
	}
	number := func(i int, from []string) uint64 { n, _ := strconv.ParseUint(from[i], 10, 64); return n }
	switch words[0] {
	case "INSERTED":
		id := number(1, words)
		if b, twice := c.inserted[id]; twice {
			return fmt.Errorf("the id is that of %q", b)
		}
		if was := c.bodies[q.body]; was != 0 && was != id && !c.alike[q.body] {
			return fmt.Errorf("the job was known as %d", was)
		}
		c.inserted[id], c.bodies[q.body] = q.body, id
	case "RESERVED", "FOUND":
		id := number(1, words)
		if err := c.meet(body, id); err != nil {
			return err
		}
		if words[0] == "RESERVED" {
			cn.told[id] = true
			if c.given != nil {
				if err := c.given(id); err != nil {
					return err
				}
			}
		}
		if asked[0] == "reserve-job" && id != number(1, asked) {
			return errors.New("another job")
		}
	case "DELETED":
		id := number(1, asked)
		if c.deleted[id] {
			return errors.New("deleted twice")
		}
		c.deleted[id] = true
	}
	return nil
}

// sharedBody begins bodies that several jobs may have.
const sharedBody = "shared "

// meet records that job id was seen with that body.
func (c *chaos) meet(body string, id uint64) error {
	was, sent := c.bodies[body]
	if !sent || was != 0 && was != id && !strings.HasPrefix(body, sharedBody) && !c.alike[body] {
		return fmt.Errorf("body %.20q belongs to job %d", body, was)
	}
	c.bodies[body] = id
	return nil
}

// rest brings the world to rest and checks the rules for that state.
func (c *chaos) rest() error {
	if err := c.w.rest(); err != nil {
		return err
	}
	if err := c.settle(); err != nil {
		return err
	}
	if err := c.w.Check(); err != nil {
		return err
	}
	return c.conserved()
}

// cutOff reads all output of the clients, and breaks all connections.
func (c *chaos) cutOff() error {
	for _, cn := range c.live {
		if err := c.read(cn); err != nil {
			return err
		}
	}
	c.dead, c.live = append(c.dead, c.live...), nil
	return nil
}

// settle checks, at rest, that every client has its replies.
func (c *chaos) settle() error {
	kept := c.live[:0]
	for _, cn := range c.live {
		if err := c.read(cn); err != nil {
			return err
		}
		switch {
		case cn.k.broken:
			c.dead = append(c.dead, cn)
			continue
		case cn.k.Ended && c.access != nil && (len(cn.asked) > 0 || !cn.quit && !cn.k.shut):
			if err := c.access.closed(cn); err != nil {
				return err
			}
			c.dead = append(c.dead, cn)
			continue
		case cn.k.Ended:
			if n := len(cn.asked); n > 0 && !(n == 1 && cn.asked[0].line == "quit") {
				return fmt.Errorf("closed with %d commands unanswered, the first %q", n, cn.asked[0].line)
			}
			continue
		case cn.k.waiting():
			if len(cn.asked) == 0 || !strings.HasPrefix(cn.asked[0].line, "reserve") {
				return errors.New("a client waits without a reserve")
			}
		case len(cn.asked) > 0:
			return fmt.Errorf("%q is not answered", cn.asked[0].line)
		}
		kept = append(kept, cn)
	}
	c.live = kept
	return nil
}

// conserved checks that the existing jobs are the acknowledged ones without the deleted ones.
// Commands without replies may or may not have had an effect.
func (c *chaos) conserved() error {
	there := c.w.jobs()
	maybePut, maybeGone := make(map[string]bool), make(map[uint64]bool)
	for _, cn := range c.dead {
		for _, q := range cn.asked {
			switch words := strings.Fields(q.line); words[0] {
			case "put":
				maybePut[q.body] = true
			case "delete":
				id, _ := strconv.ParseUint(words[1], 10, 64)
				maybeGone[id] = true
			}
		}
	}
	for id, body := range c.inserted {
		j, ok := there[id]
		switch {
		case ok && c.deleted[id]:
			return fmt.Errorf("job %d exists and was deleted", id)
		case !ok && !c.deleted[id] && !maybeGone[id]:
			return fmt.Errorf("job %d is lost", id)
		case ok && string(j.Body) != body:
			return fmt.Errorf("job %d was %.20q and is %.20q", id, body, j.Body)
		}
	}
	for id, j := range there {
		if _, ok := c.inserted[id]; !ok && !maybePut[string(j.Body)] {
			return fmt.Errorf("job %d was never put: %.20q", id, j.Body)
		}
		if j.State == core.Reserved && !c.knows(id) {
			return fmt.Errorf("job %d is reserved for a client without a reply", id)
		}
	}
	return nil
}

// knows reports whether a client was given a job.
func (c *chaos) knows(id uint64) bool {
	return slices.ContainsFunc(c.live, func(cn *chaosConn) bool { return cn.told[id] })
}
