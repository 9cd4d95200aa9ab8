package beanstalkd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

// connect: what a web request does that leaves a job behind. Every one of conns
// clients connects, sends use and, once that is answered, put, closes when it has
// its answer, and connects again. Here one operation is all of that: a put on a
// connection of its own. Its latency is from before connect to INSERTED.
//
// All clients are served by one goroutine with the system's own calls, since a
// load that costs more than the server measures itself. A client goes without
// quit, as a PHP process does, so the port that lingers is its own.
type connect struct {
	env
	addr  unix.Sockaddr
	loop  bool // the server is on this machine
	tube  string
	round uint32 // counts connections, for spread
	ids   []uint64
	all   []visit
	polls []unix.PollFd
}

// A visit is one client between connect and close.
type visit struct {
	fd    int // -1: none
	begun int64
	put   bool // use is answered
}

func newConnect(e *workload.Env) workload.Workload { return &connect{env: env{e}} }

func connectKnobs(l workload.Load) error {
	if l.Depth != 1 {
		return errors.New("workload connect sends one command at a time: depth is 1")
	}
	return stampedBodies(l)
}

func (w *connect) Setup(context.Context) (err error) {
	w.tube = w.TubeName("connect", 0)
	w.addr, w.loop, err = sockaddr(w.Plan.Addr)
	n := w.Plan.Share(w.Plan.Load.Conns)
	w.all, w.polls = make([]visit, n), make([]unix.PollFd, n)
	return err
}

// sockaddr is an address, host:port or unix:PATH, as the system takes it, and
// whether it is one of IPv4's loopback.
func sockaddr(addr string) (sa unix.Sockaddr, loopback bool, err error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return &unix.SockaddrUnix{Name: path}, false, nil
	}
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, false, fmt.Errorf("connect: %w", err)
	}
	if ip := tcp.IP.To4(); ip != nil {
		return &unix.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(ip)}, ip.IsLoopback(), nil
	}
	return &unix.SockaddrInet6{Port: tcp.Port, Addr: [16]byte(tcp.IP.To16())}, false, nil
}

func (w *connect) Run(ph *workload.Phase) error {
	l, err := ph.Lane(0, 1, false)
	if err != nil {
		return err
	}
	defer l.End()
	s := &visiting{connect: w, l: l, in: make([]byte, maxLine+2)}
	for i := range w.all {
		w.all[i].fd = -1
	}
	defer func() {
		for i := range w.all {
			if fd := w.all[i].fd; fd >= 0 {
				unix.Close(fd)
			}
		}
	}()
	for {
		open, err := s.openMissing(ph)
		if err != nil || open == 0 {
			return err
		}
		if err := s.serve(); err != nil {
			return err
		}
		if err := w.Failure(); err != nil {
			return err
		}
	}
}

func (w *connect) Teardown(ctx context.Context) error {
	if w.Plan.Throwaway {
		return nil
	}
	c, err := w.env.connect(ctx)
	if err != nil {
		return err
	}
	if err := c.deleteAll(w.ids); err != nil {
		return err
	}
	return w.Quit(c)
}

// visiting is one run.
type visiting struct {
	*connect
	l       *drive.Lane
	begun   int64 // visits so far
	in, out []byte
	link    drive.Link
	rep     reply
}

// openMissing opens connections for clients that have none, unless the phase is
// over, and returns how many are open.
func (s *visiting) openMissing(ph *workload.Phase) (open int, err error) {
	for i := range s.all {
		v := &s.all[i]
		if v.fd < 0 && s.l.More() && (s.l.Budget == 0 || s.begun < s.l.Budget) && ph.Ctx.Err() == nil {
			if err := s.open(v); err != nil {
				return 0, err
			}
			s.begun++
		}
		s.polls[i] = unix.PollFd{Fd: int32(v.fd), Events: unix.POLLIN}
		if v.fd >= 0 {
			open++
		}
	}
	return open, nil
}

// open connects a client and has it send its first command. The socket blocks, but
// it is only read when there is something to read, and what is written is small.
func (s *visiting) open(v *visit) error {
	family := unix.AF_INET
	switch s.addr.(type) {
	case *unix.SockaddrInet6:
		family = unix.AF_INET6
	case *unix.SockaddrUnix:
		family = unix.AF_UNIX
	}
	begun := drive.Now()
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	*v = visit{fd: fd, begun: begun}
	if s.loop {
		s.round++
		if err := spread(fd, s.round); err != nil {
			return fmt.Errorf("connect: %w", err)
		}
	}
	if err := unix.Connect(fd, s.addr); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	s.out = append(append(append(s.out[:0], "use "...), s.tube...), "\r\n"...)
	return s.send(fd)
}

func (s *visiting) send(fd int) error {
	if _, err := unix.Write(fd, s.out); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// serve waits for replies and answers them.
func (s *visiting) serve() error {
	if _, err := unix.Poll(s.polls, int(100*time.Millisecond/time.Millisecond)); err != nil && err != unix.EINTR {
		return fmt.Errorf("poll: %w", err)
	}
	for i := range s.polls {
		if s.polls[i].Revents == 0 || s.all[i].fd < 0 {
			continue
		}
		if err := s.answer(&s.all[i]); err != nil {
			return err
		}
	}
	return nil
}

// answer reads a reply, which no server sends in parts, and sends what comes
// next, or closes.
func (s *visiting) answer(v *visit) error {
	n, err := unix.Read(v.fd, s.in)
	at := drive.Now()
	if n <= 0 {
		if err == nil {
			err = drive.ErrClosed
		}
		return fmt.Errorf("receive: %w", err)
	}
	if used, _, err := parseReply(s.in[:n], &s.rep); err != nil {
		return err
	} else if used != n {
		return fmt.Errorf("one reply was due, got %q", s.in[:n])
	}
	c := conn{Link: s.link, constant: s.Plan.Constant, tube: s.tube}
	if !v.put {
		if err := c.usingTube(&s.rep); err != nil {
			return err
		}
		v.put = true
		s.out = s.putCommand()
		return s.send(v.fd)
	}
	if err := c.expect("put", kindInserted, &s.rep); err != nil {
		return err
	}
	if !s.Plan.Throwaway {
		s.ids = append(s.ids, s.rep.num)
	}
	s.l.Answered(v.begun, at)
	fd := v.fd
	v.fd = -1
	return unix.Close(fd)
}

// putCommand is a put whose body is stamped with the number of puts so far.
func (s *visiting) putCommand() []byte {
	if s.link.Body == nil {
		s.link.Body = drive.NewBody(s.Plan.Load.Body)
	}
	c := conn{Link: s.link}
	c.Out = s.out[:0]
	c.putBody(jobPri, 0, uint64(s.begun))
	return c.Out
}
