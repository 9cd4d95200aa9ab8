package router_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router"
	"polystalk/router/admin"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// A flushClient is a client of beanstalkd's protocol, over TCP.
type flushClient struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

// flushed is a server on TCP, and how to connect to it.
func flushed(t testing.TB, cfg router.Config) (s *router.Server, connect func(tube string) *flushClient) {
	t.Helper()
	s, err := router.New(cfg)
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
	go s.Serve(l)
	return s, func(tube string) *flushClient {
		t.Helper()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		c := &flushClient{t, conn, bufio.NewReader(conn)}
		c.says("use "+tube+"\r\n", "USING "+tube)
		c.says("watch "+tube+"\r\n", "WATCHING 2")
		c.says("ignore default\r\n", "WATCHING 1")
		return c
	}
}

// ask sends some lines, and returns the first of the answer.
func (c *flushClient) ask(lines string) string {
	c.t.Helper()
	if _, err := c.conn.Write([]byte(lines)); err != nil {
		c.t.Fatal(err)
	}
	return c.line()
}

func (c *flushClient) line() string {
	c.t.Helper()
	s, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSuffix(s, "\r\n")
}

func (c *flushClient) says(lines, want string) {
	c.t.Helper()
	if got := c.ask(lines); got != want {
		c.t.Fatalf("%q is answered by %q, want %q", lines, got, want)
	}
}

// reserve reserves a job; ok is false when there is none.
func (c *flushClient) reserve() (id string, ok bool) {
	c.t.Helper()
	w := strings.Fields(c.ask("reserve-with-timeout 0\r\n"))
	if w[0] != "RESERVED" {
		return "", false
	}
	c.line() // the body
	return w[1], true
}

// fill puts n jobs of some bytes each.
func (c *flushClient) fill(n, size int) {
	c.t.Helper()
	body := strings.Repeat("x", size)
	const most = 2000
	for n > 0 {
		part := min(n, most)
		var b strings.Builder
		for i := range part {
			fmt.Fprintf(&b, "put %d 0 600 %d\r\n%s\r\n", uint32(i*0x9E3779B9)>>8, size, body)
		}
		if _, err := c.conn.Write([]byte(b.String())); err != nil {
			c.t.Fatal(err)
		}
		for range part {
			if got := c.line(); !strings.HasPrefix(got, "INSERTED ") {
				c.t.Fatal(got)
			}
		}
		n -= part
	}
}

// end shuts a server down.
func end(t testing.TB, s *router.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// TestFlushEndsBeforeTheServer: one that has begun is not broken off by a stop, which waits for
// it, so nothing of what is gone comes back with the next start.
func TestFlushEndsBeforeTheServer(t *testing.T) {
	cfg := router.Config{Loops: 1, Shards: 2, Journal: &router.Journal{Dir: t.TempDir(), SegmentSize: 1 << 20}}
	s, connect := flushed(t, cfg)
	c := connect("a")
	c.fill(20_000, 10)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Operator().Flush(t.Context(), &admin.Flush{Tube: "a"})
		ended <- err
	}()
	for s.Operator().Life().Phase() != admin.Stopping {
		if tube, err := s.Operator().Tube(t.Context(), "a"); err == nil && tube.Ready == 0 {
			s.Operator().Life().Stop()
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("the flush: %v", err)
	}
	end(t, s)
	s, connect = flushed(t, cfg)
	c = connect("a")
	if id, ok := c.reserve(); ok {
		t.Errorf("job %s is there again", id)
	}
	end(t, s)
}

// TestFlushIsDurable: with each policy. What it took does not come back, what a worker held
// does, and what came after it.
func TestFlushIsDurable(t *testing.T) {
	for _, sync := range []wal.SyncPolicy{wal.SyncAlways, wal.SyncEvery, wal.SyncNever} {
		cfg := router.Config{Loops: 2, Shards: 2, Journal: &router.Journal{Dir: t.TempDir(), SegmentSize: 1 << 20, Sync: sync, Every: 50 * time.Millisecond}}
		s, connect := flushed(t, cfg)
		c := connect("a")
		const jobs = 5000
		c.fill(jobs, 10)
		held, _ := c.reserve()
		start := time.Now()
		n, err := s.Operator().Flush(t.Context(), &admin.Flush{Tube: "a"})
		if took := time.Since(start); err != nil || n.Ready != jobs-1 || n.All() != jobs-1 || took > time.Minute {
			t.Fatalf("policy %d: flushed %+v within %v, %v", sync, n, took, err)
		}
		c.says("put 0 0 600 5\r\nlater\r\n", fmt.Sprintf("INSERTED %d", jobs+1))
		end(t, s)
		s, connect = flushed(t, cfg)
		c = connect("a")
		got := make(map[string]bool)
		for id, ok := c.reserve(); ok; id, ok = c.reserve() {
			got[id] = true
		}
		if len(got) != 2 || !got[held] || !got[strconv.Itoa(jobs+1)] {
			t.Errorf("policy %d: after a restart there are %v", sync, got)
		}
		end(t, s)
	}
}

// TestFlushOfWhatWasCounted leaves what came since, one way or the other.
func TestFlushOfWhatWasCounted(t *testing.T) {
	s, connect := flushed(t, router.Config{Loops: 1, Shards: 2, Journal: &router.Journal{Dir: t.TempDir(), SegmentSize: 1 << 20}})
	defer end(t, s)
	c := connect("a")
	flush := func(f admin.Flush, want int) core.Flushed {
		t.Helper()
		f.Tube = "a"
		n, err := s.Operator().Flush(t.Context(), &f)
		if err != nil || n.All() != uint64(want) {
			t.Fatalf("%+v flushed %+v, %v; want %d", f, n, err, want)
		}
		return n
	}
	c.fill(700, 10)
	c.says("put 0 1000 600 1\r\nx\r\n", "INSERTED 701")
	first := flush(admin.Flush{DryRun: true}, 701)
	if first.Ready != 700 || first.Delayed != 1 {
		t.Errorf("counted %+v", first)
	}
	c.fill(10, 10)
	c.says("put 0 1000 600 1\r\nx\r\n", "INSERTED 712")
	flush(admin.Flush{States: core.StatesOf(core.Buried), AsOf: first.At}, 0)
	flush(admin.Flush{AsOf: first.At}, 701) // one after the other
	flush(admin.Flush{AsOf: first.At}, 0)
	again := flush(admin.Flush{DryRun: true, States: core.StatesOf(core.Ready)}, 10)
	flush(admin.Flush{States: core.StatesOf(core.Ready), AsOf: again.At}, 10)
	flush(admin.Flush{DryRun: true}, 1)
	if _, err := s.Operator().Flush(t.Context(), &admin.Flush{Tube: "nobody"}); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a tube that is not there: %v", err)
	}
	want := map[string]uint64{"done": 701 + 10}
	_, jobs := s.Operator().ActionCounts()
	for _, d := range jobs {
		if d.Action == "flush" && d.Count != want[d.Result] {
			t.Errorf("%+v", d)
		}
	}
}

// TestFlushThatNobodyWaitsFor: a flush goes on without its caller. The caller is told that
// the flush may not be durable; it becomes durable later.
func TestFlushThatNobodyWaitsFor(t *testing.T) {
	dir := t.TempDir()
	disk := newStallingDisk(dir)
	cfg := router.Config{Loops: 1, Shards: 1, Journal: &router.Journal{Dir: dir, Disk: disk, SegmentSize: 10 << 20}}
	s, connect := flushed(t, cfg)
	c := connect("a")
	const jobs = 50_000 // are collected in some fifty parts, each a quarter of a millisecond after the other
	c.fill(jobs, 10)
	disk.stall(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // the caller leaves when no client sees the jobs
		for {
			if v, err := s.Operator().Tube(ctx, "a"); err != nil || v.Ready == 0 {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	n, err := s.Operator().Flush(ctx, &admin.Flush{Tube: "a"})
	disk.stall(false)
	if p, ok := errors.AsType[*wire.Problem](err); !ok || p.Status != wire.Uncertain.Status || n.All() != jobs {
		t.Fatalf("flushed %+v, %v", n, err)
	}
	if id, ok := c.reserve(); ok {
		t.Errorf("job %s is still there", id)
	}
	// Another one that is answered is behind it.
	c.says("put 0 0 600 1\r\nx\r\n", fmt.Sprintf("INSERTED %d", jobs+1))
	if n, err := s.Operator().Flush(t.Context(), &admin.Flush{Tube: "a"}); err != nil || n.All() != 1 {
		t.Fatalf("flushed %+v, %v", n, err)
	}
	end(t, s)
	s, connect = flushed(t, cfg)
	if id, ok := connect("a").reserve(); ok {
		t.Errorf("job %s is there after a restart", id)
	}
	end(t, s)
}

// BenchmarkFlush flushes a million jobs with bodies of 100 bytes, while one client puts,
// reserves and deletes in the same tube and another one in another tube of its shard. It
// reports the time of the flush, a client's longest wait with and without a flush, and the
// resident memory before the flush and ten seconds after it.
func BenchmarkFlush(b *testing.B) {
	for _, kept := range []bool{false, true} {
		name := "unkept"
		if kept {
			name = "kept"
		}
		b.Run(name, func(b *testing.B) { flushBeside(b, kept) })
	}
}

func flushBeside(b *testing.B, kept bool) {
	const jobs = 1_000_000
	for b.Loop() {
		cfg := router.Config{Loops: 1, Shards: 1}
		if kept {
			cfg.Journal = &router.Journal{Dir: b.TempDir(), SegmentSize: 10 << 20, Sync: wal.SyncEvery, Every: 50 * time.Millisecond}
		}
		s, connect := flushed(b, cfg)
		empty := resident(b)
		connect("a").fill(jobs, 100)
		full := resident(b)
		others := []*flushClient{connect("a"), connect("b")}
		calm := waits(others, func() { time.Sleep(time.Second) })
		var took time.Duration
		busy := waits(others, func() {
			start := time.Now()
			n, err := s.Operator().Flush(b.Context(), &admin.Flush{Tube: "a"})
			if took = time.Since(start); err != nil || n.All() < jobs {
				b.Errorf("flushed %+v, %v", n, err)
			}
			time.Sleep(time.Second - took)
		})
		time.Sleep(10 * time.Second)
		b.ReportMetric(float64(took.Microseconds())/1e3, "ms/answer")
		for i, where := range []string{"in-it", "beside-it"} {
			b.ReportMetric(calm[i].longest.Seconds()*1e6, "µs-longest-wait-"+where+"-before")
			b.ReportMetric(busy[i].longest.Seconds()*1e6, "µs-longest-wait-"+where)
			b.ReportMetric(float64(busy[i].over), "waits-over-1ms-"+where)
			b.ReportMetric(float64(calm[i].over), "waits-over-1ms-"+where+"-before")
		}
		b.ReportMetric(float64(full-empty)/1e6, "MB-full")
		b.ReportMetric(float64(resident(b)-empty)/1e6, "MB-after-10s")
		end(b, s)
	}
}

// wait is how long a client waited for answers.
type wait struct {
	longest time.Duration
	over    int // waits of more than a millisecond
}

// waits has clients put, reserve and delete while during runs.
func waits(clients []*flushClient, during func()) []wait {
	list := make([]wait, len(clients))
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			timed := func(f func()) {
				start := time.Now()
				f()
				took := time.Since(start)
				list[i].longest = max(list[i].longest, took)
				if took > time.Millisecond {
					list[i].over++
				}
			}
			for {
				select {
				case <-quit:
					return
				default:
				}
				timed(func() { c.ask("put 0 0 60 1\r\nx\r\n") })
				var id string
				var ok bool
				if timed(func() { id, ok = c.reserve() }); ok {
					timed(func() { c.ask("delete " + id + "\r\n") })
				}
				time.Sleep(50 * time.Microsecond)
			}
		})
	}
	during()
	close(quit)
	wg.Wait()
	return list
}

// resident is the memory that the process has, in bytes.
func resident(b *testing.B) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	w := strings.Fields(string(text))
	n, err := strconv.ParseInt(w[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n * int64(os.Getpagesize())
}
