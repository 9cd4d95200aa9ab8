package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A fault is one disturbance of the servers, from its beginning to its end: when play returns, all
// nodes run and no connection is cut.
type fault struct {
	name  string
	nodes int // minimum of nodes
	often int // relative probability; 0: only if it is named
	// play plays the fault. It returns the affected nodes for the log.
	play func(r *run, c *cast) (what string)
}

// A cast has the nodes for a fault, drawn before it is played. In a run of one node that node is
// the leader.
type cast struct {
	leader, follower *node // follower is drawn from those that do not lead
	any              *node
	either           *node // the leader or the follower, with equal chances
	all              []*node
}

var faults = []fault{
	{"kill", 1, 6, func(r *run, c *cast) string { return r.kill(c.any) }},
	{"term", 1, 2, terminate},
	{"stop", 1, 2, func(r *run, c *cast) string { return r.stop(c.any) }},
	{"crash-loop", 1, 2, crashLoop},
	{"amnesia", 1, 0, amnesia},
	{"eio", 1, 0, failFlush},
	{"full", 1, 0, fillDisk},

	{"kill-leader", 2, 8, func(r *run, c *cast) string { return r.kill(c.leader) }},
	{"kill-follower", 2, 3, func(r *run, c *cast) string { return r.kill(c.follower) }},
	// Of three nodes this leaves no majority.
	{"kill-two", 3, 3, func(r *run, c *cast) string { return r.kill(r.shuffled(c.leader, c.follower)...) }},
	{"kill-all", 2, 1, func(r *run, c *cast) string { return r.kill(r.shuffled(c.all...)...) }},
	{"kill-next", 3, 3, killNext},
	{"stop-leader", 2, 4, func(r *run, c *cast) string { return r.stop(c.leader) }},
	{"stop-follower", 2, 2, func(r *run, c *cast) string { return r.stop(c.follower) }},
	{"absence", 3, 1, absence},
	{"transfer", 2, 4, func(r *run, c *cast) string {
		r.check(c.leader.transfer(r.ctx, c.follower))
		return c.leader.name + " to " + c.follower.name
	}},
	{"rolling", 2, 1, rolling},

	{"isolate", 2, 5, func(r *run, c *cast) string { return r.cut(c, true, true) }},
	{"one-way-out", 2, 3, func(r *run, c *cast) string { return r.cut(c, true, false) }},
	{"one-way-in", 2, 3, func(r *run, c *cast) string { return r.cut(c, false, true) }},
	{"flap", 2, 2, flap},
	{"reset", 2, 2, func(r *run, c *cast) string { r.fleet.reset(c.either); return c.either.name }},
	// The connection of two nodes is cut; both still reach the third.
	{"split", 3, 2, func(r *run, c *cast) string {
		r.fleet.cut(c.leader, c.follower)
		r.fleet.cut(c.follower, c.leader)
		return c.leader.name + " from " + c.follower.name + r.mend()
	}},

	{"wiped", 3, 2, func(r *run, c *cast) string { return r.join(c, 0) }},
	{"join-killed", 3, 2, func(r *run, c *cast) string { return r.join(c, 1+r.rng.IntN(3)) }},
	{"replaced", 3, 2, replace},
}

func faultNamed(name string) (fault, error) {
	var known []string
	for _, f := range faults {
		if f.name == name {
			return f, nil
		}
		known = append(known, f.name)
	}
	return fault{}, fmt.Errorf("there is no fault %q: there are %s", name, strings.Join(known, ", "))
}

func (r *run) shuffled(all ...*node) []*node {
	r.rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

// cast waits for a leader and draws the nodes for a fault.
func (r *run) cast() (c *cast, err error) {
	c = &cast{all: r.shuffled(r.fleet.all()...)}
	c.leader = c.all[0]
	if len(c.all) > 1 {
		err = r.await("there is no leader", func() (err error) {
			c.leader, _, err = r.fleet.leader(r.ctx)
			return err
		})
	}
	c.any, c.either = c.all[r.rng.IntN(len(c.all))], c.leader
	for _, n := range c.all {
		if n != c.leader {
			c.follower = n
		}
	}
	if c.follower != nil && r.rng.IntN(2) == 0 {
		c.either = c.follower
	}
	return c, err
}

// start starts nodes, each after a random time up to most.
func (r *run) start(most time.Duration, all ...*node) {
	for _, n := range all {
		r.wait(0, most)
		r.check(n.start())
	}
}

// kill kills nodes at once and starts each after a while.
func (r *run) kill(all ...*node) string {
	var names []string
	for _, n := range all {
		n.kill()
		names = append(names, n.name)
	}
	r.start(700*time.Millisecond, all...)
	return strings.Join(names, ", then ")
}

// stop stops a process for longer than any timeout.
func (r *run) stop(n *node) string {
	n.signal(syscall.SIGSTOP)
	sleep(r.ctx, 3*time.Second)
	n.signal(syscall.SIGCONT)
	return n.name
}

// terminate restarts a node by a graceful shutdown.
func terminate(r *run, c *cast) string {
	r.check(c.any.terminate())
	r.start(0, c.any)
	return c.any.name
}

// crashLoop kills a process repeatedly while it starts.
func crashLoop(r *run, c *cast) string {
	times := 1 + r.rng.IntN(4)
	c.any.kill()
	for range times {
		r.start(0, c.any)
		r.wait(0, 100*time.Millisecond)
		c.any.kill()
	}
	r.start(0, c.any)
	return fmt.Sprintf("%s, %d times", c.any.name, times)
}

// amnesia deletes a directory while its server is down. A single server loses everything, which
// shows that the history detects a loss.
func amnesia(r *run, c *cast) string {
	c.any.kill()
	r.check(c.any.wipe())
	r.start(0, c.any)
	return c.any.name
}

// failFlush makes one flush of the disk fail. The server must end, and must still have what it
// acknowledged. It needs strace.
func failFlush(r *run, c *cast) string {
	strace, err := exec.LookPath("strace")
	if r.check(err); err != nil {
		return ""
	}
	n, at := c.any, 5+r.rng.IntN(200)
	n.kill()
	n.wrapper = []string{strace, "-D", "-f", "-qq", "-o", os.DevNull, "-e", "trace=fdatasync", "-e", fmt.Sprintf("inject=fdatasync:error=EIO:when=%d", at)}
	r.start(0, n)
	n.wrapper = nil
	n.expect()
	what := fmt.Sprintf("%s, flush %d", n.name, at)
	select {
	case <-n.process.Ended:
	case <-r.ctx.Done():
	case <-time.After(20 * time.Second):
		what += ", which was not reached"
	}
	n.kill()
	r.start(0, n)
	return what
}

// fillDisk fills a disk for a while.
func fillDisk(r *run, c *cast) string {
	if r.fleet.disk == "" {
		r.check(fmt.Errorf("the machine's disk is not filled: give each server its own with -disk 200m"))
		return ""
	}
	r.check(c.any.fillDisk())
	r.wait(time.Second, 4*time.Second)
	r.check(c.any.freeDisk())
	return c.any.name
}

// killNext kills the leader, and soon its successor while that begins to lead.
func killNext(r *run, c *cast) string {
	c.leader.kill()
	r.start(timeout, c.leader)
	r.wait(0, 3*timeout)
	second, _, err := r.fleet.leader(r.ctx)
	if err != nil {
		second = c.any
	}
	return c.leader.name + ", then " + r.kill(second)
}

// absence keeps a follower down until the others have dropped the entries that it needs, so they
// must send it the journal. In half of the cases it kills the follower while it receives the
// journal.
func absence(r *run, c *cast) string {
	n := c.follower
	n.kill()
	sleep(r.ctx, 7*time.Second)
	r.start(0, n)
	if r.rng.IntN(2) == 0 {
		return n.name
	}
	r.wait(0, 400*time.Millisecond)
	n.kill()
	r.start(0, n)
	return n.name + ", killed again"
}

// rolling restarts each node in turn, the leader last, with the next program.
func rolling(r *run, c *cast) string {
	r.program++
	followers := slices.DeleteFunc(slices.Clone(c.all), func(n *node) bool { return n == c.leader })
	for _, n := range append(followers, c.leader) {
		r.check(n.terminate())
		n.program = r.fleet.programs[r.program%len(r.fleet.programs)]
		r.start(0, n)
		r.check(r.serves(n))
		r.check(r.complete())
	}
	return fmt.Sprintf("program %d", r.program%len(r.fleet.programs)+1)
}

// cut cuts the traffic from one node to the others, or to it, or both.
func (r *run) cut(c *cast, out, in bool) string {
	for _, o := range c.all {
		if out {
			r.fleet.cut(c.either, o)
		}
		if in {
			r.fleet.cut(o, c.either)
		}
	}
	return c.either.name + r.mend()
}

// mend ends cuts after a random time.
func (r *run) mend() string {
	r.wait(timeout, 3*time.Second)
	forget := r.rng.IntN(2) == 0
	r.fleet.mend(forget)
	return fmt.Sprintf(", forget %v", forget)
}

// flap cuts one node repeatedly.
func flap(r *run, c *cast) string {
	times := 3 + r.rng.IntN(8)
	for range times {
		for _, o := range c.all {
			r.fleet.cut(c.either, o)
			r.fleet.cut(o, c.either)
		}
		r.wait(20*time.Millisecond, timeout)
		r.fleet.mend(r.rng.IntN(2) == 0)
		r.wait(20*time.Millisecond, timeout)
	}
	return fmt.Sprintf("%s, %d times", c.either.name, times)
}

// join removes a follower and lets it join again with an empty disk. Meanwhile it kills the
// follower, or the leader that sends the journal, some times and restarts it with the same flags.
func (r *run) join(c *cast, kills int) string {
	n := c.follower
	n.kill()
	r.check(c.leader.remove(r.ctx, n))
	r.check(n.wipe())
	n.member = false
	r.start(0, n)
	var what strings.Builder
	what.WriteString(n.name)
	for range kills {
		r.wait(0, 400*time.Millisecond)
		killed := n
		if r.rng.IntN(3) == 0 {
			killed = c.leader
		}
		killed.kill()
		r.start(0, killed)
		what.WriteString(", " + killed.name + " killed")
	}
	r.check(r.complete())
	n.member = true
	return what.String()
}

// replace lets a new node join, and removes another one once the new one votes. All nodes run.
func replace(r *run, c *cast) string {
	old := c.follower
	n, err := r.fleet.add(old.program)
	if r.check(err); err != nil {
		return ""
	}
	what := fmt.Sprintf("%s by %s", old.name, n.name)
	r.start(0, n)
	r.check(r.complete())
	n.member = true
	now, err := r.cast()
	if r.check(err); err != nil || now.leader == old {
		return what + ", which leads and stays"
	}
	old.expect() // a node may end when it hears that it was removed
	r.check(now.leader.remove(r.ctx, old))
	r.check(r.fleet.drop(old))
	return what
}
