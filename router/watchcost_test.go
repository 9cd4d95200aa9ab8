package router_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"polystalk/router"
	"polystalk/shard/core"
)

// watchCostMax is what a watch of a tube that is there may cost in bytes,
// all in all.
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

// memory is what is in use, on the collector's heap and outside.
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

// A watcher is a client that keeps only its last answer.
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
