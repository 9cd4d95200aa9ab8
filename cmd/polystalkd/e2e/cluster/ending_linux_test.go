package cluster

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// endWithin is how long a server may take that has decided to end.
const endWithin = 10 * time.Second

// A crowd is clients that have closed their side and are not answered.
type crowd struct {
	t     *testing.T
	conns []net.Conn
}

const crowdSize = 100

// newCrowd is clients that a server hands on to the one that leads, and that use a tube.
func newCrowd(t *testing.T, through *node, tube string) *crowd {
	t.Helper()
	k := &crowd{t: t}
	for range crowdSize {
		var c net.Conn
		eventually(t, "a client is handed on", func() bool {
			var err error
			if c, err = net.Dial("tcp", through.queue); err != nil {
				return false
			}
			c.SetDeadline(time.Now().Add(daemon.Hang))
			answer := make([]byte, len("USING \r\n"+tube))
			io.WriteString(c, "use "+tube+"\r\n")
			if _, err = io.ReadFull(c, answer); err != nil {
				c.Close()
			}
			return err == nil
		})
		k.conns = append(k.conns, c)
	}
	t.Cleanup(k.leave)
	return k
}

// say sends a text and closes the side of each client that sends.
func (k *crowd) say(text string) {
	for _, c := range k.conns {
		io.WriteString(c, text)
		c.(*net.TCPConn).CloseWrite()
	}
}

func (k *crowd) leave() {
	for _, c := range k.conns {
		c.Close()
	}
}

// waitForCommits has the leader hold a put of each client of a follower that no majority commits: the
// others stand still. The caller continues them.
func waitForCommits(t *testing.T, l *node, others []*node) {
	t.Helper()
	tube := standStill(t, l, others)
	l.Signal(syscall.SIGCONT)
	held := ""
	for end := time.Now().Add(2 * time.Second); held != fmt.Sprint(crowdSize) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, held, _ = strings.Cut(ask(l.queue, "stats-tube "+tube+"\r\n"), "current-jobs-ready: ")
		held, _, _ = strings.Cut(held, "\n")
	}
	t.Logf("the leader holds the puts of %q clients", held)
}

// standStill has clients of a follower put a job each into a tube and close their side. The leader is to
// see that once it goes on: all servers stand still.
func standStill(t *testing.T, l *node, others []*node) (tube string) {
	t.Helper()
	tube = fmt.Sprint("t", time.Now().UnixNano())
	k := newCrowd(t, others[0], tube)
	l.Freeze()
	k.say("put 0 0 60 1\r\nx\r\n")
	time.Sleep(300 * time.Millisecond) // for the follower to hand them on: nothing tells when it has
	for _, n := range others {
		n.Freeze()
	}
	return tube
}

func signalAll(all []*node, s os.Signal) {
	for _, n := range all {
		n.Signal(s)
	}
}

// wantEnd wants a process to end in time, and with that code.
func wantEnd(t *testing.T, n *node, since time.Time, code int) {
	t.Helper()
	n.EndsWith(code)
	took := time.Since(since)
	t.Logf("%s ended within %v", n.name, took.Round(time.Millisecond))
	if took > endWithin {
		t.Errorf("%s took %v to end", n.name, took)
	}
	if n.LogHas("was not closed in time") {
		t.Errorf("something was waited for in vain: %s", n.LogText())
	}
}

// breakDisk has every further write of a process fail.
func breakDisk(t *testing.T, n *node) {
	t.Helper()
	if err := unix.Prlimit(n.Cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: unix.RLIM_INFINITY}, nil); err != nil {
		t.Skip("a limit cannot be set here: ", err)
	}
}

// A secured cluster is three servers that speak TLS among themselves.
type secured struct {
	t     *testing.T
	ca    *authority
	all   []*node
	flags map[*node][]string
	ended int // servers that were removed
}

func newSecured(t *testing.T) *secured {
	s := &secured{t: t, ca: newAuthority(t), flags: make(map[*node][]string)}
	for i := range 3 {
		s.add(i, "--cluster-new")
	}
	awaitVoters(t, s.all[0], 3)
	return s
}

// add starts a new server as number i, the first with a flag.
func (s *secured) add(i int, first string) {
	s.t.Helper()
	s.ended++
	n := newNode(s.t, fmt.Sprint("jobs", s.ended))
	s.flags[n] = s.ca.flags(n.name)
	if len(s.all) > 0 {
		first = "--cluster-join=" + s.all[(i+1)%len(s.all)].cluster
	}
	n.start(append(s.flags[n], first)...)
	if i < len(s.all) {
		s.all[i] = n
		return
	}
	s.all = append(s.all, n)
}

// endings are the ways in which a server of a cluster ends, or its process begins anew.
var endings = map[string]func(s *secured, l *node, others []*node){
	"disk fault": func(s *secured, l *node, others []*node) {
		standStill(s.t, l, others)
		breakDisk(s.t, l)
		since := time.Now()
		l.Signal(syscall.SIGCONT)
		wantEnd(s.t, l, since, fault.Journal)
		signalAll(others, syscall.SIGCONT)
		l.start(s.flags[l]...)
	},
	"SIGTERM": func(s *secured, l *node, others []*node) {
		waitForCommits(s.t, l, others)
		since := time.Now()
		l.Signal(syscall.SIGTERM)
		wantEnd(s.t, l, since, fault.OK)
		signalAll(others, syscall.SIGCONT)
		l.start(s.flags[l]...)
	},
	"deposed": func(s *secured, l *node, others []*node) {
		was := strings.Count(l.LogText(), "beginning anew")
		waitForCommits(s.t, l, others)
		since := time.Now()
		eventually(s.t, "it begins anew", func() bool { return strings.Count(l.LogText(), "beginning anew") > was })
		if took := time.Since(since); took > 7*time.Second+endWithin { // the server still leads at the beginning of that time
			s.t.Errorf("it took %v to begin anew", took)
		}
		signalAll(others, syscall.SIGCONT)
	},
	"removal": func(s *secured, l *node, others []*node) {
		n := others[0]
		ask(l.queue, "put 0 0 60 60000\r\n"+strings.Repeat("x", 60_000)+"\r\n")
		k := newCrowd(s.t, n, "default")
		k.say(strings.Repeat("peek-ready\r\n", 10)) // the clients do not read the answers
		eventually(s.t, "it is removed", func() bool {
			return operate(s.t, "cluster", "remove", n.name, "--dir", l.dir).Code == 0
		})
		wantEnd(s.t, n, time.Now(), fault.Removed)
		for i := range s.all {
			if s.all[i] == n {
				s.add(i, "")
			}
		}
	},
}

// TestEveryEndComesInTime: a server that has decided to end ends, and one that was deposed begins anew,
// whatever its clients are doing: clients of followers have closed their side and wait for an answer.
func TestEveryEndComesInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := newSecured(t)
	for round := range daemon.Amount(t, "POLYSTALKD_ENDINGS", 1) {
		for name, end := range endings {
			t.Run(fmt.Sprint(name, " ", round), func(t *testing.T) {
				defer func(was *testing.T) { s.t = was }(s.t)
				awaitVoters(t, s.all[0], 3)
				l, others := leader(t, s.all)
				eventually(t, "the leader has a lease", func() bool { k := l.status(); return k != nil && k.Lease })
				end(s, l, others)
			})
		}
	}
}
