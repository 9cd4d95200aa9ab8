package bench

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// connect sends what a web request sends that leaves a job behind. Each client connects, sends use
// and, after the answer, put; it closes after the answer, and connects again. All of that is one
// operation; its latency is from before connect to INSERTED.
//
// One goroutine serves all clients with system calls: a load that costs more than the server would
// measure itself. A client closes without quit, as a PHP process does, so the port in TIME_WAIT is
// the client's.
type connect struct {
	*env
	addr   *unix.SockaddrInet4
	spread bool   // the server listens on the loopback
	round  uint32 // counts connections
	c      *Conn  // parses and writes for all clients; it has no connection
	tube   string
	visits []visit
	polls  []unix.PollFd
	in     []byte
}

// A visit is one client between connect and close.
type visit struct {
	fd    int // -1: none
	begun int64
	put   bool // use was answered
}

func setupConnect(_ context.Context, e *env) (runner, error) {
	tcp, err := net.ResolveTCPAddr("tcp4", e.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	n := e.Load.Conns
	w := &connect{env: e, addr: &unix.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(tcp.IP.To4())}, spread: tcp.IP.IsLoopback(),
		c: &Conn{body: newBody(e.Load.Body), constant: e.Constant}, tube: e.tubeName("connect", 0),
		visits: make([]visit, n), polls: make([]unix.PollFd, n), in: make([]byte, maxLine+2)}
	return w.run, nil
}

func (w *connect) run(ph *phase) error {
	l, err := ph.lane(0, 1, false)
	if err != nil {
		return err
	}
	defer l.end()
	for i := range w.visits {
		w.visits[i].fd = -1
	}
	defer func() {
		for _, v := range w.visits {
			unix.Close(v.fd) // fails without a visit
		}
	}()
	for begun := int64(0); ; {
		open := 0
		for i := range w.visits {
			v := &w.visits[i]
			if v.fd < 0 && l.more() && (l.budget == 0 || begun < l.budget) && ph.ctx.Err() == nil {
				if err := w.open(v); err != nil {
					return fmt.Errorf("connect: %w", err)
				}
				begun++
			}
			if v.fd >= 0 {
				open++
			}
			w.polls[i] = unix.PollFd{Fd: int32(v.fd), Events: unix.POLLIN}
		}
		if open == 0 || w.failure() != nil {
			return w.failure()
		}
		if _, err := unix.Poll(w.polls, 100); err != nil && err != unix.EINTR {
			return fmt.Errorf("poll: %w", err)
		}
		for i := range w.polls {
			if w.polls[i].Revents != 0 {
				if err := w.answer(&w.visits[i], l); err != nil {
					return err
				}
			}
		}
	}
}

// open connects a client and sends its first command. The socket is blocking, but it is only read
// when there is data, and writes are small.
func (w *connect) open(v *visit) (err error) {
	*v = visit{begun: Now()}
	if v.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil {
		return err
	}
	if w.spread {
		w.round++
		err = spread(v.fd, w.round)
	}
	if err == nil {
		err = unix.Connect(v.fd, w.addr)
	}
	if err != nil {
		return err
	}
	w.c.sayTube("use", w.tube)
	return w.send(v)
}

func (w *connect) send(v *visit) error {
	_, err := unix.Write(v.fd, w.c.Out)
	w.c.Out = w.c.Out[:0]
	return err
}

// answer reads a reply, which no server sends in parts, and sends the next command or closes.
func (w *connect) answer(v *visit, l *lane) error {
	n, err := unix.Read(v.fd, w.in)
	at := Now()
	if n <= 0 {
		return fmt.Errorf("receive: %w", cmp.Or(err, errClosed))
	}
	if used, _, err := w.c.Reply.parse(w.in[:n]); err != nil {
		return err
	} else if used != n {
		return fmt.Errorf("one reply was due, got %q", w.in[:n])
	}
	if !v.put {
		if err := w.c.expectUsing(w.tube); err != nil {
			return err
		}
		v.put = true
		w.c.put(jobPri, 0, uint64(l.done))
		return w.send(v)
	}
	if err := w.c.expect("put", "INSERTED"); err != nil {
		return err
	}
	l.answered(v.begun, at)
	fd := v.fd
	v.fd = -1
	return unix.Close(fd)
}
