//go:build linux

package keep

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// announcePart sends the line of a large put and the beginning of its body.
func announcePart(t *testing.T, c *conversation.Client, size, sent int) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "put 5 0 1000 %d\r\n%s", size, strings.Repeat("a", sent)); err != nil {
		t.Fatal(err)
	}
}

// comesTrue waits for something that the server does by itself.
func comesTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(daemon.Hang); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// TestRoomGoesWithItsClient: what was announced, or has come in part, takes no room once
// its client has gone, and neither the disk nor the descriptors before it comes.
func TestRoomGoesWithItsClient(t *testing.T) {
	for _, sent := range []int{0, 5 << 20} {
		dir := daemon.SmallDisk(t, 16<<20)
		s := startKept(t, dir, "-s", "262144", "-z", "1000000000")
		c := daemon.Client(t, s)
		daemon.MustAsk(t, c, "put 5 0 1000 1\r\nx\r\n")
		files := len(descriptorsOf(t, s))
		const clients = 2
		var gone []*conversation.Client
		for range clients {
			b := daemon.Client(t, s)
			announcePart(t, b, 8<<20, sent/clients)
			gone = append(gone, b)
		}
		daemon.MustAsk(t, c, "put 5 0 1000 1\r\ny\r\n")
		if n := len(descriptorsOf(t, s)); n > files+clients+25 {
			t.Errorf("%d bytes sent of each: %d descriptors, %d before", sent/clients, n, files)
		}
		for _, b := range gone {
			daemon.ResetClient(b)
		}
		comesTrue(t, fmt.Sprintf("%d bytes sent: files of %d that are gone stay", sent, clients), func() bool { return len(segments(t, dir)) <= 3 })
		if reply := daemon.MustAsk(t, c, "put 5 0 1000 %d\r\n%s\r\n", 6<<20, strings.Repeat("b", 6<<20)); !strings.HasPrefix(reply, "INSERTED ") {
			t.Errorf("a body for which there is room: %q", reply)
		}
	}
}

// descriptorsOf are a server's.
func descriptorsOf(t *testing.T, s *conversation.Server) (numbers []int) {
	t.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		n, _ := strconv.Atoi(name.Name())
		numbers = append(numbers, n)
	}
	return numbers
}

// TestBodiesThatFitOnlyOneAtATime arrive together: each is answered, one is taken, and
// what comes behind the others' is not harmed.
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
