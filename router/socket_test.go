package router

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// parkedSocket is a connection that gnet does not have at the moment, and the
// client's end of it.
func parkedSocket(t *testing.T) (k *socket, client int) {
	t.Helper()
	srv, err := newServer(Config{Shards: 1}, newClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.shards[0].Close() })
	n := newNetwork(srv)
	n.open.Add(1)
	k = &socket{net: n, loop: newLoop(srv, func() {}), fd: -1, parked: true}
	k.s = k.loop.open(k, false)
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(ends[0], true); err != nil {
		t.Fatal(err)
	}
	k.addLane(os.NewFile(uintptr(ends[0]), "connection"), nil, false, true)
	return k, ends[1]
}

// awaitNothing waits until neither connections nor lanes are counted.
func awaitNothing(t *testing.T, n *network) {
	t.Helper()
	eventually(t, func() bool { return n.open.Load() == 0 && n.lanes.Load() == 0 })
	if open, lanes := n.open.Load(), n.lanes.Load(); open != 0 || lanes != 0 {
		t.Errorf("%d connections and %d lanes are counted", open, lanes)
	}
}

// TestPausedConnectionWhoseLaneFailed: its session may write, look for its
// client and want input before it hears of the failure.
func TestPausedConnectionWhoseLaneFailed(t *testing.T) {
	k, client := parkedSocket(t)
	unix.Close(client)
	k.Write([]byte("x"))
	eventually(t, func() bool { return k.net.lanes.Load() == 0 })
	k.Write([]byte("y"))
	k.lane.hungUp()
	if k.Unsent() != 0 || k.Resume() {
		t.Errorf("%d bytes unsent, or a dead connection is read again", k.Unsent())
	}
	k.loop.drain(true) // brings the abort
	if k.s.phase != phaseGone || k.net.open.Load() != 0 {
		t.Errorf("phase %d, %d connections counted", k.s.phase, k.net.open.Load())
	}
}

// TestConnectionNotTakenBack: gnet does not take a connection back, before or
// after its session has closed it.
func TestConnectionNotTakenBack(t *testing.T) {
	for _, closed := range []bool{false, true} {
		k, client := parkedSocket(t)
		k.parked, k.opening = false, true // Resume was called
		if closed {
			k.loop.event(k.s, (*session).close)
		}
		k.loop.event(k.s, func(*session) { k.enrolled(errors.New("out of descriptors")) })
		awaitNothing(t, k.net)
		if k.s.phase != phaseGone {
			t.Errorf("closed before %v: phase %d", closed, k.s.phase)
		}
		unix.Close(client)
	}
}

// TestOneWatchOfAPausedConnection: pausing again and again starts no second
// series of looks for the client.
func TestOneWatchOfAPausedConnection(t *testing.T) {
	k, client := parkedSocket(t)
	defer unix.Close(client)
	for range 20 {
		k.watchHangUp()
	}
	looks := 0
	eventually(t, func() bool {
		list := k.loop.signals.take()
		looks += len(list)
		return len(list) > 0
	})
	if looks != 1 {
		t.Errorf("%d looks at once", looks)
	}
	k.Drop()
	awaitNothing(t, k.net)
}

// eventually waits for what other goroutines are about to bring about.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("it does not come about")
}
