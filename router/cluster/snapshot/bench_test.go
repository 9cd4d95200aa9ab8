package snapshot

import (
	"context"
	"net"
	"testing"

	"polystalk/shard/wal"
)

// BenchmarkStream is a journal of 256 MB that moves between two directories over a connection.
func BenchmarkStream(b *testing.B) {
	segmentSize = 10 << 20
	defer func() { segmentSize = wal.SegmentMin }()
	t := &testing.T{}
	n := start(t, wal.Dir(b.TempDir()))
	for range 64 {
		for range 64 {
			n.id++
			n.put(1, 60_000)
		}
	}
	defer n.close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for b.Loop() {
		done := make(chan error)
		go func() {
			c, err := l.Accept()
			if err == nil {
				defer c.Close()
				_, err = sendTo(c, n, SendOptions{})
			}
			done <- err
		}()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		r, err := Receive(context.Background(), c, wal.Dir(b.TempDir()), ReceiveOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		b.SetBytes(r.Bytes)
		if err := r.Discard(); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}
