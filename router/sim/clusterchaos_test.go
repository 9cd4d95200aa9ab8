package sim

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/cryptotest"

	"polystalk/router"
	"polystalk/shard/core"
)

// TestClusterKeepsWhatWasAcknowledged runs three servers, with the clients at the leader. Any
// server stops at any operation of its disk, pauses, or is isolated; messages are lost, duplicated
// and late. After each failover the new leader has all acknowledged changes, and servers with the
// same history have the same jobs.
func TestClusterKeepsWhatWasAcknowledged(t *testing.T) {
	seen := map[string]int{}
	seeds(t, 20, func(seed uint64) error {
		cryptotest.SetGlobalRandom(t, seed) // for election timeouts
		k, err := newClusterChaos(seed, honest, seen)
		if err != nil {
			return err
		}
		return k.run(k.length)
	})
	wantSeen(t, seen, "elections", "stops", "deposed", "compared", "fetches", "done", "joined", "removed", "transfers")
}

// TestFaultyClustersAreSeen: each fault in the servers' code breaks a rule within a few seeds.
func TestFaultyClustersAreSeen(t *testing.T) {
	for name, f := range map[string]clusterFault{
		"a reply before the commit": replyEarly,
		"records that are left out": leaveOut,
		"records applied twice":     applyTwice,
		"a floor before its copies": floorFirst,
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && f == floorFirst {
				t.Skip("long")
			}
			for seed := range uint64(60) {
				if err := faulty(t, seed+1, f); err != nil {
					t.Logf("seed %d: %v", seed+1, err)
					return
				}
			}
			t.Error("no seed has shown it")
		})
	}
}

// faulty runs a cluster of faulty servers, which may also panic.
func faulty(t *testing.T, seed uint64, f clusterFault) (err error) {
	cryptotest.SetGlobalRandom(t, seed)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	k, err := newClusterChaos(seed, f, map[string]int{})
	if err == nil {
		err = k.run(k.length)
	}
	return err
}

// A clusterChaos is a chaos at the leader of a Cluster.
type clusterChaos struct {
	*chaos
	c     *Cluster
	gear  clusterGear
	lives int
	// length is the number of steps. Some runs are long, with many jobs, so that compaction
	// happens. Most are short, so that there are more of them.
	length int
}

func newClusterChaos(seed uint64, f clusterFault, seen map[string]int) (*clusterChaos, error) {
	k := &clusterChaos{c: newCluster(seed, seen), length: 300}
	k.c.fault = f
	k.gear.often, k.gear.most, k.gear.large = 5, 12, []int{1000, 1000, 10_000, 100_000}[k.c.rng.IntN(4)]
	if seed%80 == 5 || f == floorFirst {
		k.length, k.gear.often, k.gear.most, k.gear.large = 2000, 30, 40, 150_000
	}
	shards := []int{1, 2, 4}[k.c.rng.IntN(3)]
	w := newWorld(seed, 1+k.c.rng.IntN(2), router.Config{Shards: shards, MaxJobSize: 200_000, Gearman: router.GearmanConfig{Prefix: prefix}})
	w.lead = k.c.lead
	k.c.w = w
	if err := w.boot(); err != nil {
		return nil, err
	}
	k.chaos = newChaosIn(w, rand.New(rand.NewPCG(seed, 3)), seen)
	k.kept, k.tight = true, true
	w.steady = true
	return k, nil
}

func (k *clusterChaos) run(n int) error {
	defer k.close()
	for k.steps < n {
		k.steps++
		err := k.step()
		if err == nil {
			err = k.c.mischief()
		}
		if errors.Is(err, errDown) || err == nil && (k.w.Down() != nil || !k.c.serves.alive()) {
			err = k.fallOver()
		}
		if err != nil {
			return fmt.Errorf("step %d of life %d: %w", k.steps, k.lives, err)
		}
	}
	k.c.heal()
	for {
		err := k.rest()
		if err == nil {
			err = k.c.compare()
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, errDown) && k.w.Down() == nil {
			return fmt.Errorf("in the end, life %d: %w", k.lives, err)
		}
		if err := k.fallOver(); err != nil {
			return fmt.Errorf("in the end, life %d: %w", k.lives, err)
		}
		k.c.heal()
	}
}

// step is like chaos.step, but all links work while the world comes to rest.
func (k *clusterChaos) step() error {
	switch r := k.rng.IntN(100); {
	case r > k.gear.often:
		return k.chaos.step()
	case r > 0:
		return k.submit()
	}
	k.c.heal()
	err := k.rest()
	if err == nil {
		err = k.hearGear()
	}
	if err == nil && k.gear.doubts != nil {
		err = k.work()
	}
	if err == nil {
		err = k.c.compare()
	}
	k.c.calm = false
	return err
}

// fallOver disconnects the clients, and connects new ones to the next leader.
func (k *clusterChaos) fallOver() error {
	if d := k.w.Down(); d != nil && !errors.Is(d, errOver) {
		return d
	}
	if err := k.cutOff(); err != nil {
		return err
	}
	if err := k.hearGear(); err != nil {
		return err
	}
	k.gear.k, k.gear.asked = nil, nil
	if k.c.serves.alive() {
		k.c.serves.stop()
	}
	if err := k.w.reboot(); err != nil {
		return err
	}
	k.lives++
	return k.conserved()
}

func (k *clusterChaos) close() {
	if k.w.D != nil { // else no leader was elected
		k.w.Close()
	}
	for _, m := range k.c.all {
		if m.d != nil && m.d != k.w.D {
			m.d.Close()
		}
	}
}

// mischief sometimes starts a fault or an operator's request.
func (c *Cluster) mischief() error {
	m := c.anyone()
	switch c.rng.IntN(120) {
	case 9, 10:
		return c.operate(m)
	case 0:
		m.disk.CrashAt = m.disk.Ops + 1 + c.rng.IntN(200)
	case 1:
		if m.up {
			m.stop()
		}
	case 2:
		m.busy = true
	case 8:
		m.disk.Limit = m.disk.Size() + int64(c.rng.IntN(600_000))
		m.tight = true
		c.seen["full"]++
	case 7:
		if m.up && c.rng.IntN(3) == 0 {
			m.stop()
			m.away = c.rng.IntN(2000)
		}
	case 3:
		for _, o := range c.all {
			out, in := c.rng.IntN(3) > 0, c.rng.IntN(3) > 0
			c.cut[[2]uint64{m.id, o.id}] = out
			c.cut[[2]uint64{o.id, m.id}] = in
		}
	case 4, 5, 6:
		clear(c.cut)
	}
	return nil
}

// heal ends all faults.
func (c *Cluster) heal() {
	c.calm = true
	clear(c.cut)
	for _, m := range c.all {
		m.disk.CrashAt, m.disk.Limit, m.busy, m.away = 0, 0, false, 0
	}
}

// compare lets all members apply the complete history, and compares their states.
func (c *Cluster) compare() error {
	for range 200_000 {
		if c.even() {
			break
		}
		if err := c.step(); err != nil {
			return err
		}
		if !c.serves.alive() {
			return fmt.Errorf("%w: %w", errDown, errOver)
		}
	}
	if !c.even() {
		return errors.New("not everybody has met all of the history, though all is well")
	}
	leader := c.serves.member
	var first *member
	var want []uint64
	for _, m := range c.members() {
		if m == leader {
			continue
		}
		m.f.Settle()
		got := m.digests()
		if first == nil {
			first, want = m, got
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the shards of member %d have the digests %x, those of %d %x", m.id, got, first.id, want)
		}
		c.seen["compared"]++
	}
	if first == nil {
		return nil
	}
	if leader.tight {
		if got, want := leader.jobs(), first.jobs(); !maps.Equal(got, want) {
			return fmt.Errorf("member %d, which leads, has %d jobs, member %d %d, and they are not the same", leader.id, len(got), first.id, len(want))
		}
		return nil
	}
	if got := leader.digests(); !slices.Equal(got, want) {
		return fmt.Errorf("the shards of member %d, which leads, have the digests %x, those of %d %x", leader.id, got, first.id, want)
	}
	return nil
}

// jobs returns the jobs of all shards with their tubes and bodies. A leader with a full disk does not
// record that a delayed or buried job is reserved, but has the same jobs as its followers.
func (m *member) jobs() map[core.JobID]string {
	all := map[core.JobID]string{}
	for _, sh := range m.d.Shards() {
		for j := range sh.Jobs() {
			all[j.ID] = string(j.Tube) + " " + string(j.Body)
		}
	}
	return all
}

// even reports whether all members have applied the same history.
func (c *Cluster) even() bool {
	if !c.serves.alive() {
		return false
	}
	for _, m := range c.members() {
		if !m.up || m.hand.Machine().Applied() != c.serves.hand.Machine().Applied() || m.hand.Writes()+m.hand.Applies() > 0 {
			return false
		}
	}
	return c.serves.hand.Leads() != 0 && !c.serves.isWaiting()
}
