package cluster

import (
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/wiretest/certtest"
)

// endWithin bounds the time of a server to end.
const endWithin = 10 * time.Second

const crowdSize = 100

// A crowd is a set of clients that a follower forwards to the leader.
type crowd []net.Conn

// newCrowd connects clients that use a tube.
func newCrowd(t *testing.T, follower *node, tube string) (k crowd) {
	t.Helper()
	for range crowdSize {
		eventually(t, "a client is forwarded", func() bool {
			c, err := net.Dial("tcp", follower.queue)
			if err != nil {
				return false
			}
			c.SetDeadline(time.Now().Add(daemon.Hang))
			io.WriteString(c, "use "+tube+"\r\n")
			if _, err = io.ReadFull(c, make([]byte, len("USING \r\n"+tube))); err != nil {
				c.Close()
				return false
			}
			k = append(k, c)
			return true
		})
	}
	t.Cleanup(func() {
		for _, c := range k {
			c.Close()
		}
	})
	return k
}

// say sends a text from each client, and closes the sending side.
func (k crowd) say(text string) {
	for _, c := range k {
		io.WriteString(c, text)
		c.(*net.TCPConn).CloseWrite()
	}
}

// freeze makes clients of a follower put a job each into a tube and close their side. All servers
// are stopped: the leader reads this when it continues.
func freeze(t *testing.T, l *node, others []*node) (tube string) {
	t.Helper()
	tube = fmt.Sprint("t", time.Now().UnixNano())
	k := newCrowd(t, others[0], tube)
	l.Freeze()
	k.say("put 0 0 60 1\r\nx\r\n")
	time.Sleep(300 * time.Millisecond) // for the follower to forward them: no event shows when it has
	for _, n := range others {
		n.Freeze()
	}
	return tube
}

// holdPuts makes the leader hold a put of each client of a follower. The other servers are stopped,
// so that none is committed.
func holdPuts(t *testing.T, l *node, others []*node) {
	t.Helper()
	tube := freeze(t, l, others)
	l.Signal(syscall.SIGCONT)
	held := ""
	for end := time.Now().Add(2 * time.Second); held != fmt.Sprint(crowdSize) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, held, _ = strings.Cut(ask(l.queue, "stats-tube "+tube+"\r\n"), "current-jobs-ready: ")
		held, _, _ = strings.Cut(held, "\n")
	}
	t.Logf("the leader holds the puts of %q clients", held)
}

// wantEnd expects a process to end in time with an exit code.
func wantEnd(t *testing.T, n *node, since time.Time, code int) {
	t.Helper()
	n.EndsWith(code)
	if took := time.Since(since); took > endWithin {
		t.Errorf("%s took %v to end", n.name, took)
	}
	if n.LogHas("did not close in time") {
		t.Errorf("a wait has timed out: %s", n.LogText())
	}
}

// A server that must end does so, and a deposed one restarts, whatever the clients do: clients of
// followers have closed their side and wait for an answer.
func TestEveryEndComesInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	ca := certtest.New(t)
	flags := make(map[*node][]string)
	var all []*node
	for i := range 3 {
		n := newNode(t, fmt.Sprint("jobs", i+1))
		flags[n] = secure(ca, n.name)
		if i == 0 {
			n.found(flags[n]...)
		} else {
			n.start(append(flags[n], "--cluster-join", all[0].cluster)...)
		}
		all = append(all, n)
	}
	awaitVoters(t, all[0], 3)
	resume := func(others []*node) {
		for _, n := range others {
			n.Signal(syscall.SIGCONT)
		}
	}
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, l *node, others []*node)
	}{
		{"disk fault", func(t *testing.T, l *node, others []*node) {
			freeze(t, l, others)
			limit := unix.Rlimit{Cur: 0, Max: unix.RLIM_INFINITY} // every further write fails
			if err := unix.Prlimit(l.Cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
				t.Skip("a limit cannot be set here: ", err)
			}
			since := time.Now()
			l.Signal(syscall.SIGCONT)
			wantEnd(t, l, since, fault.Journal)
			resume(others)
			l.start(flags[l]...)
		}},
		{"SIGTERM", func(t *testing.T, l *node, others []*node) {
			holdPuts(t, l, others)
			since := time.Now()
			l.Signal(syscall.SIGTERM)
			wantEnd(t, l, since, fault.OK)
			resume(others)
			l.start(flags[l]...)
		}},
		{"deposed", func(t *testing.T, l *node, others []*node) {
			was := strings.Count(l.LogText(), "restarting in the same process")
			holdPuts(t, l, others)
			since := time.Now()
			eventually(t, "it restarts", func() bool { return strings.Count(l.LogText(), "restarting in the same process") > was })
			if took := time.Since(since); took > 7*time.Second+endWithin { // the server still leads at the beginning of that time
				t.Errorf("it took %v to restart", took)
			}
			resume(others)
		}},
		{"removal", func(t *testing.T, l *node, others []*node) {
			ask(l.queue, "put 0 0 60 60000\r\n"+strings.Repeat("x", 60_000)+"\r\n")
			newCrowd(t, others[0], "default").say(strings.Repeat("peek-ready\r\n", 10)) // the clients do not read the answers
			remove(t, others[0], l)
			wantEnd(t, others[0], time.Now(), fault.Removed)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			awaitVoters(t, all[0], 3)
			l, others := leader(t, all)
			eventually(t, "the leader has a lease", func() bool { k := l.status(); return k != nil && k.Lease })
			tt.end(t, l, others)
		})
	}
}
