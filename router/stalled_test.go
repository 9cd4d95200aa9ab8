package router_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/router"
	"polystalk/shard/wal"
)

// A stallingDisk is a directory that does not sync files while it stalls.
type stallingDisk struct {
	wal.Disk
	mu      sync.Mutex
	moves   *sync.Cond
	stalls  bool
	waiting int
}

type stallingFile struct {
	wal.File
	d *stallingDisk
}

func newStallingDisk(dir string) *stallingDisk {
	d := &stallingDisk{Disk: wal.Dir(dir)}
	d.moves = sync.NewCond(&d.mu)
	return d
}

func (d *stallingDisk) stall(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stalls = on
	d.moves.Broadcast()
}

// stalled waits until somebody waits for a sync.
func (d *stallingDisk) stalled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.waiting == 0 {
		d.moves.Wait()
	}
}

func (d *stallingDisk) Create(name string) (wal.File, error) {
	f, err := d.Disk.Create(name)
	return stallingFile{f, d}, err
}

func (d *stallingDisk) Open(name string) (wal.File, error) {
	f, err := d.Disk.Open(name)
	return stallingFile{f, d}, err
}

func (f stallingFile) Sync() error {
	d := f.d
	d.mu.Lock()
	d.waiting++
	d.moves.Broadcast()
	for d.stalls {
		d.moves.Wait()
	}
	d.waiting--
	d.mu.Unlock()
	return f.File.Sync()
}

// serveKept runs a server with a journal on a disk.
func serveKept(t *testing.T, disk wal.Disk) (address string, stop func()) {
	t.Helper()
	srv, err := router.New(router.Config{Loops: 1, Shards: 2, MaxJobSize: 1 << 20, Journal: &router.Journal{Disk: disk, SegmentSize: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	return l.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}
}

// TestStalledDisk: while the disk does nothing nobody is told of anything,
// what clients go on sending is not all taken in, and when the disk is back
// everybody is answered.
func TestStalledDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	disk := newStallingDisk(t.TempDir())
	address, stop := serveKept(t, disk)
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		return c, bufio.NewReader(c)
	}
	line := func(r *bufio.Reader) string {
		t.Helper()
		s, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, in := dial()
	fmt.Fprint(first, "put 0 0 100 3\r\nabc\r\n")
	if got := line(in); got != "INSERTED 1\r\n" {
		t.Fatal(got)
	}

	disk.stall(true)
	var was, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&was)
	const clients, puts, size = 8, 400, 20_000
	put := fmt.Appendf(nil, "put 0 0 100 %d\r\n%s\r\n", size, strings.Repeat("s", size))
	var sent sync.WaitGroup
	var conns []net.Conn
	var ins []*bufio.Reader
	for range clients {
		c, r := dial()
		conns, ins = append(conns, c), append(ins, r)
		sent.Go(func() {
			for range puts {
				if _, err := c.Write(put); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	disk.stalled()
	// A reply that depends on no commit is sent at once, to a client that waits for nothing.
	for range 200 {
		fmt.Fprint(first, "peek 1\r\nlist-tube-used\r\n")
		if got := line(in) + line(in) + line(in); got != "FOUND 1 3\r\nabc\r\nUSING default\r\n" {
			t.Fatal(got)
		}
	}
	// 64 MB are on their way. The server takes in what it has prepared space for, and
	// a megabyte or so for each connection.
	jobs := func(in *bufio.Reader) (n int) {
		t.Helper()
		var size int
		fmt.Sscanf(line(in), "OK %d", &size)
		body := make([]byte, size+2)
		if _, err := io.ReadFull(in, body); err != nil {
			t.Fatal(err)
		}
		_, ready, _ := strings.Cut(string(body), "current-jobs-ready: ")
		fmt.Sscanf(ready, "%d", &n)
		return n
	}
	for was, same := 0, 0; same < 10; {
		fmt.Fprint(first, "stats-tube default\r\n")
		if n := jobs(in); n > 8<<20/size {
			t.Fatalf("%d jobs were taken in", n)
		} else if n == was {
			same++
		} else {
			was, same = n, 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	runtime.GC()
	runtime.ReadMemStats(&now)
	if grown := int64(now.HeapAlloc) - int64(was.HeapAlloc); grown > 40<<20 {
		t.Errorf("the heap has grown by %d kB", grown>>10)
	}
	t.Logf("%d kB more on the heap", (int64(now.HeapAlloc)-int64(was.HeapAlloc))>>10)
	// And nobody was told of a put.
	for i, c := range conns {
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if b, err := ins[i].Peek(1); err == nil {
			t.Errorf("client %d got %q", i, b)
		}
		c.SetReadDeadline(time.Now().Add(time.Minute))
	}

	disk.stall(false)
	seen := make(map[string]bool)
	for i := range conns {
		for k := range puts {
			got := line(ins[i])
			if !strings.HasPrefix(got, "INSERTED ") || seen[got] {
				t.Fatalf("client %d, put %d: %q", i, k, got)
			}
			seen[got] = true
		}
	}
	sent.Wait()
	stop()

	// All of it is there.
	address, stop = serveKept(t, disk)
	defer stop()
	last, in := dial()
	fmt.Fprint(last, "stats-tube default\r\n")
	if n := jobs(in); n != clients*puts+1 {
		t.Errorf("%d jobs are back, want %d", n, clients*puts+1)
	}
}

// TestNobodySeesWhatMayVanish: a job with a put that is not on the disk is given to
// no client and shown to no client. A client that asks for it is answered once the put is durable.
func TestNobodySeesWhatMayVanish(t *testing.T) {
	disk := newStallingDisk(t.TempDir())
	address, stop := serveKept(t, disk)
	defer stop()
	defer disk.stall(false) // or the end would wait for it
	says := func(command string) (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(20 * time.Second))
		t.Cleanup(func() { c.Close() })
		fmt.Fprint(c, command)
		return c, bufio.NewReader(c)
	}
	control, in := says("")
	round := func(n int) {
		t.Helper()
		for range n {
			fmt.Fprint(control, "list-tube-used\r\n")
			if got, err := in.ReadString('\n'); got != "USING default\r\n" {
				t.Fatal(got, err)
			}
		}
	}
	type asking struct {
		c    net.Conn
		r    *bufio.Reader
		want string
	}
	var all []asking
	ask := func(command, want string) {
		c, r := says(command)
		all = append(all, asking{c, r, strings.ReplaceAll(want, "\n", "\r\n")})
	}
	ask("watch a\r\nreserve\r\n", "WATCHING 2\nRESERVED 1 3\nabc\n")
	if got, err := all[0].r.ReadString('\n'); got != "WATCHING 2\r\n" {
		t.Fatal(got, err)
	}
	all[0].want = "RESERVED 1 3\r\nabc\r\n"
	ask("use a\r\n", "INSERTED 1\nUSING a\n")
	if got, err := all[1].r.ReadString('\n'); got != "USING a\r\n" {
		t.Fatal(got, err)
	}
	round(10)
	disk.stall(true)
	fmt.Fprint(all[1].c, "put 0 0 100 3\r\nabc\r\nlist-tube-used\r\n")
	disk.stalled()
	ask("peek 1\r\n", "FOUND 1 3\nabc\n")
	ask("stats-job 1\r\n", "OK ")
	ask("put 0 0 100 1\r\nx\r\nreserve-job 2\r\ndelete 2\r\nlist-tube-used\r\nquit\r\n", "INSERTED 2\nRESERVED 2 1\nx\nDELETED\nUSING default\n")
	round(300)
	for i, a := range all {
		a.c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if b, err := a.r.Peek(1); err == nil {
			t.Errorf("client %d was told %q", i, b)
		}
		a.c.SetReadDeadline(time.Now().Add(time.Minute))
	}
	disk.stall(false)
	for i, a := range all {
		got := make([]byte, len(a.want))
		if _, err := io.ReadFull(a.r, got); err != nil || string(got) != a.want {
			t.Errorf("client %d: got %q, %v; want %q", i, got, err, a.want)
		}
	}
}
