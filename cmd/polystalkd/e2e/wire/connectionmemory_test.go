package wire

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestConnectionsTogetherAreBounded: many clients send ahead, or leave their replies
// unread, as much as each is allowed for itself. The server's memory stays about within
// the bound for all of them, and a client that reads its replies is served beside them.
func TestConnectionsTogetherAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const (
		clients = 300
		most    = 32 << 20
		slack   = 64 << 20 // of the collector, the kernel's pages and the connections themselves
	)
	for _, tt := range []struct{ name, text string }{
		{"commands sent ahead", "reserve\r\n" + string(bytes.Repeat([]byte("stats-job 77777\r\n"), 100_000))},
		{"replies unread", string(bytes.Repeat([]byte("peek 1\r\n"), 200))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := daemon.Start(t, append(daemon.ShardArgs(4), "--connection-memory", fmt.Sprint(most))...)
			was := daemon.Memory(s)
			if was == 0 {
				t.Skip("the system does not tell a process's memory")
			}
			c, err := net.Dial("tcp", s.Address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			ask := func(line string, body int, want string) {
				t.Helper()
				if _, err := c.Write(append([]byte(line), bytes.Repeat([]byte("x"), body)...)); err != nil {
					t.Fatal(err)
				}
				if body > 0 {
					c.Write([]byte("\r\n"))
				}
				got := make([]byte, len(want))
				for n := 0; n < len(got); {
					k, err := c.Read(got[n:])
					if err != nil {
						t.Fatal(err)
					}
					n += k
				}
				if string(got) != want {
					t.Fatalf("%q: got %q, want %q", line, got, want)
				}
			}
			ask("use other\r\n", 0, "USING other\r\n")
			ask("put 0 0 60 60000\r\n", 60000, "INSERTED 1\r\n")

			var all sync.WaitGroup
			for range clients {
				f, err := net.Dial("tcp", s.Address)
				if err != nil {
					t.Fatal(err)
				}
				defer daemon.Reset(f)
				all.Go(func() {
					f.SetWriteDeadline(time.Now().Add(2 * time.Second))
					f.Write([]byte(tt.text)) // as much as goes
				})
			}
			all.Wait()
			ask("stats-job 2\r\n", 0, "NOT_FOUND\r\n")
			ask("put 0 0 60 5\r\n", 5, "INSERTED 2\r\n")
			time.Sleep(time.Second)
			daemon.Bounded(t, s, was, most+slack)
			t.Logf("%d MB more", (daemon.Memory(s)-was)>>20)
			ask("delete 2\r\n", 0, "DELETED\r\n")
		})
	}
}
