package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/codec/gearman"
)

// conns is how many connections share the load of each protocol.
const conns = 8

// A load is clients of both protocols at a steady rate. What a command takes is counted from
// when it was to be sent: who is late because the one before it was has waited as well.
type load struct {
	into  atomic.Pointer[samples]
	quit  chan struct{}
	group sync.WaitGroup
	err   atomic.Pointer[error]
}

// samples are what commands took, in nanoseconds.
type samples struct {
	mu  sync.Mutex
	all []int64
}

func (s *samples) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, int64(d))
}

// record has samples go there from now on; nil: nowhere.
func (l *load) record(s *samples) { l.into.Store(s) }

func (l *load) note(d time.Duration) {
	if s := l.into.Load(); s != nil {
		s.add(d)
	}
}

func startLoad(s *daemon, rate int) (*load, error) {
	l := &load{quit: make(chan struct{})}
	for i := range conns {
		b, err := net.Dial("tcp", s.address)
		if err != nil {
			return nil, err
		}
		g, err := net.Dial("tcp", s.gearman)
		if err != nil {
			return nil, err
		}
		between := time.Second * conns / time.Duration(rate)
		l.group.Go(func() { l.pace(between, beanstalkCycle(b, i)) })
		l.group.Go(func() { l.pace(between, gearmanCycle(g, i)) })
	}
	return l, nil
}

func (l *load) stop() error {
	close(l.quit)
	l.group.Wait()
	if err := l.err.Load(); err != nil {
		return *err
	}
	return nil
}

// pace runs a cycle each so often. A cycle takes the moment at which it was to begin, and
// notes what each of its commands took.
func (l *load) pace(between time.Duration, cycle func(at time.Time, note func(time.Duration)) error) {
	at := time.Now().Add(time.Duration(rand.Int64N(int64(between))))
	for {
		if d := time.Until(at); d > 0 {
			time.Sleep(d)
		}
		// A sleep ends late: that is this machine's doing, and not the server's.
		if now := time.Now(); now.Sub(at) < between {
			at = now
		}
		select {
		case <-l.quit:
			return
		default:
		}
		if err := cycle(at, l.note); err != nil {
			l.err.CompareAndSwap(nil, &err)
			return
		}
		at = at.Add(between)
	}
}

// beanstalkCycle puts, reserves and deletes a job in a tube of its own.
func beanstalkCycle(c net.Conn, i int) func(time.Time, func(time.Duration)) error {
	r := bufio.NewReader(c)
	fmt.Fprintf(c, "use work-%d\r\nwatch work-%d\r\nignore default\r\n", i, i)
	for range 3 {
		r.ReadString('\n')
	}
	return func(at time.Time, note func(time.Duration)) error {
		var id int
		for n, ask := range []string{"put 0 0 60 5\r\nhello\r\n", "reserve\r\n", "delete %d\r\n"} {
			if n == 2 {
				ask = fmt.Sprintf(ask, id)
			}
			if _, err := io.WriteString(c, ask); err != nil {
				return err
			}
			line, err := r.ReadString('\n')
			if err != nil {
				return err
			}
			if n == 1 {
				if _, err := fmt.Sscanf(line, "RESERVED %d 5", &id); err != nil {
					return fmt.Errorf("%q", line)
				}
				r.Discard(7)
			}
			now := time.Now()
			note(now.Sub(at))
			at = now
		}
		return nil
	}
}

// gearmanCycle submits a job, takes it and completes it, on one connection.
func gearmanCycle(c net.Conn, i int) func(time.Time, func(time.Duration)) error {
	r := bufio.NewReader(c)
	fn := fmt.Sprintf("function-%d", i)
	packet := func(t gearman.Type, args ...string) {
		list := make([][]byte, len(args))
		for i, a := range args {
			list[i] = []byte(a)
		}
		c.Write(gearman.AppendRequest(nil, t, list...))
	}
	read := func(want gearman.Type) ([]byte, error) {
		head := make([]byte, gearman.HeaderSize)
		if _, err := io.ReadFull(r, head); err != nil {
			return nil, err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[8:]))
		_, err := io.ReadFull(r, body)
		if got := gearman.Type(binary.BigEndian.Uint32(head[4:])); err == nil && got != want {
			err = fmt.Errorf("%v, want %v: %q", got, want, body)
		}
		return body, err
	}
	packet(gearman.CanDo, fn)
	return func(at time.Time, note func(time.Duration)) error {
		packet(gearman.SubmitJobBG, fn, "", "hello")
		if _, err := read(gearman.JobCreated); err != nil {
			return err
		}
		now := time.Now()
		note(now.Sub(at))
		packet(gearman.GrabJob)
		job, err := read(gearman.JobAssign)
		if err != nil {
			return err
		}
		note(time.Since(now))
		handle, _, _ := bytes.Cut(job, []byte{0})
		packet(gearman.WorkComplete, string(handle), "")
		return nil
	}
}

// fill puts n jobs of random priorities into the tube "backlog", or that and others: so many
// in all.
func fill(address string, n, tubes, size int) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	heard := make(chan error, 1)
	go func() {
		r := bufio.NewReaderSize(c, 1<<16)
		for range n + tubes {
			line, err := r.ReadString('\n')
			if err == nil && !strings.HasPrefix(line, "INSERTED") && !strings.HasPrefix(line, "USING") {
				err = errors.New(line)
			}
			if err != nil {
				heard <- err
				return
			}
		}
		heard <- nil
	}()
	w := bufio.NewWriterSize(c, 1<<16)
	body := strings.Repeat("x", size)
	fmt.Fprintf(w, "use backlog\r\n")
	for i := range n {
		if tube := i * tubes / n; i > 0 && tube > (i-1)*tubes/n {
			fmt.Fprintf(w, "use backlog-%d\r\n", tube)
		}
		fmt.Fprintf(w, "put %d 0 60 %d\r\n%s\r\n", rand.Uint32N(1<<20), size, body)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return <-heard
}

// freePorts are ports that nobody listens on.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// await waits until the server answers, on all that it listens on.
func (s *daemon) await() error {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", s.gearman); err == nil {
			c.Close()
			if code, _, err := get(client(s.socket), "/readyz"); err == nil && code == 200 {
				return nil
			}
		}
	}
	return errors.New("the server does not answer")
}
