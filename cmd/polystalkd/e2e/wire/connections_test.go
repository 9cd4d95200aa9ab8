package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// nothingLeft checks that no job, tube, waiter or connection outlived a test, but for open
// connections.
func nothingLeft(t *testing.T, s *conversation.Server, open uint64) {
	t.Helper()
	for key, want := range map[string]uint64{
		"current-jobs-ready": 0, "current-jobs-reserved": 0, "current-jobs-delayed": 0, "current-jobs-buried": 0,
		"current-waiting": 0, "current-tubes": 1, "current-connections": open,
	} {
		daemon.AwaitStat(t, s, key, want)
	}
}

// openFiles returns a process's descriptors, with what each is; nil where the system does not
// tell. Descriptors of event loops themselves are left out: a loop that starts late opens its
// own when others already serve.
func openFiles(s *conversation.Server) (all []string) {
	dir := fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid)
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		if !errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(to, "anon_inode:") {
			all = append(all, e.Name()+" "+to)
		}
	}
	return all
}

// awaitDescriptors waits until no more descriptors are open than there were.
func awaitDescriptors(t *testing.T, s *conversation.Server, was int) {
	t.Helper()
	var now []string
	for end := time.Now().Add(conversation.Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if now = openFiles(s); len(now) <= was {
			return
		}
	}
	t.Errorf("%d descriptors are open, there were %d: %s", len(now), was, strings.Join(now, ", "))
}

// startWithDescriptors starts the daemon with at most n descriptors.
func startWithDescriptors(t *testing.T, n int, args ...string) *conversation.Server {
	t.Helper()
	script := filepath.Join(t.TempDir(), "few-descriptors")
	text := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec '%s' \"$@\"\n", n, daemon.Program(t))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := conversation.StartServer(script, append(daemon.ShardArgs(4), args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// TestShortConnectionsLeaveNothing: connections put, reserve and delete a job in a tube of
// their own, and then end in each way: closed or reset, with a job held, in the middle of a
// body, or waiting.
func TestShortConnectionsLeaveNothing(t *testing.T) {
	n := daemon.Amount(t, "POLYSTALKD_CHURN", 15000)
	if testing.Short() {
		n = 1000
	}
	s := daemon.Start(t, daemon.ShardArgs(4)...)
	churn := func(n int) {
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range n / 8 {
					if err := shortLife(s.Address, worker, i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		daemon.AwaitStat(t, s, "current-connections", 0)
		// Jobs that were held are ready again.
		c := daemon.Client(t, s)
		for _, id := range held(t, c) {
			daemon.Expect(t, c, "delete "+id+"\r\n", "DELETED\r\n")
		}
		c.Close()
		nothingLeft(t, s, 0)
	}
	churn(n / 5) // until pools and buffers have their size
	was, open := daemon.Memory(s), len(openFiles(s))
	churn(n - n/5)
	daemon.Bounded(t, s, was, 16<<20)
	awaitDescriptors(t, s, open)
}

// held reserves all ready jobs of the tube held, and returns their ids.
func held(t *testing.T, c *conversation.Client) (ids []string) {
	t.Helper()
	daemon.Expect(t, c, "watch held\r\n", "WATCHING 2\r\n")
	for {
		reply := strings.Fields(daemon.MustAsk(t, c, "reserve-with-timeout 0\r\n"))
		if reply[0] != "RESERVED" {
			return ids
		}
		ids = append(ids, reply[1])
	}
}

func shortLife(address string, worker, i int) error {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer func() {
		if i%2 == 0 {
			daemon.ResetClient(c)
		}
		c.Close()
	}()
	tube := fmt.Sprintf("w%d-%d", worker, i)
	if i%20 == 1 {
		tube = "held"
	}
	commands := fmt.Sprintf("use %s\r\nwatch %s\r\nignore default\r\nput 0 0 100 5\r\nhello\r\nreserve\r\n", tube, tube)
	if err := c.Say([]byte(commands)); err != nil {
		return err
	}
	id := ""
	for _, want := range []string{"USING ", "WATCHING 2", "WATCHING 1", "INSERTED ", "RESERVED "} {
		reply, err := c.Reply(conversation.Patience)
		if err != nil || !bytes.HasPrefix(reply, []byte(want)) {
			return fmt.Errorf("got %q, %v, want %s", reply, err, want)
		}
		id = strings.Fields(string(reply))[1]
	}
	if tube == "held" {
		return nil
	}
	if reply, err := c.Ask("delete " + id + "\r\n"); err != nil || string(reply) != "DELETED\r\n" {
		return fmt.Errorf("delete: %q, %v", reply, err)
	}
	switch i % 3 {
	case 0:
		return c.Say([]byte("reserve\r\nstats\r\n"))
	case 1:
		return c.Say([]byte("put 0 0 100 60000\r\n" + strings.Repeat("h", 30000)))
	}
	return nil
}

// tryConnection returns a new connection that is served, or nil.
func tryConnection(address string) *conversation.Client {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return nil
	}
	if err := c.Say([]byte("list-tube-used\r\n")); err == nil && c.Ready(4*conversation.Silence) {
		if reply, err := c.Reply(conversation.Patience); err == nil && string(reply) == "USING default\r\n" {
			return c
		}
	}
	c.Close()
	return nil
}

// TestTooManyConnectionsAreRefused: without a free place or descriptor connections are
// refused, and served again once others have left.
func TestTooManyConnectionsAreRefused(t *testing.T) {
	recovers := func(t *testing.T, s *conversation.Server) {
		t.Helper()
		for end := time.Now().Add(conversation.Patience); time.Now().Before(end); {
			if c := tryConnection(s.Address); c != nil {
				c.Close()
				return
			}
		}
		t.Fatal("no connection is served again")
	}
	for name, tt := range map[string]struct{ descriptors, least, most int }{
		"limit":       {1000, 10, 10},
		"descriptors": {64, 1, 64},
	} {
		t.Run(name, func(t *testing.T) {
			limit := tt.most
			if name == "descriptors" {
				limit = 1000 // above the descriptors, so that they run out first
				if testing.Short() {
					t.Skip("long")
				}
			}
			s := startWithDescriptors(t, tt.descriptors, "--max-connections", fmt.Sprint(limit))
			for range 3 {
				var crowd []*conversation.Client
				for refused := 0; refused < 10 && len(crowd) <= tt.most; refused++ {
					if c := tryConnection(s.Address); c != nil {
						crowd, refused = append(crowd, c), -1
					}
				}
				if len(crowd) < tt.least || len(crowd) > tt.most {
					t.Fatalf("%d connections are served, want %d to %d", len(crowd), tt.least, tt.most)
				}
				for i, c := range crowd {
					daemon.Expect(t, c, "list-tube-used\r\n", "USING default\r\n")
					c.Close()
					if i == len(crowd)/2 {
						recovers(t, s)
					}
				}
				recovers(t, s)
			}
			nothingLeft(t, s, 0)
		})
	}
}
