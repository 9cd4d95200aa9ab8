package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// answerWithin is the time in which a command must be answered, or its connection closed.
const answerWithin = 5 * time.Second

// A mixture says which servers of a cluster are full and dead.
type mixture struct {
	servers    int
	leaderFull bool
	full, dead int // of those that follow
}

// mixtures are the ones to test: one of three servers, or all of three, or all of three and five.
func mixtures(t *testing.T) (list []mixture) {
	most := daemon.Amount(t, "POLYSTALKD_FULL_SERVERS", 1)
	if most < 3 {
		return []mixture{{3, false, 1, 1}}
	}
	for servers := 3; servers <= most; servers += 2 {
		for i := range 2 * servers * servers {
			m := mixture{servers, i%2 == 1, i / 2 % servers, i / 2 / servers}
			if m.full+m.dead < servers {
				list = append(list, m)
			}
		}
	}
	return list
}

// TestFullAndDeadServersKeepNobodyWaiting: whatever servers are full and dead, a command is answered
// or its connection is closed within a bound, and all goes on once the servers are well again.
func TestFullAndDeadServersKeepNobodyWaiting(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	var all []*node
	for _, m := range mixtures(t) {
		if len(all) != m.servers {
			all = nil
			for i := range m.servers {
				n := newNode(t, fmt.Sprint("jobs", i+1))
				n.dir, n.timeout = daemon.SmallDisk(t, 128<<20), swift
				all = append(all, n)
			}
			startAll(t, all, "--cluster-wait", "2s")
		}
		longest, what := m.test(t, all)
		t.Logf("%+v: longest wait %v, for %q", m, longest.Round(time.Millisecond), what)
		if longest > 2*answerWithin { // the machine may be busy
			t.Errorf("%+v: %q waited for %v", m, what, longest)
		}
	}
}

// test makes servers full and dead, and returns the longest wait of a command.
func (m mixture) test(t *testing.T, all []*node) (longest time.Duration, what string) {
	t.Helper()
	l, others := leader(t, all)
	ids := putSome(t, l)
	var conns []net.Conn
	for range commands(ids, 0) {
		conns = append(conns, daemon.Dial(t, l.queue))
	}
	var fills []string
	for _, n := range others[:m.full] {
		fills = append(fills, fill(t, n.dir))
	}
	if m.leaderFull {
		fills = append(fills, fill(t, l.dir))
	}
	churn(t, l, 400)
	dead := others[m.full : m.full+m.dead]
	for _, n := range dead {
		n.Crash()
	}
	var mu sync.Mutex
	var running sync.WaitGroup
	try := func(c net.Conn, command string) {
		defer c.Close()
		begun := time.Now()
		c.SetDeadline(begun.Add(3 * answerWithin))
		fmt.Fprint(c, command)
		_, err := bufio.NewReader(c).ReadString('\n')
		took := time.Since(begun)
		mu.Lock()
		defer mu.Unlock()
		if took > longest {
			longest, what = took, fmt.Sprintf("%.20s: %v", command, err)
		}
	}
	for i, command := range commands(ids, 0) {
		running.Go(func() { try(conns[i], command) })
	}
	for i := range 8 {
		time.Sleep(answerWithin / 5)
		for _, command := range commands(ids, i+1) {
			if c, err := net.DialTimeout("tcp", l.queue, answerWithin); err == nil {
				running.Go(func() { try(c, command) })
			}
		}
	}
	running.Wait()
	for _, name := range fills {
		os.Remove(name)
	}
	if m.dead <= len(others)/2 {
		eventually(t, "space is enough for a majority", func() bool { return l.put("more") })
	}
	for _, n := range dead {
		n.launch("--cluster-wait", "2s")
	}
	for _, n := range dead {
		n.serves()
	}
	awaitVoters(t, all[0], len(all))
	for _, n := range all {
		eventually(t, n.name+" takes a job", func() bool { return n.put("more") })
	}
	eventually(t, "all have caught up", func() bool {
		k := all[0].status()
		for i := range k.Members {
			if one := &k.Members[i]; one.DiskFull || one.MatchIndex == nil || *one.MatchIndex < k.CommittedIndex {
				return false
			}
		}
		return true
	})
	return longest, what
}

// commands are some of each kind.
func commands(ids []string, round int) []string {
	return []string{
		"put 0 0 60 5\r\nhello\r\n", "delete " + ids[round] + "\r\n", "reserve-with-timeout 0\r\n",
		"stats-tube default\r\n", "kick 1\r\n", "use other\r\n",
	}
}

// putSome puts jobs to be deleted.
func putSome(t *testing.T, n *node) (ids []string) {
	t.Helper()
	eventually(t, n.name+" takes jobs", func() bool {
		ids = nil
		for line := range strings.Lines(ask(n.queue, strings.Repeat("put 9 0 60 1\r\nx\r\n", 20))) {
			if id, ok := strings.CutPrefix(strings.TrimSpace(line), "INSERTED "); ok {
				ids = append(ids, id)
			}
		}
		return len(ids) == 20
	})
	return ids
}

// churn puts many jobs and deletes them, or as many as are taken. The servers that are full lack most
// of that, and need the whole journal afterwards.
func churn(t *testing.T, n *node, jobs int) {
	t.Helper()
	c := daemon.Dial(t, n.queue)
	defer c.Close()
	body, r := strings.Repeat("x", 60_000), bufio.NewReader(c)
	say := func(format string, args ...any) string {
		c.SetDeadline(time.Now().Add(2 * answerWithin))
		fmt.Fprintf(c, format, args...)
		line, _ := r.ReadString('\n')
		return strings.TrimSpace(line)
	}
	for range 3 {
		var ids []string
		for range jobs {
			id, ok := strings.CutPrefix(say("put 0 0 60 %d\r\n%s\r\n", len(body), body), "INSERTED ")
			if !ok {
				break
			}
			ids = append(ids, id)
		}
		for _, id := range ids {
			if say("delete %s\r\n", id) != "DELETED" {
				return
			}
		}
	}
}

// fill fills the file system of a directory, and returns the file that does.
func fill(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 16 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return name
}
