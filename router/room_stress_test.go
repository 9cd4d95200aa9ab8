package router_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/shard/wal"
)

// roomScript is what a client of one protocol sends, all at once: what needs room,
// what frees it, and what comes to nothing.
func roomScript(rng *rand.Rand, gear bool) []byte {
	var b bytes.Buffer
	size := func() int {
		switch rng.IntN(4) {
		case 0:
			return 70_000 + rng.IntN(250_000)
		case 1:
			return rng.IntN(60_000)
		}
		return rng.IntN(300)
	}
	for range 5 + rng.IntN(20) {
		id, n := 1+rng.IntN(3000), size()
		f, u := fmt.Sprintf("f%d", rng.IntN(8)), fmt.Sprintf("u%d", rng.IntN(8))
		if gear {
			switch rng.IntN(7) {
			case 5, 6: // joined by one that has it kept
				b.WriteString(packet(gearman.SubmitJob, f, u, strings.Repeat("g", 70_000+n)))
				b.WriteString(packet(gearman.SubmitJobBG, f, u, strings.Repeat("b", size())))
			case 0, 1:
				b.WriteString(packet(gearman.SubmitJob, f, u, strings.Repeat("g", n)))
			case 2, 3:
				b.WriteString(packet(gearman.SubmitJobBG, f, u, strings.Repeat("b", n)))
			default:
				b.WriteString(packet(gearman.CanDo, f) + packet(gearman.GrabJob) + packet(gearman.CantDo, f))
			}
			continue
		}
		switch rng.IntN(14) {
		case 12: // in parts
			b.WriteString("use " + f + "\r\n" + strings.Repeat("put 1 1000 100 1\r\nk\r\n", 1500) + "kick 5000\r\n")
		case 0, 1:
			fmt.Fprintf(&b, "use %s\r\nput 1 %d 100 %d\r\n%s\r\n", f, rng.IntN(2)*1000, n, strings.Repeat("p", n))
		case 2:
			fmt.Fprintf(&b, "put 1 0 100 %d\r\n%s##", n, strings.Repeat("p", n)) // no end
		case 3:
			n = 1 << 20
			fmt.Fprintf(&b, "put 1 0 100 %d\r\n%s\r\n", n+1, strings.Repeat("t", n+1))
		case 4:
			fmt.Fprintf(&b, "put 1 0 100 %d x\r\n", n)
		case 5, 6:
			for i := range 20 {
				fmt.Fprintf(&b, "reserve-job %d\r\nbury %d 3\r\n", id+i, id+i)
			}
		case 7:
			fmt.Fprintf(&b, "reserve-job %d\r\nrelease %d 3 1000\r\n", id, id)
		case 8:
			fmt.Fprintf(&b, "use %s\r\nkick 5000\r\npause-tube %s %d\r\n", f, f, rng.IntN(2)*1000)
		default:
			for i := range 300 {
				fmt.Fprintf(&b, "delete %d\r\n", id+i)
			}
		}
	}
	return b.Bytes()
}

// TestRoomForAll: clients of both protocols send commands that need room, on a disk that is
// full now and then, and some leave in the middle of a command. A client that only stops
// sending is answered, and in the end no room is reserved and no command runs.
func TestRoomForAll(t *testing.T) {
	d := &fillingDisk{Disk: wal.Dir(t.TempDir())}
	srv, err := router.New(router.Config{
		Loops: 2, Shards: 16, MaxJobSize: 1 << 20, Gearman: router.GearmanConfig{Prefix: "H:x", Retries: 100, BuryFailed: true},
		Journal: &router.Journal{Disk: d, SegmentSize: 1 << 18, Sync: wal.SyncEvery, Every: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	var addresses [2]string
	for i, serve := range []func(net.Listener) error{srv.Serve, srv.ServeGearman} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = l.Addr().String()
		go serve(l)
	}
	var clients, disk sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range 5 {
				if err := roomClient(rng, addresses[i%2], i%2 == 1); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	ctx, over := context.WithCancel(t.Context())
	disk.Go(func() {
		for full := true; ctx.Err() == nil; full = !full {
			d.full.Store(full)
			time.Sleep(5 * time.Millisecond)
		}
		d.full.Store(false)
	})
	clients.Wait()
	over()
	disk.Wait()
	eventually(t, func() bool { return srv.Host().Sums().Connections == 0 })
	eventually(t, func() bool {
		st := srv.Host().Journal.Stats()
		return st.Promised == 0 && st.Pending == 0
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// roomClient is one connection. It leaves in the middle, or sends all and reads to the
// end.
func roomClient(rng *rand.Rand, address string, gear bool) error {
	n, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	c := n.(*net.TCPConn)
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	text := roomScript(rng, gear)
	leaves := rng.IntN(2) == 0
	if leaves {
		text = text[:rng.IntN(len(text))]
		c.SetLinger(rng.IntN(2) - 1)
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c)
		read <- err
	}()
	for len(text) > 0 {
		k := min(len(text), 1+rng.IntN(100_000))
		if _, err := c.Write(text[:k]); err != nil {
			return err
		}
		text = text[k:]
	}
	if leaves {
		time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
		return nil
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	if err := <-read; err != nil {
		return fmt.Errorf("after the last command: %w", err)
	}
	return nil
}

// eventually fails unless ok comes about.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("it does not come about")
}
