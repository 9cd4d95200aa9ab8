package router_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/router"
	"polystalk/router/history"
)

// A talker is a client on a real connection that asks one thing at a time.
type talker struct {
	t  *testing.T
	nc net.Conn
	r  *bufio.Reader
}

func talk(t *testing.T, addr net.Addr) *talker {
	t.Helper()
	nc, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(2 * time.Minute))
	return &talker{t, nc, bufio.NewReaderSize(nc, 1<<16)}
}

func (c *talker) send(text string) {
	if _, err := c.nc.Write([]byte(text)); err != nil {
		c.t.Error(err)
	}
}

func (c *talker) line() string {
	s, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Error(err)
	}
	return strings.TrimSpace(s)
}

func (c *talker) ask(format string, args ...any) string {
	c.send(fmt.Sprintf(format+"\r\n", args...))
	return c.line()
}

// watch watches some of the tubes w0 to w<n>.
func (c *talker) watch(n int, which func(i int) bool) (watch []bool) {
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
		c.send(b.String())
		close(sent)
	}()
	for range want - 1 {
		c.line()
	}
	<-sent
	if got := c.ask("ignore default"); got != fmt.Sprintf("WATCHING %d", want-1) {
		c.t.Errorf("watches: %s", got)
	}
	return watch
}

// manyTubes is what wide clients watch.
const manyTubes = 10_000

func serveMany(t *testing.T) net.Addr {
	s, addrs := serve(t, router.Config{Shards: 16, Loops: 2})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return addrs[1]
}

// TestFirstOfTwoJobsIsFirst: a client puts a job, is answered, and another puts a
// worse one far away, all while a third looks at ten thousand tubes.
func TestFirstOfTwoJobsIsFirst(t *testing.T) {
	addr := serveMany(t)
	w, p, other, q := talk(t, addr), talk(t, addr), talk(t, addr), talk(t, addr)
	other.ask("list-tube-used")
	w.watch(manyTubes, func(int) bool { return true })
	const polls = 10
	for round := range 150 {
		p.ask("use w%d", rand.IntN(manyTubes/10))
		q.ask("use w%d", manyTubes-1-rand.IntN(manyTubes/10))
		var first atomic.Pointer[string]
		var wg sync.WaitGroup
		wg.Go(func() {
			for first.Load() == nil {
				// Another list is looked at in full.
				w.send(strings.Repeat("watch other\r\nignore other\r\nreserve-with-timeout 0\r\n", polls))
				for range polls {
					w.line()
					w.line()
					if strings.HasPrefix(w.line(), "RESERVED") {
						body := w.line()
						first.CompareAndSwap(nil, &body)
					}
				}
			}
		})
		time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
		one := p.ask("put 0 0 600 5\r\nfirst")
		two := q.ask("put 5 0 600 6\r\nsecond")
		wg.Wait()
		if got := *first.Load(); got != "first" {
			t.Fatalf("round %d: %s", round, got)
		}
		for strings.HasPrefix(w.ask("reserve-with-timeout 0"), "RESERVED") {
			w.line()
		}
		for _, put := range []string{one, two} {
			if got := w.ask("delete %s", strings.TrimPrefix(put, "INSERTED ")); got != "DELETED" {
				t.Fatalf("%s: %s", put, got)
			}
		}
	}
}

// TestHistoriesOfManyTubesAreLinearizable: producers and consumers with wide and narrow
// lists on real connections, on loops and shards that really run at once.
func TestHistoriesOfManyTubesAreLinearizable(t *testing.T) {
	addr := serveMany(t)
	const producers, puts, most = 3, 400, 20
	start := time.Now()
	var mu sync.Mutex
	var ops []history.Op
	// do asks and notes; the answer fills the rest of o.
	do := func(c *talker, o history.Op, line string, fill func(o *history.Op, words []string)) {
		o.Call = int64(time.Since(start))
		c.send(line + "\r\n")
		words := strings.Fields(c.line())
		if len(words) > 0 && words[0] == "RESERVED" {
			c.line()
		}
		o.Return = int64(time.Since(start))
		if len(words) == 0 {
			return // its failure is noted
		}
		o.Found = words[0] != "NOT_FOUND"
		fill(&o, words)
		mu.Lock()
		ops = append(ops, o)
		mu.Unlock()
	}
	job := func(o *history.Op, words []string) {
		o.Job, _ = strconv.ParseUint(words[1], 10, 64)
	}
	nothing := func(*history.Op, []string) {}
	var out, left atomic.Int64
	left.Store(producers * puts)
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 4))
			c := talk(t, addr)
			for range puts {
				for out.Load() > most && !t.Failed() {
					time.Sleep(20 * time.Microsecond)
				}
				out.Add(1)
				o := history.Op{Kind: history.Put, Pri: rng.Uint32N(4), Tube: rng.IntN(manyTubes)}
				c.ask("use w%d", o.Tube)
				do(c, o, fmt.Sprintf("put %d 0 600 1\r\nx", o.Pri), job)
				left.Add(-1)
			}
		})
	}
	for i := range 5 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			c := talk(t, addr)
			sparse := []int{1, 1, 2, 300, 3000}[i]
			watch := c.watch(manyTubes, func(at int) bool { return at%sparse == 0 })
			for left.Load() > 0 || out.Load() > 0 && sparse == 1 {
				if t.Failed() {
					return
				}
				if rng.IntN(2) == 0 {
					c.ask("watch other")
					c.ask("ignore other")
				}
				o := history.Op{Kind: history.Reserve, Client: i + 1, Watch: watch}
				got := uint64(0)
				do(c, o, []string{"reserve-with-timeout 0", "reserve-with-timeout 0", "reserve-with-timeout 1"}[rng.IntN(3)],
					func(o *history.Op, words []string) {
						if words[0] == "RESERVED" {
							job(o, words)
						}
						got = o.Job
					})
				switch {
				case got == 0:
				case rng.IntN(3) == 0:
					o := history.Op{Kind: history.Release, Client: i + 1, Job: got, Pri: rng.Uint32N(4)}
					do(c, o, fmt.Sprintf("release %d %d 0", got, o.Pri), nothing)
				default:
					do(c, history.Op{Kind: history.Delete, Client: i + 1, Job: got}, fmt.Sprintf("delete %d", got), nothing)
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
		if o.Kind == history.Reserve && o.Job == 0 {
			none++
		}
	}
	t.Logf("%d commands in %v, %d of them found nothing", len(ops), time.Since(start), none)
	if err := history.Check(ops); err != nil {
		t.Error(err)
	}
}
