package gearmand

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/codec/gearmantest"
	"polystalk/loadtest/compare"
	"polystalk/loadtest/latency"
	"polystalk/loadtest/proc"
	"polystalk/loadtest/workload"
	"polystalk/loadtest/workload/workloadtest"
)

// smallLoads covers every workload in a size that a slow fake can bear.
var smallLoads = []string{
	"background conns=3 count=100",
	"background conns=3 depth=8 tubes=2 waiting=50 count=100",
	"background conns=2 rate=2000 count=60",
	"background conns=2 warmup=10ms duration=20ms",
	"foreground conns=4 workers=2 count=200",
	"foreground conns=2 workers=4 count=100",
	"foreground conns=3 workers=2 depth=5 count=200",
	"foreground conns=4 rate=2000 arrivals=poisson count=100",
	"drain conns=3 count=100",
	"drain conns=3 depth=8 tubes=5 count=100",
	"drain conns=3 depth=4 count=50 waiting=70",
	"echo conns=3 count=300",
	"echo conns=2 depth=8 body=9000 count=100",
	"memory conns=2 count=100 depth=8 settle=1ms",
}

func small(t *testing.T, line string) workload.Load {
	t.Helper()
	l, err := Protocol.ParseLoad(line, workload.Load{Duration: 20e9, Warmup: 10e6})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEveryGearmanWorkloadRunsAndLeavesNothing(t *testing.T) {
	for _, line := range smallLoads {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f, addr := startFake(t, nil)
			l := small(t, line)
			rep, err := workloadtest.Run(t, Protocol, workload.Plan{Load: l, Addr: addr, Run: "test", ServerPID: os.Getpid()})
			if err != nil {
				t.Fatal(err)
			}
			h, err := latency.Merge(nil, rep.Commands)
			if err != nil {
				t.Fatal(err)
			}
			if rep.Ops == 0 || h.TotalCount() != rep.Ops {
				t.Errorf("%d operations, %d latencies", rep.Ops, h.TotalCount())
			}
			if Protocol.Spec(l).Is(workload.Once) && l.Workload == "drain" && rep.Ops != l.Count {
				t.Errorf("%d operations, expected %d", rep.Ops, l.Count)
			}
			if left := f.left(); left != "" {
				t.Error(left, "are left on the server")
			}
			if l.Workload == "memory" && (rep.Memory == nil || rep.Memory.Jobs < l.Count) {
				t.Errorf("memory report %+v, expected %d jobs", rep.Memory, l.Count)
			}
		})
	}
}

// Two processes at once must not take each other's jobs.
func TestGearmanProcessesKeepApart(t *testing.T) {
	for _, line := range []string{"background conns=3 count=100", "foreground conns=4 workers=3 count=100", "drain conns=3 count=101", "echo conns=2 count=20"} {
		f, addr := startFake(t, nil)
		l := small(t, line+" processes=2")
		errs := make(chan error)
		for i := range l.Processes {
			go func() {
				_, err := workloadtest.Run(t, Protocol, workload.Plan{Load: l, Addr: addr, Run: "test", Process: i})
				errs <- err
			}()
		}
		for range l.Processes {
			if err := <-errs; err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
		if left := f.left(); left != "" {
			t.Errorf("%s: %s are left on the server", line, left)
		}
	}
}

// Every lie must end the run with an error that shows the lie.
func TestWrongGearmanRepliesFailLoudly(t *testing.T) {
	nth := func(t gearman.Type, n int, lie func(reply []byte) []byte) lie {
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
		lie                lie
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
			[]byte("H:fake:1"), []byte("lt.test.0.f0"), []byte("lt.test.0.u0.0000000000000000"), []byte("abc"))))},
		{"other function", "drain conns=1 count=100", "came as one of", nth(gearman.JobAssignUniq, 3, swap("lt.test.0.f0", "lt.test.0.f1"))},
		{"other load", "drain conns=1 count=100", "of another load", nth(gearman.JobAssignUniq, 3, swap("lt.test.0.u0", "lt.test.9.u0"))},
		{"made up", "drain conns=1 count=100", "never submitted", nth(gearman.JobAssignUniq, 3, func(b []byte) []byte {
			return bytes.ReplaceAll(b, []byte("0000000000000002"), []byte("0000000000000064"))
		})},
		{"twice", "drain conns=1 count=100", "given out twice", again},
		{"not ours", "drain conns=1 count=100", "JOB_NOT_FOUND", nth(gearman.JobAssignUniq, 3, swap("fake:3", "fake:7"))},
		{"failed", "foreground conns=1 workers=1 count=100", "expected WORK_COMPLETE, got WORK_FAIL",
			nth(gearman.WorkComplete, 4, instead(gearman.AppendWorkFail(nil, gearman.Handle{Prefix: "H:fake", ID: 4})))},
		{"other result", "foreground conns=1 workers=1 count=100", "another body", nth(gearman.WorkComplete, 4, swap("polystalk", "polystork"))},
		{"result of another", "foreground conns=1 workers=1 count=100", "created for this client", nth(gearman.WorkComplete, 4, swap("fake:4", "fake:3"))},
		{"result twice", "foreground conns=1 workers=1 depth=4 count=100", "one result of a job", nth(gearman.WorkComplete, 2, twice)},
		{"early result", "foreground conns=1 workers=1 count=100", "created for this client",
			nth(gearman.JobCreated, 3, instead(append(gearman.AppendWorkHead(nil, gearman.WorkComplete, gearman.Handle{Prefix: "H:fake", ID: 3}, 0),
				gearman.AppendJobCreated(nil, gearman.Handle{Prefix: "H:fake", ID: 3})...)))},
		{"no noop", "foreground conns=1 workers=1 count=100", "wrong reply to PRE_SLEEP", nth(gearman.Noop, 1, instead(gearman.AppendNoJob(nil)))},
		{"other echo", "echo conns=1 depth=4 count=100", "another body", nth(gearman.EchoRes, 3, swap("0000000000000003", "0000000000000004"))},
		{"no echo", "echo conns=1 count=100", "expected ECHO_RES, got NO_JOB", nth(gearman.EchoRes, 3, instead(gearman.AppendNoJob(nil)))},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, addr := startFake(t, c.lie)
			_, err := workloadtest.Run(t, Protocol, workload.Plan{Load: small(t, c.load), Addr: addr, Run: "test"})
			if err == nil || !strings.Contains(err.Error(), c.expect) {
				t.Errorf("error %v, expected one with %q", err, c.expect)
			}
		})
	}
}

func TestGearmanServerThatGoesAwayFailsTheRun(t *testing.T) {
	for _, line := range []string{"background conns=3 count=1000", "foreground conns=3 workers=2", "drain conns=2 count=100", "echo conns=2"} {
		var f *fake
		f, addr := startFake(t, func(sent gearman.Type, k int, reply []byte) []byte {
			if (sent == gearman.EchoRes || sent == gearman.JobCreated) && k == 50 {
				for c := range f.conns { // under the lock
					c.nc.Close()
				}
			}
			return reply
		})
		if _, err := workloadtest.Run(t, Protocol, workload.Plan{Load: small(t, line), Addr: addr, Run: "test"}); err == nil {
			t.Errorf("%s: the run passed although the server closed its connections", line)
		}
	}
}

func TestGearmanVersionMustBeAnswered(t *testing.T) {
	_, addr := startFake(t, nil)
	if v, err := version(t.Context(), addr); err != nil || v != "0.1-fake" {
		t.Errorf("%q, %v", v, err)
	}
	_, addr = startFake(t, func(gearman.Type, int, []byte) []byte { return []byte("ERR no\r\n") })
	if v, err := version(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "wrong reply to version") {
		t.Errorf("%q, %v", v, err)
	}
}

// gearmand is the command line of the installed one, without arguments.
func gearmand(t *testing.T) string {
	t.Helper()
	program, _, err := gearmantest.Reference()
	if err != nil {
		t.Skip(err)
	}
	return program
}

func TestEveryGearmanWorkloadRunsOnGearmand(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	tg, err := compare.ParseTarget(gearmand(t), Protocol)
	if err != nil {
		t.Fatal(err)
	}
	s, err := compare.Start(t.Context(), proc.NewSpawner(), Protocol, tg, workload.Load{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for i, line := range smallLoads {
		if _, err := workloadtest.Run(t, Protocol, workload.Plan{Load: small(t, line), Addr: s.Addr, Run: strconv.Itoa(i), ServerPID: s.PID}); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	c, err := dial(t.Context(), s.Addr, &workload.Load{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.NC.Close()
	if jobs, err := c.jobs(); err != nil || len(jobs) != 0 {
		t.Errorf("functions %v are left on the server, %v", jobs, err)
	}
}
