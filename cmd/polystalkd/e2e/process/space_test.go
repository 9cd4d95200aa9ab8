//go:build linux

package process

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// TestBodiesThatFitOnlyOneAtATime: of bodies that arrive together one is accepted. Each gets a
// reply, and the command after each is not affected.
func TestBodiesThatFitOnlyOneAtATime(t *testing.T) {
	dir := daemon.SmallDisk(t, 40<<20)
	s := startKept(t, dir, "-s", "1048576", "-z", "1000000000")
	const size, half = 24 << 20, 12 << 20
	var clients []*conversation.Client
	for range 3 {
		clients = append(clients, daemon.Client(t, s))
	}
	var mu sync.Mutex
	var taken []uint64
	var running sync.WaitGroup
	for _, c := range clients {
		running.Go(func() {
			if _, err := fmt.Fprintf(c, "put 5 0 1000 %d\r\n", size); err != nil {
				t.Error(err)
				return
			}
			part := []byte(strings.Repeat("p", half/8))
			for range 16 {
				if _, err := c.Write(part); err != nil {
					t.Error(err)
					return
				}
			}
			if _, err := io.WriteString(c, "\r\nlist-tube-used\r\n"); err != nil {
				t.Error(err)
				return
			}
			reply, err := c.Reply(conversation.Patience)
			var id uint64
			if _, scan := fmt.Sscanf(string(reply), "INSERTED %d\r\n", &id); scan == nil {
				mu.Lock()
				taken = append(taken, id)
				mu.Unlock()
			} else if string(reply) != "OUT_OF_MEMORY\r\n" {
				t.Errorf("%.60q (%v)", reply, err)
			}
			if reply, err := c.Reply(conversation.Patience); string(reply) != "USING default\r\n" {
				t.Errorf("%.60q (%v) behind it", reply, err)
			}
		})
	}
	running.Wait()
	if len(taken) != 1 {
		t.Errorf("%d are taken", len(taken))
	}
	c := daemon.Client(t, s)
	for _, id := range taken {
		daemon.Expect(t, c, fmt.Sprintf("delete %d\r\n", id), "DELETED\r\n")
	}
	accepted(t, c)
}
