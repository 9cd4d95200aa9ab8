package router_test

import (
	"fmt"
	"testing"

	"polystalk/router"
	"polystalk/shard"
	"polystalk/shard/core"
)

// apartTubes returns n names of tubes in n different shards. None is in the shard of
// "default", which a client watches first.
func apartTubes(f *fixture, n int) (names []string) {
	f.t.Helper()
	if most := len(f.d.Shards()) - 1; n > most {
		f.t.Fatalf("%d tubes in as many shards besides that of default, of which there are %d", n, most)
	}
	taken := map[int]bool{f.d.ShardOf("default"): true}
	for i := 0; len(names) < n; i++ {
		name := fmt.Sprintf("tube-%d", i)
		if sh := f.d.ShardOf(name); !taken[sh] {
			taken[sh] = true
			names = append(names, name)
		}
	}
	return names
}

// TestDeathIsOneStep: a client that is woken by a job of a dying client finds all of
// its jobs released, also jobs in other shards.
func TestDeathIsOneStep(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	tubes := apartTubes(f, 2)
	holder := f.open()
	for i, name := range tubes {
		holder.says("use "+name+"\n", "USING "+name+"\n")
		holder.says("put 0 0 60 1\nx\n", fmt.Sprintf("INSERTED %d\n", i+1))
		holder.says(fmt.Sprintf("reserve-job %d\n", i+1), fmt.Sprintf("RESERVED %d 1\nx\n", i+1))
	}
	woken := 0
	var sum core.Counts
	l := f.d.NewLoop(func() {
		woken++
		sum = core.Counts{}
		b := shard.Batch{Home: stranger{}, Now: f.now}
		for _, sh := range f.d.Shards() {
			if !sh.Own(&b) {
				t.Error("delivered with a shard owned")
				return
			}
			n := sh.Counts()
			sum.Add(&n)
			sh.Release(&b)
		}
	})
	waiter := &testConn{f: f}
	waiter.s = l.Open(waiter)
	waiter.s.Input([]byte("watch " + tubes[0] + "\r\nreserve\r\n"))
	holder.s.Abort()
	if woken != 1 || sum.Ready != 1 || sum.Reserved != 1 {
		t.Errorf("woken %d times, then %d jobs ready and %d reserved, want one of each", woken, sum.Ready, sum.Reserved)
	}
	l.GoOn()
	if got := waiter.got.String(); got != "WATCHING 2\r\nRESERVED 1 1\r\nx\r\n" {
		t.Errorf("the waiting client got %q", got)
	}
}
