package router_test

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"polystalk/router"
	"polystalk/router/routertest"
)

// footprintMost bytes of ours at most are taken by a connection that speaks beanstalkd's
// protocol and is idle, what its loop and the shards know of it included, and without its
// socket (package reactor).
const footprintMost = 1000

// A nullConn is a connection that takes next to nothing.
type nullConn struct{ _ byte }

func (*nullConn) Write([]byte)         {}
func (*nullConn) WriteStable([][]byte) {}
func (*nullConn) Unsent() int          { return 0 }
func (*nullConn) Close()               {}
func (*nullConn) Drop()                {}
func (*nullConn) Pause() bool          { return true }
func (*nullConn) Resume() bool         { return true }

// TestFootprintOfAnIdleConnection measures it, over many.
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
		// It has put a job and deleted it, as most have.
		f.l.Loop.Input(s, fmt.Appendf(nil, "put 0 0 60 1\r\nx\r\ndelete %d\r\n", i+1))
	}
	f.rest()
	own := unsafe.Sizeof(*kept[0]) + unsafe.Sizeof(uintptr(0)) // of this test, for each
	each := (heap()-before)/n - uint64(own)
	t.Logf("%d bytes a connection", each)
	if each > footprintMost {
		t.Errorf("%d bytes a connection, want at most %d", each, footprintMost)
	}
	runtime.KeepAlive(kept)
}
