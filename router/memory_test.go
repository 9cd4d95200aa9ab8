package router_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/routertest"
	"polystalk/shard/core"
)

// footprintMost bounds the bytes of an idle beanstalkd connection, with its data in the loop and in
// shards, without its socket (package reactor).
const footprintMost = 1000

// A nullConn is a connection with almost no memory.
type nullConn struct{ _ byte }

func (*nullConn) Write([]byte)         {}
func (*nullConn) WriteStable([][]byte) {}
func (*nullConn) Unsent() int          { return 0 }
func (*nullConn) Close()               {}
func (*nullConn) Drop()                {}
func (*nullConn) Pause() bool          { return true }
func (*nullConn) Resume() bool         { return true }

// TestFootprintOfAnIdleConnection measures the average memory of many connections.
func TestFootprintOfAnIdleConnection(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 20_000
	kept := make([]*routertest.Session, n)
	before := heap()
	for i := range kept {
		s := f.l.Loop.Open(f.d.Server.Fronts()[0], new(nullConn))
		kept[i] = &routertest.Session{Session: s}
		// It has put and deleted a job, as most clients have.
		f.l.Loop.Input(s, fmt.Appendf(nil, "put 0 0 60 1\r\nx\r\ndelete %d\r\n", i+1))
	}
	f.rest()
	own := unsafe.Sizeof(*kept[0]) + unsafe.Sizeof(uintptr(0)) // memory of the test for each connection
	each := (heap()-before)/n - uint64(own)
	t.Logf("%d bytes a connection", each)
	if each > footprintMost {
		t.Errorf("%d bytes a connection, want at most %d", each, footprintMost)
	}
	runtime.KeepAlive(kept)
}

// watchCostMax bounds the memory of watching an existing tube, in bytes.
const watchCostMax = 64

func TestWatchCost(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, tt := range []struct{ conns, tubes int }{{1, 100_000}, {200, 500}, {10, 20_000}} {
		f := newFixture(t, router.Config{Shards: 2})
		first := newWatcher(f)
		first.watch(tt.tubes, "watch")
		var others []*watcher
		for range tt.conns {
			others = append(others, newWatcher(f))
		}
		before := f.memory()
		for _, w := range others {
			w.watch(tt.tubes, "watch")
		}
		each := float64(f.memory()-before) / float64(tt.conns*tt.tubes)
		t.Logf("%d connections, %d tubes: %.1f bytes a watch", tt.conns, tt.tubes, each)
		if each > watchCostMax {
			t.Errorf("%d connections, %d tubes: %.1f bytes a watch, want at most %d", tt.conns, tt.tubes, each, watchCostMax)
		}
		for _, w := range others {
			w.watch(tt.tubes, "ignore")
		}
		left := float64(f.memory()-before) / float64(tt.conns*tt.tubes)
		t.Logf("… %.1f bytes when all are ignored", left)
		if left > watchCostMax/4 {
			t.Errorf("%d connections, %d tubes: %.1f bytes of a watch are left when all are ignored", tt.conns, tt.tubes, left)
		}
		f.check()
		runtime.KeepAlive(others)
	}
}

// memory returns the bytes in use, on the Go heap and outside.
func (f *fixture) memory() int64 {
	f.t.Helper()
	f.rest()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	all := int64(m.HeapAlloc)
	for _, sh := range f.d.Shards() {
		op, r, n := core.Op{Kind: core.OpStats}, core.Reply{}, core.Counts{}
		op.Counts = &n
		if !sh.Own(&f.other) {
			f.t.Fatal("a shard is owned")
		}
		sh.Apply(&f.other, &op, &r)
		sh.Release(&f.other)
		all += int64(n.MappedBytes)
	}
	return all
}

// A watcher is a client that keeps only its last reply.
type watcher struct {
	*testConn
	line []byte
}

func newWatcher(f *fixture) *watcher { return &watcher{testConn: f.open()} }

// watch watches, or ignores, tubes 0 to n.
func (w *watcher) watch(n int, verb string) {
	for i := range n {
		w.line = fmt.Appendf(w.line[:0], "%s some.tube.%d\r\n", verb, i)
		w.got.Reset()
		w.s.Input(w.line)
	}
	if !bytes.HasPrefix(w.got.Bytes(), []byte("WATCHING ")) {
		w.f.t.Fatalf("%s: %q", verb, w.got.Bytes())
	}
}

func BenchmarkWatchIgnore(b *testing.B) {
	for _, n := range []int{4, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := newFixture(b, router.Config{Shards: 8})
			w := newWatcher(f)
			w.watch(n, "watch")
			watch, ignore := []byte("watch other\r\n"), []byte("ignore other\r\n")
			b.ReportAllocs()
			for b.Loop() {
				w.got.Reset()
				w.s.Input(watch)
				w.s.Input(ignore)
			}
		})
	}
}

func BenchmarkWatchAndReserve(b *testing.B) {
	for _, n := range []int{4, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := newFixture(b, router.Config{Shards: 8})
			w := newWatcher(f)
			w.watch(n, "watch")
			put := []byte("use some.tube.1\r\nput 0 0 60 1\r\nx\r\nreserve\r\n")
			w.s.Input(put[:len("use some.tube.1\r\n")])
			put = put[len("use some.tube.1\r\n"):]
			b.ReportAllocs()
			id := 0
			for b.Loop() {
				id++
				w.got.Reset()
				w.s.Input(put)
				w.line = fmt.Appendf(w.line[:0], "delete %d\r\n", id)
				w.s.Input(w.line)
			}
		})
	}
}

// TestNamesAreForgotten: functions that clients have only named exist, as in gearmand. After an
// hour they are removed from every list, with their memory.
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

// TestDeletedBodiesAreGivenBack: each deleted large body counts, in both protocols, and nothing else.
func TestDeletedBodiesAreGivenBack(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 2, MaxJobSize: 1 << 20})
	c := f.open()
	c.says("put 0 0 60 200000\n"+strings.Repeat("x", 200_000)+"\nput 0 0 60 1000\n"+strings.Repeat("x", 1000)+"\n",
		"INSERTED 1\nINSERTED 2\n")
	c.says("delete 2\n", "DELETED\n")
	if n := f.d.Server.FreedBytes(); n != 0 {
		t.Errorf("%d bytes are counted of bodies that are small or there", n)
	}
	c.says("delete 1\n", "DELETED\n")
	if n := f.d.Server.FreedBytes(); n < 200_000 || n > 300_000 {
		t.Errorf("%d bytes are counted of a body of 200,000 that was deleted", n)
	}
}
