package bench

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/codec/conversation"
	"polystalk/codec/gearman"
)

// Small loads cover every workload in a size that a slow fake can bear.
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

func small(t *testing.T, p *Protocol, line string) Load {
	t.Helper()
	base := newLoad()
	base.Duration, base.Warmup = 20*time.Second, 10*time.Millisecond
	l, err := p.parseLoad(line, base)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// drive runs a load in this process.
func drive(t *testing.T, p Plan) (*report, error) {
	t.Helper()
	var out *report
	p.Run = "test"
	return out, Drive(t.Context(), p, func(rep *report) error { out = rep; return nil })
}

func TestEveryWorkloadRunsAndLeavesNothing(t *testing.T) {
	for name, lines := range smallLoads {
		for _, line := range lines {
			t.Run(name+" "+line, func(t *testing.T) {
				t.Parallel()
				var addr string
				var left func() string
				if name == "gearman" {
					f, a := startGearFake(t, nil)
					addr, left = a, f.left
				} else {
					f, a := startBeansFake(t, nil)
					addr, left = a, func() string { return strings.TrimSuffix(strconv.Itoa(f.left())+" jobs", "0 jobs") }
				}
				l := small(t, protocols[name], line)
				var rep *report
				err := Drive(t.Context(), Plan{Load: l, Addr: addr, Run: "test", ServerPID: os.Getpid()}, func(r *report) error { rep = r; return nil })
				if err != nil {
					t.Fatal(err)
				}
				var rec Recorder
				if err := rec.merge(rep.Latency); err != nil || rep.Ops == 0 || rec.Take().Count == 0 {
					t.Errorf("%d operations, %d bytes of histogram, %v", rep.Ops, len(rep.Latency), err)
				}
				if l.Workload == "cycle" && l.Depth == 1 && rep.Ops != l.Count || name == "gearman" && l.Workload == "drain" && rep.Ops != l.Count {
					t.Errorf("%d operations, want %d", rep.Ops, l.Count)
				}
				if s := left(); s != "" {
					t.Error(s, "are left on the server")
				}
				if l.Workload == "memory" && (rep.Memory == nil || rep.Memory.Jobs < l.Count) {
					t.Errorf("memory report %+v, want %d jobs", rep.Memory, l.Count)
				}
			})
		}
	}
}

// Two processes at once must not take each other's jobs.
func TestProcessesKeepApart(t *testing.T) {
	for _, line := range []string{"background conns=3 count=100", "foreground conns=4 workers=3 count=100", "drain conns=3 count=101", "echo conns=2 count=20"} {
		_, addr := startGearFake(t, nil)
		l := small(t, gearmand, line+" processes=2")
		errs := make(chan error)
		for i := range l.Processes {
			go func() {
				_, err := drive(t, Plan{Load: l, Addr: addr, Process: i})
				errs <- err
			}()
		}
		for range l.Processes {
			if err := <-errs; err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

// Every lie must end the run with an error that shows the lie.
func TestWrongBeanstalkdRepliesFailLoudly(t *testing.T) {
	nth := func(prefix string, n int, with string) func(cmd, reply string) string {
		seen := make(chan int, 1)
		seen <- 0
		return func(cmd, reply string) string {
			if strings.HasPrefix(cmd, prefix) {
				k := <-seen + 1
				seen <- k
				if k == n {
					return with
				}
			}
			return reply
		}
	}
	swapped := func(cmd, reply string) string {
		return strings.Replace(reply, "\r\n000000000000", "\r\n000000000001", 1)
	}
	body := strings.Repeat("x", 64)
	for _, c := range []struct {
		name, load, expect string
		lie                func(cmd, reply string) string
	}{
		{"refused put", "cycle conns=2 count=300", `expected INSERTED, got "OUT_OF_MEMORY"`, nth("put", 9, "OUT_OF_MEMORY\r\n")},
		{"another job", "cycle conns=1 count=300", "expected job", nth("reserve", 3, "RESERVED 999 64\r\n"+body+"\r\n")},
		{"shorter body", "cycle conns=1 count=300", "a body of 64 bytes", nth("reserve", 1, "RESERVED 1 3\r\nabc\r\n")},
		{"swapped body", "cycle conns=1 count=300", "came back with another body", swapped},
		{"not deleted", "cycle conns=1 depth=4 count=300", `expected DELETED, got "NOT_FOUND"`, nth("delete", 7, "NOT_FOUND\r\n")},
		{"wrong tube", "cycle conns=1", `expected USING`, nth("use", 1, "TIMED_OUT\r\n")},
		{"wrong list", "laravel conns=1 count=300", "wrong reply to list-tubes-watched", nth("list", 5, yaml("---\n- default\n"))},
		{"missed job", "laravel conns=1 count=300", `expected RESERVED, got "TIMED_OUT"`, nth("reserve", 4, "TIMED_OUT\r\n")},
		{"wrong use", "connect conns=2 count=300", "wrong reply to \"use\"", nth("use", 4, "USING default\r\n")},
		{"missed put", "connect conns=2 count=300", "wrong reply to \"put\"", nth("put", 3, "BURIED 3\r\n")},
		{"bad stats", "laravel conns=1 count=300", "wrong reply to stats-job", nth("stats-job", 2, yaml("---\nid: 1\nstate: ready\n"))},
		{"deadline", "one-tube conns=4 count=300", `got "DEADLINE_SOON"`, nth("reserve", 20, "DEADLINE_SOON\r\n")},
		{"garbage", "wakeup conns=3 count=300", "malformed reply", nth("delete", 3, "INSERTED x\r\n")},
		{"lost body end", "cycle conns=1 count=300", "not followed by CR LF", nth("reserve", 2, "RESERVED 2 3\r\nabcd\r\n")},
		{"endless line", "cycle conns=1 count=300", "reply line of more", nth("put", 2, strings.Repeat("x", 600))},
		{"wrong next use", "multi-watch conns=1 tubes=3 count=100", "expected USING", nth("use", 2, "USING other\r\n")},
		{"wrong count", "many-tubes conns=1 tubes=3 count=100", "expected WATCHING 2", nth("watch", 3, "WATCHING 7\r\n")},
		{"end", "cycle conns=3", "closed the connection", nth("delete", 20, "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var f *beansFake
			ready := make(chan struct{})
			f, addr := startBeansFake(t, func(cmd, reply string) string {
				<-ready
				if reply = c.lie(cmd, reply); reply == "" {
					f.mu.Lock()
					defer f.mu.Unlock()
					for nc := range f.nets {
						nc.Close()
					}
				}
				return reply
			})
			close(ready)
			if _, err := drive(t, Plan{Load: small(t, beanstalkd, c.load), Addr: addr}); err == nil || !strings.Contains(err.Error(), c.expect) {
				t.Errorf("error %v, want one with %q", err, c.expect)
			}
		})
	}
}

func TestWrongGearmanRepliesFailLoudly(t *testing.T) {
	nth := func(t gearman.Type, n int, lie func(reply []byte) []byte) gearLie {
		return func(sent gearman.Type, k int, reply []byte) []byte {
			if sent == t && k == n {
				return lie(reply)
			}
			return reply
		}
	}
	instead := func(packet []byte) func([]byte) []byte { return func([]byte) []byte { return packet } }
	refused := instead(gearman.AppendError(nil, gearman.ErrorQueueFull))
	swap := func(old, new string) func([]byte) []byte {
		return func(reply []byte) []byte {
			if !bytes.Contains(reply, []byte(old)) {
				t.Errorf("there is no %q in %q to lie about", old, reply)
			}
			return bytes.Replace(reply, []byte(old), []byte(new), 1)
		}
	}
	twice := func(reply []byte) []byte { return append(bytes.Clone(reply), reply...) }
	var first []byte
	again := func(sent gearman.Type, k int, reply []byte) []byte { // the second job is the first
		if sent == gearman.JobAssignUniq && k == 1 {
			first = bytes.Clone(reply)
		}
		if sent == gearman.JobAssignUniq && k == 2 {
			return first
		}
		return reply
	}
	for _, c := range []struct {
		name, load, expect string
		lie                gearLie
	}{
		{"refused", "background conns=2 count=100", "expected JOB_CREATED, got ERROR", nth(gearman.JobCreated, 9, refused)},
		{"refused while filling", "drain conns=2 count=100", "setup: wrong reply to SUBMIT_JOB_BG", nth(gearman.JobCreated, 9, refused)},
		{"no handle", "background conns=1 count=100", "a handle of its own", nth(gearman.JobCreated, 5, instead(gearman.AppendReply(nil, gearman.JobCreated)))},
		{"joined job", "background conns=1 count=100", "a handle of its own", nth(gearman.JobCreated, 5, swap("fake:5", "fake:4"))},
		{"lost job", "background conns=1 count=100", "there are 99 jobs of this load, expected 100", nth(gearman.Text, 1, swap("\t100\t", "\t99\t"))},
		{"strange status", "background conns=1 count=100", "three numbers", nth(gearman.Text, 1, instead([]byte("f\t1\n")))},
		{"magic", "background conns=1 count=100", "malformed reply", nth(gearman.JobCreated, 5, swap("\x00RES", "\x00REQ"))},
		{"no job", "drain conns=2 count=100", "expected JOB_ASSIGN_UNIQ, got NO_JOB", nth(gearman.JobAssignUniq, 3, instead(gearman.AppendNoJob(nil)))},
		{"other body", "drain conns=1 count=100", "another body", nth(gearman.JobAssignUniq, 3, swap("polystalk", "polystork"))},
		{"shorter body", "drain conns=1 count=100", "expected 64 bytes", nth(gearman.JobAssignUniq, 1, instead(gearman.AppendReply(nil, gearman.JobAssignUniq,
			[]byte("H:fake:1"), []byte("lt.test.0.f0"), []byte("lt.test.0.u.0000000000000000"), []byte("abc"))))},
		{"other function", "drain conns=1 count=100", "handed out as one of", nth(gearman.JobAssignUniq, 3, swap("lt.test.0.f0", "lt.test.0.f1"))},
		{"other load", "drain conns=1 count=100", "of another load", nth(gearman.JobAssignUniq, 3, swap("lt.test.0.u.", "lt.test.9.u."))},
		{"made up", "drain conns=1 count=100", "never submitted", nth(gearman.JobAssignUniq, 3, func(b []byte) []byte {
			return bytes.ReplaceAll(b, []byte("0000000000000002"), []byte("0000000000000064"))
		})},
		{"twice", "drain conns=1 count=100", "handed out twice", again},
		{"not ours", "drain conns=1 count=100", "JOB_NOT_FOUND", nth(gearman.JobAssignUniq, 3, swap("fake:3", "fake:7"))},
		{"failed", "foreground conns=1 workers=1 count=100", "expected WORK_COMPLETE, got WORK_FAIL",
			nth(gearman.WorkComplete, 4, instead(gearman.AppendWorkFail(nil, gearman.Handle{Prefix: "H:fake", ID: 4})))},
		{"other result", "foreground conns=1 workers=1 count=100", "another body", nth(gearman.WorkComplete, 4, swap("polystalk", "polystork"))},
		{"result of another", "foreground conns=1 workers=1 count=100", "created for this client", nth(gearman.WorkComplete, 4, swap("fake:4", "fake:3"))},
		{"result twice", "foreground conns=1 workers=1 depth=4 count=100", "one result of a job", nth(gearman.WorkComplete, 2, twice)},
		{"no noop", "foreground conns=1 workers=1 count=100", "wrong reply to PRE_SLEEP", nth(gearman.Noop, 1, instead(gearman.AppendNoJob(nil)))},
		{"other echo", "echo conns=1 depth=4 count=100", "another body", nth(gearman.EchoRes, 3, swap("0000000000000003", "0000000000000004"))},
		{"no echo", "echo conns=1 count=100", "expected ECHO_RES, got NO_JOB", nth(gearman.EchoRes, 3, instead(gearman.AppendNoJob(nil)))},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, addr := startGearFake(t, c.lie)
			if _, err := drive(t, Plan{Load: small(t, gearmand, c.load), Addr: addr}); err == nil || !strings.Contains(err.Error(), c.expect) {
				t.Errorf("error %v, want one with %q", err, c.expect)
			}
		})
	}
}

func TestCancelEndsARunThatWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, addr := startBeansFake(t, func(cmd, reply string) string {
		if cmd == "delete 10" {
			cancel()
		}
		return reply
	})
	err := Drive(ctx, Plan{Load: small(t, beanstalkd, "one-tube conns=4"), Addr: addr, Run: "test"}, func(*report) error { return nil })
	if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("error %v, want that the context is canceled", err)
	}
}

// An exchange that the kernel does not take at once, and answers that arrive at once.
func TestAskLosesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k, err := dialLink(t.Context(), l.Addr().String(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer k.shut()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() { // echoes, but a large request only when it has arrived whole
		b := make([]byte, 9<<20)
		for {
			n, err := server.Read(b)
			for err == nil && n > 100 && n < 8<<20 {
				var m int
				m, err = server.Read(b[n:])
				n += m
			}
			if err != nil {
				return
			}
			server.Write(b[:min(n, 4)])
		}
	}()
	for i := range 5000 {
		size := 4
		if i == 2000 {
			size = 8 << 20
		}
		k.out = append(k.out, make([]byte, size)...)
		k.out[0], k.out[1] = byte(i), byte(i>>8)
		if err := k.ask(); err != nil {
			t.Fatal(err)
		}
		for len(k.unread()) < 4 {
			if err := k.receive(4); err != nil {
				t.Fatal(err)
			}
		}
		if b := k.unread(); b[0] != byte(i) || b[1] != byte(i>>8) {
			t.Fatalf("round %d: %v came back", i, b)
		}
		k.lo += 4
	}
}

// Every workload on the installed reference, which the test of a comparison starts.
func TestEveryWorkloadRunsOnTheReference(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for name, lines := range smallLoads {
		t.Run(name, func(t *testing.T) {
			s, err := installed(t, name).start(t.Context(), NewSpawner(), protocols[name], Load{})
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range lines {
				if _, err := drive(t, Plan{Load: small(t, protocols[name], line), Addr: s.addr, ServerPID: s.cmd.Process.Pid}); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
			if err := s.stop(); err != nil {
				t.Error(err)
			}
		})
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
