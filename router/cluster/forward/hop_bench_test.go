package forward

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"polystalk/router"
	"polystalk/router/cluster/transport"
)

// BenchmarkHop sends batches of commands and waits for the replies, at the leader and through a
// follower.
func BenchmarkHop(b *testing.B) {
	for _, way := range []string{"leader", "follower", "follower-tls"} {
		for _, batch := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("%s/%d", way, batch), func(b *testing.B) { hop(b, way, batch) })
		}
	}
}

func hop(b *testing.B, way string, batch int) {
	var security func(string) *transport.Security
	if way == "follower-tls" {
		security = authority(b)
	}
	nodes := newCluster(b, 2, security, nil)
	w := serveAt(b, nodes, router.Config{Loops: 1})
	c := dialTo(b, w.beans)
	if way == "leader" {
		l := listen(b, "tcp", "127.0.0.1:0")
		go w.srv.Serve(l)
		c = dialTo(b, l.Addr())
	}
	say := strings.Repeat("use a\r\n", batch)
	in := bufio.NewReaderSize(c, 64<<10)
	for b.Loop() {
		if _, err := io.WriteString(c, say); err != nil {
			b.Fatal(err)
		}
		if _, err := in.Discard(batch * len("USING a\r\n")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/command")
}
