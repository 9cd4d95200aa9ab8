package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/codec/conversation"
	"polystalk/codec/gearman"
)

// smallLoads cover every workload in a size for tests.
var smallLoads = map[string][]string{
	"beanstalkd": {
		"cycle conns=4 count=300",
		"cycle conns=3 depth=8 count=300",
		"cycle conns=2 rate=2000 count=60",
		"one-tube conns=6 count=300",
		"one-tube conns=5 depth=4 count=600",
		"one-tube conns=4 rate=2000 count=150",
		"put conns=3 depth=4 count=100",
		"drain conns=3 depth=4 count=100",
		"wakeup conns=4 count=90",
		"wakeup conns=4 rate=2000 count=90",
		"many-tubes conns=3 tubes=10 depth=2 count=200",
		"many-tubes conns=3 tubes=3 count=200",
		"idle-tubes conns=3 tubes=10 count=200",
		"held held=30 depth=4 duration=1ns",
		"multi-watch conns=3 tubes=5 depth=3 count=200",
		"multi-watch conns=3 tubes=1 count=200",
		"laravel conns=4 reconnect=3 tubes=2 count=480",
		"connect count=200",
		"connect conns=3 count=2",
		"big-bodies conns=2 count=30",
		"memory conns=2 count=200 depth=8 settle=1ms",
		"job conns=3 count=300",
	},
	"gearman": {
		"background conns=3 count=100",
		"background conns=3 depth=8 tubes=2 waiting=50 count=100",
		"background conns=2 rate=2000 count=60",
		"background conns=2 warmup=10ms duration=20ms",
		"foreground conns=4 workers=2 count=200",
		"foreground conns=2 workers=4 count=100",
		"foreground conns=3 workers=2 depth=5 count=200",
		"foreground conns=4 rate=2000 count=100",
		"drain conns=3 count=100",
		"drain conns=3 depth=8 tubes=5 count=100",
		"drain conns=3 depth=4 count=50 waiting=70",
		"echo conns=3 count=300",
		"echo conns=2 depth=8 body=9000 count=100",
		"memory conns=2 count=100 depth=8 settle=1ms",
	},
}

func small(t *testing.T, p *protocol, line string) Load {
	t.Helper()
	base := newLoad()
	base.Duration, base.Warmup = 20*time.Second, 10*time.Millisecond
	l, err := p.parseLoad(line, base)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// started starts polystalkd for a test.
func started(t *testing.T, protocol string) *server {
	t.Helper()
	program, err := conversation.Program("polystalkd")
	if err != nil {
		t.Fatal(err)
	}
	line := program + " -l 127.0.0.1 -p {port} --log-level warn"
	if protocol == "gearman" {
		line = program + " gearmand -L 127.0.0.1 -p {port} --job-handle-prefix H:lap -l none"
	}
	target, err := parseTarget(line, protocols[protocol])
	if err != nil {
		t.Fatal(err)
	}
	return start(t, &target, protocol)
}

func start(t *testing.T, target *Target, protocol string) *server {
	t.Helper()
	s, err := target.start(t.Context(), NewSpawner(), protocols[protocol], Load{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestEveryWorkloadRunsAndLeavesNothing(t *testing.T) {
	for name, lines := range smallLoads {
		t.Run(name, func(t *testing.T) {
			servers := []*server{started(t, name)}
			if !testing.Short() {
				servers = append(servers, start(t, installed(t, name), name))
			}
			for _, s := range servers {
				for i, line := range lines {
					l := small(t, protocols[name], line)
					if testing.Short() && (l.Workload == "memory" || l.Rate > 0) {
						continue // it waits by the clock
					}
					r, err := drive(t.Context(), plan{Load: l, Addr: s.addr, Run: fmt.Sprint("r", i), ServerPID: s.Process.Process.Pid})
					if err != nil {
						t.Errorf("%s: %v", line, err)
						continue
					}
					if r.Ops == 0 || r.Latency.Count == 0 || r.LoadCPU <= 0 {
						t.Errorf("%s: %+v", line, r)
					}
					if l.Workload == "cycle" && r.Latency.Count != r.Ops {
						t.Errorf("%s: %d latencies of %d operations", line, r.Latency.Count, r.Ops)
					}
					if (l.Workload == "cycle" && l.Depth == 1 || name == "gearman" && l.Workload == "drain") && r.Ops != l.Count {
						t.Errorf("%s: %d operations, want %d", line, r.Ops, l.Count)
					}
					if l.Workload == "memory" && r.Memory.Jobs < l.Count {
						t.Errorf("%s: memory report %+v, want %d jobs", line, r.Memory, l.Count)
					}
				}
				left := listed(t, name, s.addr)
				for end := time.Now().Add(5 * time.Second); left != "" && time.Now().Before(end); left = listed(t, name, s.addr) {
					// A server may not have noticed yet that connections are closed.
				}
				if left != "" {
					t.Errorf("%s are left on the server", left)
				}
			}
		})
	}
}

// listed returns the tubes or functions of loads on a server.
func listed(t *testing.T, protocol, addr string) string {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, map[string]string{"beanstalkd": "list-tubes\r\nquit\r\n", "gearman": "status\r\n"}[protocol])
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	var all strings.Builder
	for r := bufio.NewScanner(c); r.Scan() && r.Text() != "."; {
		if strings.Contains(r.Text(), "lt.") {
			all.WriteString(r.Text() + " ")
		}
	}
	return all.String()
}

// A relay between a load and a server counts the replies of each kind, from 1, and calls lie to
// change them. kind is the command of a reply, or the type of a Gearman packet. An empty reply ends
// all connections.
type relay struct {
	server string
	gear   bool
	lie    func(kind string, n int, reply string) string

	mu    sync.Mutex
	count map[string]int
	conns []net.Conn
}

func (f *relay) listen(t *testing.T) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.count = make(map[string]int)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", f.server)
			if err != nil {
				client.Close()
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, client, server)
			f.mu.Unlock()
			asked := make(chan string, 10_000)
			go f.ask(client, server, asked)
			go f.answer(client, server, asked)
		}
	}()
	return l.Addr().String()
}

// ask forwards requests, and reports beanstalkd's commands to the goroutine with the replies.
func (f *relay) ask(client, server net.Conn, asked chan<- string) {
	defer server.Close()
	r := bufio.NewReader(client)
	if f.gear {
		io.Copy(server, r)
		return
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		var n [4]int
		if k, _ := fmt.Sscanf(line, "put %d %d %d %d", &n[0], &n[1], &n[2], &n[3]); k == 4 {
			body := make([]byte, n[3]+2)
			io.ReadFull(r, body)
			line += string(body)
		}
		asked <- strings.Fields(line)[0]
		io.WriteString(server, line)
	}
}

func (f *relay) answer(client, server net.Conn, asked <-chan string) {
	defer client.Close()
	var b []byte
	for more := make([]byte, 64<<10); ; {
		kind, n := "text", 0
		var m gearman.Message
		if f.gear {
			if n, _ = gearman.ParseReply(&m, b, maxBody); n > 0 && m.Type != gearman.Text {
				kind = m.Type.String()
			}
			n += m.Size
		} else if n, _, _ = new(Reply).parse(b); n > 0 {
			kind = <-asked
		}
		if n == 0 || n > len(b) {
			k, err := server.Read(more)
			if err != nil {
				return
			}
			b = append(b, more[:k]...)
			continue
		}
		f.mu.Lock()
		f.count[kind]++
		reply := f.lie(kind, f.count[kind], string(b[:n]))
		b = b[n:]
		if reply == "" {
			for _, c := range f.conns {
				c.Close()
			}
		}
		f.mu.Unlock()
		io.WriteString(client, reply)
	}
}

// A lie changes a reply.
type lie func(kind string, n int, reply string) string

// nth changes the n-th reply of a kind.
func nth(kind string, n int, with func(reply string) string) lie {
	return func(k string, i int, reply string) string {
		if k == kind && i == n {
			return with(reply)
		}
		return reply
	}
}

func instead(of string) func(string) string { return func(string) string { return of } }

// A wrongReply is a lie that must end the run of a load with an error that shows the lie.
type wrongReply struct {
	name, load, expect string
	lie                lie
}

func (c wrongReply) test(t *testing.T, p *protocol, server, run string) {
	t.Run(c.name, func(t *testing.T) {
		f := &relay{server: server, gear: p == gearmand, lie: c.lie}
		if _, err := drive(t.Context(), plan{Load: small(t, p, c.load), Addr: f.listen(t), Run: run}); err == nil || !strings.Contains(err.Error(), c.expect) {
			t.Errorf("error %v, want one with %q", err, c.expect)
		}
	})
}

func TestWrongBeanstalkdRepliesFailLoudly(t *testing.T) {
	swapped := func(_ string, _ int, reply string) string {
		return strings.Replace(reply, "\r\n000000000000", "\r\n000000000001", 1)
	}
	yaml := func(body string) string { return fmt.Sprintf("OK %d\r\n%s\r\n", len(body), body) }
	body := strings.Repeat("x", 64)
	s := started(t, "beanstalkd")
	for _, c := range []wrongReply{
		{"refused put", "cycle conns=2 count=300", `expected INSERTED, got "OUT_OF_MEMORY"`, nth("put", 9, instead("OUT_OF_MEMORY\r\n"))},
		{"another job", "cycle conns=1 count=300", "expected job", nth("reserve", 3, instead("RESERVED 999 64\r\n"+body+"\r\n"))},
		{"shorter body", "cycle conns=1 count=300", "a body of 64 bytes", nth("reserve", 1, instead("RESERVED 1 3\r\nabc\r\n"))},
		{"swapped body", "cycle conns=1 count=300", "came back with another body", swapped},
		{"not deleted", "cycle conns=1 depth=4 count=300", `expected DELETED, got "NOT_FOUND"`, nth("delete", 7, instead("NOT_FOUND\r\n"))},
		{"wrong tube", "cycle conns=1", `expected USING`, nth("use", 1, instead("TIMED_OUT\r\n"))},
		{"wrong list", "laravel conns=1 count=300", "wrong reply to list-tubes-watched", nth("list-tubes-watched", 5, instead(yaml("---\n- default\n")))},
		{"missed job", "laravel conns=1 count=300", `expected RESERVED, got "TIMED_OUT"`, nth("reserve-with-timeout", 4, instead("TIMED_OUT\r\n"))},
		{"wrong use", "connect conns=2 count=300", "wrong reply to \"use\"", nth("use", 4, instead("USING default\r\n"))},
		{"missed put", "connect conns=2 count=300", "wrong reply to \"put\"", nth("put", 3, instead("BURIED 3\r\n"))},
		{"bad stats", "laravel conns=1 count=300", "wrong reply to stats-job", nth("stats-job", 2, instead(yaml("---\nid: 1\nstate: ready\n")))},
		{"deadline", "one-tube conns=4 count=300", `got "DEADLINE_SOON"`, nth("reserve", 20, instead("DEADLINE_SOON\r\n"))},
		{"garbage", "wakeup conns=3 count=300", "malformed reply", nth("delete", 3, instead("INSERTED x\r\n"))},
		{"lost body end", "cycle conns=1 count=300", "not followed by CR LF", nth("reserve", 2, instead("RESERVED 2 3\r\nabcd\r\n"))},
		{"endless line", "cycle conns=1 count=300", "malformed reply: line", nth("put", 2, instead(strings.Repeat("x", 600)))},
		{"wrong next use", "multi-watch conns=1 tubes=3 count=100", "expected USING", nth("use", 2, instead("USING other\r\n"))},
		{"wrong count", "many-tubes conns=1 tubes=3 count=100", "expected WATCHING 2", nth("watch", 3, instead("WATCHING 7\r\n"))},
		{"end", "cycle conns=3", "closed the connection", nth("delete", 20, instead(""))},
	} {
		c.test(t, beanstalkd, s.addr, strings.ReplaceAll(c.name, " ", "-"))
	}
}

func TestWrongGearmanRepliesFailLoudly(t *testing.T) {
	refused := instead(string(gearman.AppendError(nil, gearman.ErrorQueueFull)))
	swap := func(old, new string) func(string) string {
		return func(reply string) string {
			if !strings.Contains(reply, old) {
				t.Errorf("there is no %q in %q to lie about", old, reply)
			}
			return strings.Replace(reply, old, new, 1)
		}
	}
	twice := func(reply string) string { return reply + reply }
	again := func(t gearman.Type) lie { // the second reply is the first
		var first string
		return func(kind string, n int, reply string) string {
			if kind == t.String() && n == 1 {
				first = reply
			} else if kind == t.String() && n == 2 {
				return first
			}
			return reply
		}
	}
	for _, c := range []wrongReply{
		{"refused", "background conns=2 count=100", "expected JOB_CREATED, got ERROR", nth(gearman.JobCreated.String(), 9, refused)},
		{"refused while filling", "drain conns=2 count=100", "setup: wrong reply to SUBMIT_JOB_BG", nth(gearman.JobCreated.String(), 9, refused)},
		{"no handle", "background conns=1 count=100", "a new handle", nth(gearman.JobCreated.String(), 5, instead(string(gearman.AppendReply(nil, gearman.JobCreated))))},
		{"joined job", "background conns=1 count=100", "a new handle", again(gearman.JobCreated)},
		{"lost job", "background conns=1 count=100", "there are 99 jobs of this load, expected 100", nth("text", 1, swap("\t100\t", "\t99\t"))},
		{"strange status", "background conns=1 count=100", "three numbers", nth("text", 1, instead("f\t1\n"))},
		{"magic", "background conns=1 count=100", "malformed reply", nth(gearman.JobCreated.String(), 5, swap("\x00RES", "\x00REQ"))},
		{"no job", "drain conns=2 count=100", "expected JOB_ASSIGN_UNIQ, got NO_JOB", nth(gearman.JobAssignUniq.String(), 3, instead(string(gearman.AppendNoJob(nil))))},
		{"other body", "drain conns=1 count=100", "another body", nth(gearman.JobAssignUniq.String(), 3, swap("polystalk", "polystork"))},
		{"shorter body", "drain conns=1 count=100", "expected 64 bytes", nth(gearman.JobAssignUniq.String(), 1, instead(string(gearman.AppendReply(nil, gearman.JobAssignUniq,
			[]byte("H:lap:1"), []byte("lt.test.f0"), []byte("lt.test.u.0000000000000000"), []byte("abc")))))},
		{"other function", "drain conns=1 count=100", "handed out as one of", nth(gearman.JobAssignUniq.String(), 3, swap("lt.test.f0", "lt.test.f1"))},
		{"other load", "drain conns=1 count=100", "of another load", nth(gearman.JobAssignUniq.String(), 3, swap("lt.test.u.", "lt.toast.u."))},
		{"made up", "drain conns=1 count=100", "never submitted", nth(gearman.JobAssignUniq.String(), 3, func(reply string) string {
			return strings.ReplaceAll(reply, "0000000000000002", "0000000000000064")
		})},
		{"twice", "drain conns=1 count=100", "handed out twice", again(gearman.JobAssignUniq)},
		{"not ours", "drain conns=1 count=100", "JOB_NOT_FOUND", nth(gearman.JobAssignUniq.String(), 3, swap("H:lap", "H:lop"))},
		{"failed", "foreground conns=1 workers=1 count=100", "expected WORK_COMPLETE, got WORK_FAIL",
			nth(gearman.WorkComplete.String(), 4, instead(string(gearman.AppendWorkFail(nil, gearman.Handle{Prefix: "H:lap", ID: 4}))))},
		{"other result", "foreground conns=1 workers=1 count=100", "another body", nth(gearman.WorkComplete.String(), 4, swap("polystalk", "polystork"))},
		{"result of another", "foreground conns=1 workers=1 count=100", "each job that was created for this client", nth(gearman.WorkComplete.String(), 4, swap("H:lap", "H:lop"))},
		{"result twice", "foreground conns=1 workers=1 depth=4 count=100", "one result of each job", nth(gearman.WorkComplete.String(), 2, twice)},
		{"no noop", "foreground conns=1 workers=1 count=100", "wrong reply to PRE_SLEEP", nth(gearman.Noop.String(), 1, instead(string(gearman.AppendNoJob(nil))))},
		{"other echo", "echo conns=1 depth=4 count=100", "another body", nth(gearman.EchoRes.String(), 3, swap("0000000000000003", "0000000000000004"))},
		{"no echo", "echo conns=1 count=100", "expected ECHO_RES, got NO_JOB", nth(gearman.EchoRes.String(), 3, instead(string(gearman.AppendNoJob(nil))))},
	} {
		c.test(t, gearmand, started(t, "gearman").addr, "test")
	}
}

func TestCancelEndsARunThatWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &relay{server: started(t, "beanstalkd").addr, lie: nth("delete", 10, func(reply string) string { cancel(); return reply })}
	_, err := drive(ctx, plan{Load: small(t, beanstalkd, "one-tube conns=4"), Addr: f.listen(t), Run: "test"})
	if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("error %v, want that the context is canceled", err)
	}
}

// An exchange that the kernel does not accept at once, and answers that arrive at once.
func TestAskLosesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sizes := func(i int) int {
		if i == 2000 {
			return 8 << 20
		}
		return 4
	}
	go func() {
		server, err := l.Accept()
		if err != nil {
			return
		}
		defer server.Close()
		b := make([]byte, 9<<20)
		for i := 0; err == nil; i++ {
			_, err = io.ReadFull(server, b[:sizes(i)])
			server.Write(b[:4])
		}
	}()
	k, err := dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for i := range 5000 {
		k.Out = append(k.Out, make([]byte, sizes(i))...)
		k.Out[0], k.Out[1] = byte(i), byte(i>>8)
		err := k.ask()
		for err == nil && len(k.unread()) < 4 {
			err = k.receive(4)
		}
		if b := k.unread(); err != nil || b[0] != byte(i) || b[1] != byte(i>>8) {
			t.Fatalf("round %d: %v came back, %v", i, b, err)
		}
		k.lo += 4
	}
}

// installed returns the reference server of a protocol.
func installed(t *testing.T, protocol string) *Target {
	t.Helper()
	program, err := exec.LookPath("beanstalkd")
	if protocol == "gearman" {
		program, _, err = conversation.Gearman.Reference()
	}
	if err != nil {
		t.Skip("the reference server is not installed (Debian and Ubuntu: apt-get install beanstalkd gearman-job-server):", err)
	}
	target, err := parseTarget("ref="+program, protocols[protocol])
	if err != nil {
		t.Fatal(err)
	}
	return &target
}
