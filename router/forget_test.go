package router_test

import (
	"fmt"
	"runtime"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// TestNamesAreForgotten: functions that clients have only named are there as gearmand's
// are, and gone from every list, with their memory, after an hour.
func TestNamesAreForgotten(t *testing.T) {
	f := newGearFixture(t)
	c, b := f.openGear(), f.open()
	heap := func() int64 {
		var m runtime.MemStats
		for range 2 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	const names = 20_000
	for i := range names {
		name := fmt.Sprintf("function %d", i)
		c.send(packet(gearman.CanDo, name) + packet(gearman.CantDo, name))
	}
	c.asks("create function kept\n", "OK\r\n")
	f.rest()
	full := heap()
	if got := f.d.Server.Host().Map.Tubes().Len(); got != names+2 {
		t.Errorf("%d tubes, want %d", got, names+2)
	}
	f.pass(3599 * core.Second)
	if got := f.d.Server.Host().Map.Tubes().Len(); got != names+2 {
		t.Errorf("%d tubes an hour later, want %d", got, names+2)
	}
	f.pass(core.Second)
	f.check()
	b.send("list-tubes\r\n")
	if got := b.take(); got != "OK 21\r\n---\n- default\n- kept\n\r\n" {
		t.Errorf("list-tubes: %q", got)
	}
	c.asks("status\n", "kept\t0\t0\t0\n.\n")
	after := heap()
	t.Logf("%d bytes a name, %d left", (full-before)/names, (after-before)/names)
	if after-before > (full-before)/15 {
		t.Errorf("%d bytes of the heap before, %d with all names, %d after", before, full, after)
	}
}
