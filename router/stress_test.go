package router_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"polystalk/router/routertest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/direct"
)

// connections returns how many connections the server counts.
func connections(s *router.Server) int {
	open, _ := s.Reactor().Connections()
	return open
}

// receive returns the next packet's type and arguments.
func (k *remote) receive() (t gearman.Type, args []string, err error) {
	head := make([]byte, gearman.HeaderSize)
	if _, err := io.ReadFull(k.r, head); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[8:]))
	_, err = io.ReadFull(k.r, body)
	return gearman.Type(binary.BigEndian.Uint32(head[4:])), strings.Split(string(body), "\x00"), err
}

// submitAll submits n foreground jobs, at most eight at the same time. Each must get JOB_CREATED,
// at least one DATA, and one COMPLETE with its own workload.
func submitAll(k *remote, id, n, functions int) error {
	const window = 8
	want := map[string]string{} // by handle
	var asked []string
	for sent, done := 0, 0; done < n; {
		for ; sent < n && sent-done < window; sent++ {
			work := fmt.Sprintf("%d-%d", id, sent)
			k.say(packet(gearman.SubmitJob, fmt.Sprintf("f%d", sent%functions), work, work))
			asked = append(asked, work)
		}
		t, args, err := k.receive()
		switch {
		case err != nil:
			return fmt.Errorf("%d of %d done: %w", done, n, err)
		case t == gearman.JobCreated:
			want[args[0]] = asked[0]
			asked = asked[1:]
		case t != gearman.WorkData && t != gearman.WorkComplete:
			return fmt.Errorf("%v %q", t, args)
		case want[args[0]] != args[1]:
			return fmt.Errorf("%v of %q says %q, want %q", t, args[0], args[1], want[args[0]])
		case t == gearman.WorkComplete:
			delete(want, args[0])
			done++
		}
	}
	return nil
}

// workUntilLost works until the connection ends, or leaves with a job in progress.
func workUntilLost(k *remote, rng *rand.Rand, functions int) error {
	for i := range functions {
		io.WriteString(k, packet(gearman.CanDo, fmt.Sprintf("f%d", i)))
	}
	next := packet(gearman.GrabJob)
	for {
		if _, err := io.WriteString(k, next); err != nil {
			return err
		}
		t, args, err := k.receive()
		for err == nil && t == gearman.Noop && next == packet(gearman.GrabJob) {
			t, args, err = k.receive()
		}
		switch {
		case err != nil:
			return err
		case t == gearman.NoJob:
			next = packet(gearman.PreSleep)
		case t == gearman.Noop:
			next = packet(gearman.GrabJob)
		case t != gearman.JobAssign:
			return fmt.Errorf("%v %q", t, args)
		case rng.IntN(20) == 0:
			return nil
		default:
			next = packet(gearman.WorkData, args[0], args[2]) + packet(gearman.WorkComplete, args[0], args[2]) + packet(gearman.GrabJob)
		}
	}
}

// desert submits foreground jobs and leaves before all replies have arrived.
func desert(k *remote, rng *rand.Rand, functions int) error {
	for range 16 {
		io.WriteString(k, packet(gearman.SubmitJob, fmt.Sprintf("f%d", rng.IntN(functions)), "", "left behind"))
	}
	for range rng.IntN(40) {
		if _, _, err := k.receive(); err != nil {
			return err
		}
	}
	return nil
}

// TestGearmanUnderLoad: over real connections, with clients and workers that disappear, and workers
// that sleep and wake up, every remaining client gets the results of all its jobs.
func TestGearmanUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, functions := range []int{1, 5} {
		s := serve(t, router.Config{Loops: 2, Shards: 8})
		ctx, cancel := context.WithCancel(t.Context())
		var clients, others sync.WaitGroup
		for i := range 9 {
			others.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), 3))
				play := workUntilLost
				if i >= 6 {
					play = desert
				}
				for ctx.Err() == nil {
					k := s.dial(s.gears)
					stop := context.AfterFunc(ctx, func() { k.Close() })
					if err := play(k, rng, functions); err != nil && ctx.Err() == nil {
						t.Errorf("client %d: %v", i, err)
						return
					}
					stop()
					k.Close()
				}
			})
		}
		for i := range 8 {
			clients.Go(func() {
				if err := submitAll(s.dial(s.gears), i, 300, functions); err != nil {
					t.Errorf("client %d: %v", i, err)
				}
			})
		}
		clients.Wait()
		cancel()
		others.Wait()
		caller := direct.New(s.Host().Map, s.Host().Clock)
		eventually(t, func() bool { return !router.HasJobs(caller) })
		s.end()
		for _, sh := range s.Host().Map.Shards() {
			if n := sh.Counts(); n.Ready+n.Reserved+n.Delayed+n.Buried > 0 {
				t.Errorf("jobs are left: %+v", n)
			}
		}
	}
}

// watchSome watches some of the tubes w0 to w<n>.
func (k *remote) watchSome(n int, which func(i int) bool) (watch []bool) {
	var b strings.Builder
	watch = make([]bool, n)
	want := 1
	for i := range n {
		if watch[i] = which(i); watch[i] {
			fmt.Fprintf(&b, "watch w%d\r\n", i)
			want++
		}
	}
	sent := make(chan bool)
	go func() {
		k.say(b.String())
		close(sent)
	}()
	for range want - 1 {
		k.line()
	}
	<-sent
	if got := k.ask("ignore default"); got != fmt.Sprintf("WATCHING %d", want-1) {
		k.t.Errorf("watches: %s", got)
	}
	return watch
}

// TestHistoriesOfManyTubesAreLinearizable uses producers and consumers with short and long watch
// lists on real connections, with loops and shards that run in parallel.
func TestHistoriesOfManyTubesAreLinearizable(t *testing.T) {
	s := serve(t, router.Config{Shards: 16, Loops: 2})
	const manyTubes = 10_000
	const producers, most = 3, 20
	puts := 400
	if testing.Short() {
		puts = 100
	}
	start := time.Now()
	var mu sync.Mutex
	var ops []routertest.Op
	// do sends a command and records it; fill sets the rest of o from the reply.
	do := func(c *remote, o routertest.Op, line string, fill func(o *routertest.Op, words []string)) {
		o.Call = int64(time.Since(start))
		c.say(line + "\r\n")
		words := strings.Fields(c.line())
		if len(words) > 0 && words[0] == "RESERVED" {
			c.line()
		}
		o.Return = int64(time.Since(start))
		o.Found = words[0] != "NOT_FOUND"
		fill(&o, words)
		mu.Lock()
		ops = append(ops, o)
		mu.Unlock()
	}
	job := func(o *routertest.Op, words []string) {
		o.Job, _ = strconv.ParseUint(words[1], 10, 64)
	}
	nothing := func(*routertest.Op, []string) {}
	var out, left atomic.Int64
	left.Store(int64(producers * puts))
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 4))
			c := s.dial(s.unix)
			for range puts {
				for out.Load() > most && !t.Failed() {
					time.Sleep(20 * time.Microsecond)
				}
				out.Add(1)
				o := routertest.Op{Kind: routertest.Put, Pri: rng.Uint32N(4), Tube: rng.IntN(manyTubes)}
				c.ask("use w%d", o.Tube)
				do(c, o, fmt.Sprintf("put %d 0 600 1\r\nx", o.Pri), job)
				left.Add(-1)
			}
		})
	}
	for i := range 5 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			c := s.dial(s.unix)
			sparse := []int{1, 1, 2, 300, 3000}[i]
			watch := c.watchSome(manyTubes, func(at int) bool { return at%sparse == 0 })
			for left.Load() > 0 || out.Load() > 0 && sparse == 1 {
				if t.Failed() {
					return
				}
				if rng.IntN(2) == 0 {
					c.ask("watch other")
					c.ask("ignore other")
				}
				o := routertest.Op{Kind: routertest.Reserve, Client: i + 1, Watch: watch}
				got := uint64(0)
				do(c, o, []string{"reserve-with-timeout 0", "reserve-with-timeout 0", "reserve-with-timeout 1"}[rng.IntN(3)],
					func(o *routertest.Op, words []string) {
						if words[0] == "RESERVED" {
							job(o, words)
						}
						got = o.Job
					})
				switch {
				case got == 0:
				case rng.IntN(3) == 0:
					o := routertest.Op{Kind: routertest.Release, Client: i + 1, Job: got, Pri: rng.Uint32N(4)}
					do(c, o, fmt.Sprintf("release %d %d 0", got, o.Pri), nothing)
				default:
					do(c, routertest.Op{Kind: routertest.Delete, Client: i + 1, Job: got}, fmt.Sprintf("delete %d", got), nothing)
					out.Add(-1)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	none := 0
	for _, o := range ops {
		if o.Kind == routertest.Reserve && o.Job == 0 {
			none++
		}
	}
	t.Logf("%d commands in %v, %d of them found nothing", len(ops), time.Since(start), none)
	if err := routertest.CheckHistory(ops); err != nil {
		t.Error(err)
	}
}
