package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// nothingLeft checks that no job, tube, waiter or connection outlived a test;
// open is how many connections still are.
func nothingLeft(t *testing.T, s *conversation.Server, open uint64) {
	t.Helper()
	for _, key := range []string{"current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed", "current-jobs-buried", "current-waiting"} {
		daemon.AwaitStat(t, s, key, 0)
	}
	daemon.AwaitStat(t, s, "current-tubes", 1)
	daemon.AwaitStat(t, s, "current-connections", open)
}

// cutOff checks what became of a client that feeds more than anyone should
// hold: the server has closed it, or reads no more of it and still counts it
// as a connection, besides others. It is closed from this end too.
func cutOff(t *testing.T, s *conversation.Server, c *conversation.Client, fed <-chan error, others uint64) {
	t.Helper()
	defer daemon.ResetClient(c)
	select {
	case err := <-fed:
		if err == nil {
			t.Error("the server took all of it")
		}
		return
	case <-time.After(3 * time.Second):
	}
	daemon.AwaitStat(t, s, "current-connections", others+1)
	daemon.ResetClient(c)
	<-fed
}

// openFiles are a process's open descriptors, with what each is; nil where the system does
// not tell. Those that event loops have for themselves are left out: a loop that starts late
// opens its own when others serve already.
func openFiles(s *conversation.Server) (all []string) {
	dir := fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid)
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range list {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed since
		}
		if strings.HasPrefix(to, "anon_inode:") {
			continue
		}
		all = append(all, e.Name()+" "+to)
	}
	return all
}

func descriptors(s *conversation.Server) int { return len(openFiles(s)) }

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

func TestSlowReaderGetsEveryReply(t *testing.T) {
	s := daemon.Start(t, daemon.ShardArgs(4)...)
	other := daemon.Client(t, s)
	body := strings.Repeat("b", 60000)
	daemon.Expect(t, other, "put 0 0 100 60000\r\n"+body+"\r\n", "INSERTED 1\r\n")
	was := daemon.Memory(s)

	// 300 MB of replies to 50 kB of commands, unread for now.
	const n = 5000
	slow := daemon.Client(t, s)
	if err := <-daemon.Feed(slow, bytes.Repeat([]byte("peek 1\r\n"), n)); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		daemon.Expect(t, other, "list-tube-used\r\n", "USING default\r\n")
	}
	daemon.Bounded(t, s, was, 32<<20)
	want := "FOUND 1 60000\r\n" + body + "\r\n"
	for i := range n {
		got, err := slow.Reply(conversation.Patience)
		if err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
		if string(got) != want {
			t.Fatalf("reply %d is another one: %.80q", i, got)
		}
	}
	daemon.Expect(t, slow, "list-tube-used\r\n", "USING default\r\n")
}

// TestPausedClientGetsEveryReply: a client sends more than the server holds
// before it reads the first of its replies. The server stops reading, and reads
// on as the replies go.
func TestPausedClientGetsEveryReply(t *testing.T) {
	s := daemon.Start(t, daemon.ShardArgs(4)...)
	other := daemon.Client(t, s)
	body := strings.Repeat("b", 5000)
	daemon.Expect(t, other, "put 0 0 100 5000\r\n"+body+"\r\n", "INSERTED 1\r\n")
	was := daemon.Memory(s)
	open := descriptors(s)

	// 5 MB of commands, the first of which fill the way back, so that the
	// rest waits.
	const peeks, lists = 5000, 300_000
	slow := daemon.Client(t, s)
	fed := daemon.Feed(slow, bytes.Repeat([]byte("peek 1\r\n"), peeks), bytes.Repeat([]byte("list-tube-used\r\n"), lists))
	for range 1000 {
		daemon.Expect(t, other, "list-tube-used\r\n", "USING default\r\n")
	}
	daemon.Bounded(t, s, was, 32<<20)
	want := "FOUND 1 5000\r\n" + body + "\r\n"
	for i := range peeks + lists {
		if i == peeks {
			want = "USING default\r\n"
		}
		got, err := slow.Reply(conversation.Patience)
		if err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
		if string(got) != want {
			t.Fatalf("reply %d is another one: %.80q", i, got)
		}
	}
	if err := <-fed; err != nil {
		t.Error(err)
	}
	daemon.Expect(t, slow, "list-tube-used\r\n", "USING default\r\n")
	slow.Close()
	awaitDescriptors(t, s, open)
}

func TestNeverReadingClientHurtsNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := daemon.Start(t, daemon.ShardArgs(4)...)
	other := daemon.Client(t, s)
	daemon.Expect(t, other, "put 0 0 100 1000\r\n"+strings.Repeat("b", 1000)+"\r\n", "INSERTED 1\r\n")
	was, open := daemon.Memory(s), descriptors(s)

	// As much as the server takes, at most 64 MB of commands.
	deaf := daemon.Client(t, s)
	if tcp, ok := deaf.Conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	chunk := bytes.Repeat([]byte("peek 1\r\n"), 128<<10)
	var parts [][]byte
	for range 64 {
		parts = append(parts, chunk)
	}
	fed := daemon.Feed(deaf, parts...)
	for range 2000 {
		daemon.Expect(t, other, "list-tube-used\r\n", "USING default\r\n")
	}
	cutOff(t, s, deaf, fed, 1)
	daemon.Bounded(t, s, was, 32<<20)
	awaitDescriptors(t, s, open)
	daemon.AwaitStat(t, s, "current-connections", 1)
	daemon.Expect(t, other, "delete 1\r\n", "DELETED\r\n")
}

func TestCommandsBehindAWaitingReserveRunInOrder(t *testing.T) {
	s := daemon.Start(t, daemon.ShardArgs(4)...)
	c, other := daemon.Client(t, s), daemon.Client(t, s)
	var b bytes.Buffer
	b.WriteString("reserve\r\n")
	n := 0
	for ; b.Len() < 1000000; n++ {
		fmt.Fprintf(&b, "use tube-%d\r\n", n)
	}
	fed := daemon.Feed(c, b.Bytes())
	daemon.AwaitStat(t, s, "current-waiting", 1)
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	if c.Ready(conversation.Silence) {
		t.Fatal("something was answered before the reserve")
	}
	daemon.Expect(t, other, "put 0 0 100 1\r\nx\r\n", "INSERTED 1\r\n")
	daemon.Expect(t, c, "", "RESERVED 1 1\r\nx\r\n")
	for i := range n {
		daemon.Expect(t, c, "", fmt.Sprintf("USING tube-%d\r\n", i))
	}
	daemon.Expect(t, c, "delete 1\r\n", "DELETED\r\n")
	c.Close()
	nothingLeft(t, s, 1)
}

func TestFloodBehindAWaitingReserveHurtsNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := daemon.Start(t, daemon.ShardArgs(4)...)
	c, other := daemon.Client(t, s), daemon.Client(t, s)
	if err := c.Say([]byte("reserve\r\n")); err != nil {
		t.Fatal(err)
	}
	daemon.AwaitStat(t, s, "current-waiting", 1)
	was := daemon.Memory(s)
	chunk := bytes.Repeat([]byte("list-tubes\r\n"), 100000)
	var parts [][]byte
	for range 50 {
		parts = append(parts, chunk)
	}
	fed := daemon.Feed(c, parts...)
	for range 2000 {
		daemon.Expect(t, other, "list-tube-used\r\n", "USING default\r\n")
	}
	cutOff(t, s, c, fed, 1)
	daemon.Bounded(t, s, was, 32<<20)
	other.Close()
	nothingLeft(t, s, 0)
}

func TestHalfCloseIsAlwaysAnswered(t *testing.T) {
	s := daemon.Start(t, daemon.ShardArgs(4)...)
	pipelined := "put 0 0 100 1\r\nx\r\nlist-tube-used\r\nuse t\r\nstats-tube nosuch\r\nwatch t\r\nquux\r\n"
	behind := "watch never\r\nignore default\r\nreserve\r\nlist-tube-used\r\nreserve-with-timeout 1000\r\nuse u\r\n"
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 250 {
				for _, commands := range []string{pipelined, behind} {
					got, err := toTheEnd(s.Address, commands, i%2 == 0 && commands == behind)
					if err != nil {
						t.Errorf("%q: %v after %q", commands, err, got)
						return
					}
					want := "WATCHING 2\r\nWATCHING 1\r\nTIMED_OUT\r\nUSING default\r\nTIMED_OUT\r\nUSING u\r\n"
					if commands == pipelined {
						// Ids differ: all goes on at once.
						var ok bool
						if _, got, ok = strings.Cut(got, "\r\n"); !ok {
							t.Errorf("%q: no reply", commands)
							return
						}
						want = "USING default\r\nUSING t\r\nNOT_FOUND\r\nWATCHING 2\r\nUNKNOWN_COMMAND\r\n"
					}
					if got != want {
						t.Errorf("%q: got %q, want %q", commands, got, want)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	daemon.AwaitStat(t, s, "current-jobs-ready", 1000)
	daemon.AwaitStat(t, s, "current-connections", 0)
	daemon.AwaitStat(t, s, "current-waiting", 0)
}

// toTheEnd sends commands, shuts down the sending side (after the first
// replies, if late) and returns all that comes.
func toTheEnd(address, commands string, late bool) (string, error) {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.Say([]byte(commands)); err != nil {
		return "", err
	}
	var got []byte
	if late {
		for range 2 {
			reply, err := c.Reply(conversation.Patience)
			got = append(got, reply...)
			if err != nil {
				return string(got), err
			}
		}
	}
	if err := c.HalfClose(); err != nil {
		return "", err
	}
	for {
		reply, err := c.Reply(conversation.Patience)
		got = append(got, reply...)
		if errors.Is(err, io.EOF) {
			return string(got), nil
		}
		if err != nil {
			return string(got), err
		}
	}
}

func TestPipelineOfAHundredThousandCommands(t *testing.T) {
	s := daemon.Start(t, daemon.ShardArgs(4)...)
	c, other := daemon.Client(t, s), daemon.Client(t, s)
	const n = 100000
	fed := daemon.Feed(c, bytes.Repeat([]byte("put 0 0 100 1\r\nx\r\n"), n), bytes.Repeat([]byte("reserve\r\n"), n))
	go func() {
		for range 200 {
			if _, err := other.Ask("list-tube-used\r\n"); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range n {
		daemon.Expect(t, c, "", fmt.Sprintf("INSERTED %d\r\n", i+1))
	}
	for i := range n {
		daemon.Expect(t, c, "", fmt.Sprintf("RESERVED %d 1\r\nx\r\n", i+1))
	}
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
}

func TestBigBody(t *testing.T) {
	size := daemon.Amount(t, "POLYSTALKD_BIG_BODY", 128<<20)
	s := daemon.Start(t, append(daemon.ShardArgs(4), "-z", "1073741824")...)
	c, other := daemon.Client(t, s), daemon.Client(t, s)
	chunk := make([]byte, 1<<20)
	for i := range chunk {
		chunk[i] = byte(i * 7 >> 3)
	}
	parts := [][]byte{fmt.Appendf(nil, "put 0 0 100 %d\r\n", size)}
	for left := size; left > 0; left -= min(left, len(chunk)) {
		parts = append(parts, chunk[:min(left, len(chunk))])
	}
	fed := daemon.Feed(c, append(parts, []byte("\r\n"))...)
	for range 100 {
		daemon.Expect(t, other, "list-tube-used\r\n", "USING default\r\n")
	}
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	daemon.Expect(t, c, "", "INSERTED 1\r\n")

	if err := c.Say([]byte("reserve\r\n")); err != nil {
		t.Fatal(err)
	}
	got, err := c.Reply(4 * conversation.Patience)
	if err != nil {
		t.Fatal(err)
	}
	head := fmt.Sprintf("RESERVED 1 %d\r\n", size)
	if !strings.HasPrefix(string(got[:min(len(got), 40)]), head) {
		t.Fatalf("got %.60q", got)
	}
	got = got[len(head):]
	for i := 0; i < size; i += len(chunk) {
		part := chunk[:min(size-i, len(chunk))]
		if !bytes.Equal(got[i:i+len(part)], part) {
			t.Fatalf("the body differs after byte %d", i)
		}
	}
	daemon.Expect(t, c, "delete 1\r\n", "DELETED\r\n")
	daemon.Expect(t, c, "list-tube-used\r\n", "USING default\r\n")
}

func TestTenThousandWatchedTubes(t *testing.T) {
	s := daemon.Start(t, daemon.ShardArgs(16)...)
	c, p := daemon.Client(t, s), daemon.Client(t, s)
	const n = 10000
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "watch t%d\r\n", i)
	}
	fed := daemon.Feed(c, b.Bytes())
	for i := range n {
		daemon.Expect(t, c, "", fmt.Sprintf("WATCHING %d\r\n", i+2))
	}
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	daemon.Expect(t, p, "use t7777\r\n", "USING t7777\r\n")
	daemon.Expect(t, p, "put 5 0 100 1\r\nx\r\n", "INSERTED 1\r\n")
	daemon.Expect(t, p, "use t3\r\n", "USING t3\r\n")
	daemon.Expect(t, p, "put 4 0 100 1\r\ny\r\n", "INSERTED 2\r\n")
	daemon.Expect(t, c, "reserve\r\n", "RESERVED 2 1\r\ny\r\n")
	daemon.Expect(t, c, "reserve\r\n", "RESERVED 1 1\r\nx\r\n")
	for i := range 50 {
		if err := c.Say([]byte("reserve\r\n")); err != nil {
			t.Fatal(err)
		}
		daemon.AwaitStat(t, s, "current-waiting", 1)
		daemon.Expect(t, p, fmt.Sprintf("use t%d\r\n", i*199), fmt.Sprintf("USING t%d\r\n", i*199))
		daemon.Expect(t, p, "put 0 0 100 1\r\nz\r\n", fmt.Sprintf("INSERTED %d\r\n", i+3))
		daemon.Expect(t, c, "", fmt.Sprintf("RESERVED %d 1\r\nz\r\n", i+3))
	}
	for i := range 52 {
		daemon.Expect(t, c, fmt.Sprintf("delete %d\r\n", i+1), "DELETED\r\n")
	}
	if err := c.Say([]byte("reserve\r\n")); err != nil {
		t.Fatal(err)
	}
	daemon.AwaitStat(t, s, "current-waiting", 1)
	c.Close()
	p.Close()
	nothingLeft(t, s, 0)
}

func TestDyingConnectionsLeaveNothing(t *testing.T) {
	s := daemon.Start(t, daemon.ShardArgs(4)...)
	keeper := daemon.Client(t, s)
	daemon.Expect(t, keeper, "put 0 0 100 1\r\nx\r\n", "INSERTED 1\r\n")
	last, open := 1, descriptors(s)
	for i := range 300 {
		c := daemon.Client(t, s)
		switch i % 3 {
		case 0: // in the middle of a body
			daemon.Expect(t, c, "use gone\r\n", "USING gone\r\n")
			if err := c.Say([]byte("put 0 0 100 60000\r\n" + strings.Repeat("h", 30000))); err != nil {
				t.Fatal(err)
			}
			daemon.AwaitStat(t, s, "current-producers", 2)
			last++
		case 1: // holding a job
			daemon.Expect(t, c, "reserve\r\n", "RESERVED 1 1\r\nx\r\n")
		case 2: // waiting
			daemon.Expect(t, c, "watch gone\r\n", "WATCHING 2\r\n")
			daemon.Expect(t, c, "ignore default\r\n", "WATCHING 1\r\n")
			if err := c.Say([]byte("reserve\r\n")); err != nil {
				t.Fatal(err)
			}
			daemon.AwaitStat(t, s, "current-waiting", 1)
		}
		if i%2 == 0 {
			daemon.ResetClient(c)
		} else {
			c.Close()
		}
		daemon.AwaitStat(t, s, "current-connections", 1)
		daemon.AwaitStat(t, s, "current-jobs-ready", 1)
		daemon.AwaitStat(t, s, "current-waiting", 0)
		daemon.AwaitStat(t, s, "current-tubes", 1)
	}
	daemon.Expect(t, keeper, "put 0 0 100 1\r\nx\r\n", fmt.Sprintf("INSERTED %d\r\n", last+1))
	awaitDescriptors(t, s, open)
}

func TestShortConnectionsLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	n := daemon.Amount(t, "POLYSTALKD_CHURN", 15000)
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
		nothingLeft(t, s, 0)
	}
	churn(n / 5) // until pools and buffers have their size
	was, open := daemon.Memory(s), descriptors(s)
	churn(n - n/5)
	daemon.Bounded(t, s, was, 16<<20)
	awaitDescriptors(t, s, open)
}

// shortLife is a connection that puts, reserves and deletes a job in a tube of
// its own, or waits for one that never comes, and is gone.
func shortLife(address string, worker, i int) error {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer daemon.ResetClient(c)
	tube := fmt.Sprintf("w%d-%d", worker, i)
	commands := fmt.Sprintf("use %s\r\nwatch %s\r\nignore default\r\nput 0 0 100 5\r\nhello\r\nreserve\r\n", tube, tube)
	if err := c.Say([]byte(commands)); err != nil {
		return err
	}
	for _, want := range []string{"USING ", "WATCHING 2", "WATCHING 1", "INSERTED ", "RESERVED "} {
		reply, err := c.Reply(conversation.Patience)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(reply, []byte(want)) {
			return fmt.Errorf("got %q, want %s", reply, want)
		}
		if want == "RESERVED " {
			id := strings.Fields(string(reply))[1]
			if reply, err = c.Ask("delete " + id + "\r\n"); err != nil || string(reply) != "DELETED\r\n" {
				return fmt.Errorf("delete: %q, %v", reply, err)
			}
		}
	}
	if i%3 == 0 {
		return c.Say([]byte("reserve\r\nstats\r\n"))
	}
	return nil
}

// tryConnection reports whether a new connection is served. One that is
// neither served nor refused within Silence counts as not served.
func tryConnection(address string) (*conversation.Client, bool) {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return nil, false
	}
	if err := c.Say([]byte("list-tube-used\r\n")); err == nil && c.Ready(4*conversation.Silence) {
		if reply, err := c.Reply(conversation.Patience); err == nil && string(reply) == "USING default\r\n" {
			return c, true
		}
	}
	c.Close()
	return nil, false
}

// crowd connects until ten in a row were not served, and returns those that
// were.
func crowd(t *testing.T, s *conversation.Server, most int) []*conversation.Client {
	t.Helper()
	var served []*conversation.Client
	for refused := 0; refused < 10 && len(served) <= most; {
		if c, ok := tryConnection(s.Address); ok {
			served = append(served, c)
			refused = 0
		} else {
			refused++
		}
	}
	if len(served) == 0 || len(served) > most {
		t.Fatalf("%d connections are served, want 1 to %d", len(served), most)
	}
	for _, c := range served {
		daemon.Expect(t, c, "use t\r\n", "USING t\r\n")
	}
	return served
}

// recovers waits until new connections are served again.
func recovers(t *testing.T, s *conversation.Server) {
	t.Helper()
	for end := time.Now().Add(conversation.Patience); time.Now().Before(end); {
		if c, ok := tryConnection(s.Address); ok {
			c.Close()
			return
		}
	}
	t.Fatal("no connection is served again")
}

func TestConnectionLimitRefusesAndRecovers(t *testing.T) {
	s := daemon.Start(t, append(daemon.ShardArgs(4), "--max-connections", "10")...)
	for range 3 {
		served := crowd(t, s, 10)
		if len(served) != 10 {
			t.Errorf("%d connections are served, want 10", len(served))
		}
		for _, c := range served[:5] {
			c.Close()
		}
		recovers(t, s)
		for _, c := range served[5:] {
			daemon.Expect(t, c, "list-tube-used\r\n", "USING t\r\n")
			c.Close()
		}
		recovers(t, s)
	}
	nothingLeft(t, s, 0)
}

func TestRunningOutOfDescriptorsRecovers(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	script := filepath.Join(t.TempDir(), "few-descriptors")
	text := fmt.Sprintf("#!/bin/sh\nulimit -n 64\nexec '%s' \"$@\"\n", daemon.Program(t))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	// A limit above the descriptors, so that those run out first.
	s, err := conversation.StartServer(script, append(daemon.ShardArgs(4), "--max-connections", "1000")...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	for range 3 {
		served := crowd(t, s, 64)
		for _, c := range served {
			daemon.Expect(t, c, "list-tube-used\r\n", "USING t\r\n")
			c.Close()
		}
		recovers(t, s)
	}
	nothingLeft(t, s, 0)
}
