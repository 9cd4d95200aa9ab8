package router_test

import (
	"fmt"
	"io"
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

// stalled waits until a sync is blocked.
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

// serveOn serves with a journal on a disk.
func serveOn(t *testing.T, disk wal.Disk) *liveServer {
	t.Helper()
	return serve(t, router.Config{Loops: 1, Shards: 2, MaxJobSize: 1 << 20, Journal: &router.Journal{Disk: disk, SegmentSize: 1 << 20}})
}

// TestStalledDisk: while the disk stalls, no change is acknowledged and the server stops reading
// input. When the disk continues, every client gets its replies.
func TestStalledDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	disk := newStallingDisk(t.TempDir())
	s := serveOn(t, disk)
	first := s.dial(s.beans)
	first.say("put 0 0 100 3\r\nabc\r\n")
	first.hears("INSERTED 1\r\n")

	disk.stall(true)
	var was, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&was)
	const clients, puts, size = 8, 400, 20_000
	put := fmt.Appendf(nil, "put 0 0 100 %d\r\n%s\r\n", size, strings.Repeat("s", size))
	var sent sync.WaitGroup
	var conns []*remote
	for range clients {
		c := s.dial(s.beans)
		conns = append(conns, c)
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
	// A reply that depends on no commit is sent at once.
	for range 200 {
		first.say("peek 1\r\nlist-tube-used\r\n")
		first.hears("FOUND 1 3\r\nabc\r\nUSING default\r\n")
	}
	// The clients send 64 MB. The server accepts as much as it has prepared space for, and about a
	// megabyte for each connection.
	jobs := func(k *remote) (n int) {
		t.Helper()
		var size int
		fmt.Sscanf(k.ask("stats-tube default"), "OK %d", &size)
		body := make([]byte, size+2)
		if _, err := io.ReadFull(k.r, body); err != nil {
			t.Fatal(err)
		}
		_, ready, _ := strings.Cut(string(body), "current-jobs-ready: ")
		fmt.Sscanf(ready, "%d", &n)
		return n
	}
	for was, same := 0, 0; same < 10; {
		if n := jobs(first); n > 8<<20/size {
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
	// No put was acknowledged.
	for i, c := range conns {
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if b, err := c.r.Peek(1); err == nil {
			t.Errorf("client %d got %q", i, b)
		}
		c.SetReadDeadline(time.Now().Add(time.Minute))
	}

	disk.stall(false)
	seen := make(map[string]bool)
	for i, c := range conns {
		for k := range puts {
			got := c.line()
			if !strings.HasPrefix(got, "INSERTED ") || seen[got] {
				t.Fatalf("client %d, put %d: %q", i, k, got)
			}
			seen[got] = true
		}
	}
	sent.Wait()
	s.end()
	s = serveOn(t, disk)
	if n := jobs(s.dial(s.beans)); n != clients*puts+1 {
		t.Errorf("%d jobs are back, want %d", n, clients*puts+1)
	}
}

// TestNoClientSeesAChangeThatIsNotDurable: no client gets or sees a job with a put that is not
// durable. A client that asks for it gets the reply once the put is durable.
func TestNoClientSeesAChangeThatIsNotDurable(t *testing.T) {
	disk := newStallingDisk(t.TempDir())
	s := serveOn(t, disk)
	t.Cleanup(func() { disk.stall(false) }) // else the shutdown would wait for it
	control := s.dial(s.beans)
	round := func(n int) {
		t.Helper()
		for range n {
			control.say("list-tube-used\r\n")
			control.hears("USING default\r\n")
		}
	}
	type asking struct {
		*remote
		want string
	}
	var all []asking
	ask := func(command, want string) *remote {
		k := s.dial(s.beans)
		k.say(command)
		all = append(all, asking{k, strings.ReplaceAll(want, "\n", "\r\n")})
		return k
	}
	ask("watch a\r\nreserve\r\n", "RESERVED 1 3\nabc\n").hears("WATCHING 2\r\n")
	producer := ask("use a\r\n", "INSERTED 1\nUSING a\n")
	producer.hears("USING a\r\n")
	round(10)
	disk.stall(true)
	producer.say("put 0 0 100 3\r\nabc\r\nlist-tube-used\r\n")
	disk.stalled()
	ask("peek 1\r\n", "FOUND 1 3\nabc\n")
	ask("stats-job 1\r\n", "OK ")
	ask("put 0 0 100 1\r\nx\r\nreserve-job 2\r\ndelete 2\r\nlist-tube-used\r\nquit\r\n", "INSERTED 2\nRESERVED 2 1\nx\nDELETED\nUSING default\n")
	round(300)
	for i, a := range all {
		a.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if b, err := a.r.Peek(1); err == nil {
			t.Errorf("client %d got %q", i, b)
		}
		a.SetReadDeadline(time.Now().Add(time.Minute))
	}
	disk.stall(false)
	for i, a := range all {
		got := make([]byte, len(a.want))
		if _, err := io.ReadFull(a.r, got); err != nil || string(got) != a.want {
			t.Errorf("client %d: got %q, %v; want %q", i, got, err, a.want)
		}
	}
}
