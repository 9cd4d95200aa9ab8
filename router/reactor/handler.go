package reactor

import (
	"errors"
	"io"
	"runtime"

	"github.com/panjf2000/gnet/v2"

	"polystalk/router/session"
)

// gnet calls these methods in its event loops. The context of a gnet connection is a *socket,
// a *waker, or on Linux an *acceptor.

// OnOpen implements gnet.EventHandler.
func (r *Reactor) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	l := r.loops[c.EventLoop()]
	if c.Context() == nil {
		c.SetContext(l.adopting)
	}
	k, ok := c.Context().(*socket)
	if !ok {
		if w, ok := c.Context().(*waker); ok {
			r.addLoop(c.EventLoop(), w)
		}
		return nil, gnet.None
	}
	l.Enter()
	defer l.Exit()
	k.c, k.fd, k.loop = c, c.Fd(), l
	l.opened()
	k.inCallback = true
	k.s = l.Open(k.front, k)
	if k.tls != nil && k.stage == serving {
		k.decrypt(nil) // the client may have sent commands behind its last message of the handshake
	}
	k.inCallback = false
	return nil, k.action()
}

// addLoop makes our event loop for el, one of gnet's.
func (r *Reactor) addLoop(el gnet.EventLoop, w *waker) {
	l, err := newEventLoop(el, session.NewLoop(r.host, w.wake))
	w.loop = l
	if err != nil {
		r.unknown = err
		return
	}
	l.BeHelped(l.hasTasks)
	r.loops[el] = l
}

// OnTraffic implements gnet.EventHandler.
func (r *Reactor) OnTraffic(c gnet.Conn) gnet.Action {
	b, err := c.Next(-1)
	if err != nil || len(b) == 0 {
		return gnet.None
	}
	k, ok := c.Context().(*socket)
	if !ok {
		switch k := c.Context().(type) {
		case *waker:
			k.woken()
		case *acceptor:
			k.accept()
		}
		return gnet.None
	}
	l := k.loop
	l.Enter()
	k.inCallback = true
	if k.tls != nil {
		k.decrypt(b)
	} else {
		l.Input(k.s, b)
	}
	k.inCallback = false
	action := k.action()
	now := l.Batch().Now
	l.Exit()
	if r.yields && l.MustYield(now) {
		runtime.Gosched()
	}
	return action
}

// OnClose implements gnet.EventHandler: the client has closed its sending side, or the
// connection is broken, or the session has closed it. The descriptor is still valid.
func (r *Reactor) OnClose(c gnet.Conn, err error) gnet.Action {
	k, ok := c.Context().(*socket)
	if !ok {
		return gnet.None
	}
	k.loop.Enter()
	defer k.loop.Exit()
	k.inCallback = true
	switch {
	case k.isClosed():
	case errors.Is(err, io.EOF) && !k.isBroken():
		k.loop.Event(k.s, (*session.Session).HalfClose)
	default:
		k.breakOff()
		k.loop.Event(k.s, (*session.Session).Abort)
	}
	k.inCallback = false
	k.detach()
	return gnet.None
}

// action returns the result of a callback for gnet.
func (k *socket) action() gnet.Action {
	if k.stage != serving {
		return gnet.Close
	}
	return gnet.None
}
