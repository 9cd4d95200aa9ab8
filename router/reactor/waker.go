package reactor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A waker makes a loop's poller call GoOn. It is one end of a pair of sockets; the other end is
// one of the loop's connections, and a byte makes it readable. So the call is handled like any
// ready socket, and every other socket has its turn between two calls.
//
// gnet's EventLoop.Execute has no such fairness: the poller runs all its tasks, also new ones,
// before it polls sockets again, so two loops with tasks for each other would never poll.
type waker struct {
	loop  *eventLoop    // set by Reactor.addLoop, before wake may be called
	turns atomic.Uint64 // number of calls of woken

	mu sync.Mutex // held to use fd
	fd int        // -1: closed
}

// wakeAgain is the delay before a failed wake-up is retried.
const wakeAgain = time.Millisecond

var oneByte = []byte{0}

// startWakers makes an eventLoop with a waker for each of gnet's loops. gnet gives a connection to
// the loop with the fewest, so each loop gets one waker.
func (r *Reactor) startWakers() error {
	for range r.opts.Loops {
		if err := r.startWaker(); err != nil {
			return err
		}
	}
	if r.unknown != nil {
		return r.unknown
	}
	if len(r.loops) != r.opts.Loops {
		return errors.New("a loop has no waker")
	}
	return nil
}

func (r *Reactor) startWaker() error {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(p[0])
	unix.CloseOnExec(p[1])
	w := &waker{fd: p[1]}
	r.wakers = append(r.wakers, w)
	f := os.NewFile(uintptr(p[0]), "waker")
	defer f.Close()
	if err := unix.SetNonblock(w.fd, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	nc, err := net.FileConn(f)
	if err != nil {
		return err
	}
	_, err = r.client.EnrollContext(nc, w)
	return err
}

// wake makes the poller call woken. Any goroutine may call it. wakeUp.underWay of session.Loop
// ensures that the pair has at most one byte.
func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.fd >= 0 {
		switch _, err := unix.Write(w.fd, oneByte); err {
		case nil:
			return
		case unix.EINTR:
		default:
			// The kernel had no memory for the byte. Without a retry nothing would wake the
			// loop any more.
			w.loop.WakeFailed(wakeAgain)
			return
		}
	}
}

// woken is called by the event loop.
func (w *waker) woken() {
	w.loop.Enter()
	w.loop.GoOn(true)
	w.loop.Exit()
	w.loop.work()
	w.turns.Add(1)
}

// stopWakers closes the wakers, after the event loops have ended.
func (r *Reactor) stopWakers() {
	for _, w := range r.wakers {
		w.mu.Lock()
		unix.Close(w.fd)
		w.fd = -1
		w.mu.Unlock()
	}
}

// aliveEvery is the time between two checks of the loops' turns.
const aliveEvery = time.Millisecond

// Alive waits until the poller of every event loop has called its waker. The error names the loops
// that did not before ctx ended. Any goroutine may call it once Start has returned.
func (r *Reactor) Alive(ctx context.Context) error {
	before := make([]uint64, len(r.wakers))
	for i, w := range r.wakers {
		before[i] = w.turns.Load()
	}
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		var late []int
		for i, w := range r.wakers {
			if w.turns.Load() == before[i] {
				late = append(late, w.loop.Index)
				w.loop.Ask() // again: a helper, not the poller, may have taken the last one
			}
		}
		if late == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the event loops %v do not respond", late)
		case <-tick.C:
		}
	}
}

// pollerOf returns the descriptor of the poller (epoll, kqueue) of el, a gnet.EventLoop. gnet has no
// method for this, so pollerOf finds the fields by name. If a version of gnet has other fields, the
// server does not start.
func pollerOf(el any) (int, error) {
	if v := reflect.ValueOf(el); v.Kind() == reflect.Pointer {
		if p := v.Elem().FieldByName("poller"); p.Kind() == reflect.Pointer {
			if fd := p.Elem().FieldByName("fd"); fd.Kind() == reflect.Int {
				return int(fd.Int()), nil
			}
		}
	}
	return 0, fmt.Errorf("unknown type of gnet event loop: %T", el)
}
