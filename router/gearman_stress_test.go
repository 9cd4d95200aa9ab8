package router_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"polystalk/router"
	"polystalk/router/direct"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/codec/gearman"
)

// A gearConn is a blocking client. Its deadline is patience, not a measurement.
type gearConn struct {
	net.Conn
	r *bufio.Reader
}

func dialGear(addr net.Addr) (*gearConn, error) {
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		return nil, err
	}
	return &gearConn{c, bufio.NewReader(c)}, c.SetDeadline(time.Now().Add(2 * time.Minute))
}

func (c *gearConn) send(t gearman.Type, args ...string) error {
	_, err := io.WriteString(c, packet(t, args...))
	return err
}

func (c *gearConn) receive() (t gearman.Type, args []string, err error) {
	head := make([]byte, gearman.HeaderSize)
	if _, err := io.ReadFull(c.r, head); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[8:]))
	if _, err := io.ReadFull(c.r, body); err != nil {
		return 0, nil, err
	}
	return gearman.Type(binary.BigEndian.Uint32(head[4:])), strings.Split(string(body), "\x00"), nil
}

// submitAll runs foreground jobs, some at a time, and wants each answered by
// JOB_CREATED, one DATA or more, and one COMPLETE with its own workload.
func submitAll(addr net.Addr, id, n, functions int) error {
	c, err := dialGear(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	const window = 8
	want := map[string]string{} // by handle
	var asked []string
	for sent, done := 0, 0; done < n; {
		for sent < n && sent-done < window {
			work := fmt.Sprintf("%d-%d", id, sent)
			if err := c.send(gearman.SubmitJob, fmt.Sprintf("f%d", sent%functions), work, work); err != nil {
				return err
			}
			asked = append(asked, work)
			sent++
		}
		t, args, err := c.receive()
		if err != nil {
			return fmt.Errorf("%d of %d done: %w", done, n, err)
		}
		switch t {
		case gearman.JobCreated:
			want[args[0]] = asked[0]
			asked = asked[1:]
		case gearman.WorkData, gearman.WorkComplete:
			if w, ok := want[args[0]]; !ok || w != args[1] {
				return fmt.Errorf("%v of %q says %q, want %q", t, args[0], args[1], w)
			}
			if t == gearman.WorkComplete {
				delete(want, args[0])
				done++
			}
		default:
			return fmt.Errorf("%v %q", t, args)
		}
	}
	return nil
}

// work works until the server closes, and sometimes loses its connection with a
// job under way.
func work(ctx context.Context, addr net.Addr, seed uint64, functions int) error {
	rng := rand.New(rand.NewPCG(seed, 3))
	for ctx.Err() == nil {
		c, err := dialGear(addr)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		err = workOn(c, rng, functions)
		stop()
		c.Close()
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func workOn(c *gearConn, rng *rand.Rand, functions int) error {
	for i := range functions {
		if err := c.send(gearman.CanDo, fmt.Sprintf("f%d", i)); err != nil {
			return err
		}
	}
	for {
		if err := c.send(gearman.GrabJob); err != nil {
			return err
		}
		t, args, err := c.receive()
		for err == nil && t == gearman.Noop {
			t, args, err = c.receive()
		}
		if err != nil {
			return err
		}
		switch t {
		case gearman.NoJob:
			if err := c.send(gearman.PreSleep); err != nil {
				return err
			}
			if t, args, err = c.receive(); err != nil {
				return err
			} else if t != gearman.Noop {
				return fmt.Errorf("%v %q in sleep", t, args)
			}
		case gearman.JobAssign:
			if rng.IntN(20) == 0 {
				return nil
			}
			if err := errors.Join(c.send(gearman.WorkData, args[0], args[2]), c.send(gearman.WorkComplete, args[0], args[2])); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%v %q", t, args)
		}
	}
}

// desert submits foreground jobs and leaves before it has heard of them all.
func desert(ctx context.Context, addr net.Addr, seed uint64, functions int) error {
	rng := rand.New(rand.NewPCG(seed, 4))
	for ctx.Err() == nil {
		c, err := dialGear(addr)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		for range 16 {
			if err := c.send(gearman.SubmitJob, fmt.Sprintf("f%d", rng.IntN(functions)), "", "left behind"); err != nil {
				return err
			}
		}
		for range rng.IntN(40) {
			if _, _, err := c.receive(); err != nil {
				return err
			}
		}
		stop()
		c.Close()
	}
	return nil
}

// TestGearmanUnderLoad: over real connections, with clients and workers that
// vanish, and workers that sleep and wake up, every client that stays hears of all
// its jobs.
func TestGearmanUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, functions := range []int{1, 5} {
		s, err := router.New(router.Config{Loops: 2, Shards: 8})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go s.ServeGearman(l)
		ctx, cancel := context.WithCancel(t.Context())
		var clients, workers sync.WaitGroup
		for i := range 6 {
			workers.Go(func() {
				if err := work(ctx, l.Addr(), uint64(i), functions); err != nil {
					t.Errorf("worker %d: %v", i, err)
				}
			})
		}
		for i := range 3 {
			workers.Go(func() {
				if err := desert(ctx, l.Addr(), uint64(i), functions); err != nil && ctx.Err() == nil {
					t.Errorf("deserter %d: %v", i, err)
				}
			})
		}
		for i := range 8 {
			clients.Go(func() {
				if err := submitAll(l.Addr(), i, 300, functions); err != nil {
					t.Errorf("client %d: %v", i, err)
				}
			})
		}
		clients.Wait()
		cancel()
		workers.Wait()
		caller := direct.New(s.Host().Map, s.Host().Clock)
		for range 1000 { // what vanished has to be noticed
			if !router.HasJobs(caller) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		for _, sh := range s.Host().Map.Shards() {
			if n := sh.Counts(); n.Ready+n.Reserved+n.Delayed+n.Buried > 0 {
				t.Errorf("jobs are left: %+v", n)
			}
			sh.Close()
		}
	}
}
