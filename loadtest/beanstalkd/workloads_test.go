package beanstalkd

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/loadtest/compare"
	"polystalk/loadtest/latency"
	"polystalk/loadtest/proc"
	"polystalk/loadtest/workload"
	"polystalk/loadtest/workload/workloadtest"
)

// smallLoads covers every workload in a size that a map-based fake can bear.
var smallLoads = []string{
	"cycle conns=4 count=300",
	"cycle conns=3 depth=8 count=300",
	"cycle conns=2 rate=2000 count=60",
	"cycle conns=2 rate=2000 arrivals=poisson count=60",
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
	"held held=30 depth=4",
	"multi-watch conns=3 tubes=5 depth=3 count=200",
	"multi-watch conns=3 tubes=1 count=200",
	"laravel conns=4 reconnect=3 tubes=2 count=480",
	"connect count=200",
	"connect conns=3 count=2",
	"big-bodies conns=2 count=30",
	"memory conns=2 count=200 depth=8 settle=1ms light-rate=500 duration=50ms",
}

func plain(t *testing.T, line string) workload.Load {
	t.Helper()
	l, err := Protocol.ParseLoad(line, workload.Load{Duration: 20 * time.Second, Warmup: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if l.Workload == "held" { // rounds of it end by time only
		l.Duration = 1
	}
	return l
}

func TestEveryWorkloadRunsAndLeavesNothing(t *testing.T) {
	for _, line := range smallLoads {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f, addr := startFake(t, nil)
			l := plain(t, line)
			rep, err := workloadtest.Run(t, Protocol, workload.Plan{Load: l, Addr: addr, Run: "test", ServerPID: os.Getpid()})
			if err != nil {
				t.Fatal(err)
			}
			if rep.Ops == 0 || len(rep.Commands) == 0 {
				t.Errorf("nothing was measured: %d operations, %d bytes of histogram", rep.Ops, len(rep.Commands))
			}
			if n := f.left(); n != 0 {
				t.Errorf("%d jobs are left on the server", n)
			}
			if l.Workload == "memory" && (rep.Memory == nil || rep.Memory.Jobs != 200) {
				t.Errorf("memory report %+v, expected 200 jobs", rep.Memory)
			}
		})
	}
}

func TestCountBoundsOperations(t *testing.T) {
	_, addr := startFake(t, nil)
	// 4 connections of 75 operations each, a turn of 3 never being cut.
	rep, err := workloadtest.Run(t, Protocol, workload.Plan{Load: plain(t, "cycle conns=4 count=300"), Addr: addr, Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := latency.Merge(nil, rep.Commands)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Ops != 300 || h.TotalCount() != 300 {
		t.Errorf("%d operations, %d latencies; expected 300 of both", rep.Ops, h.TotalCount())
	}
}

// Every lie must end the run with an error that shows the lie.
func TestWrongRepliesFailLoudly(t *testing.T) {
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
	body := strings.Repeat("x", 64)
	for _, c := range []struct {
		name, load, expect string
		lie                func(cmd, reply string) string
	}{
		{"refused put", "cycle conns=2 count=300", `expected INSERTED, got "OUT_OF_MEMORY"`, nth("put", 9, "OUT_OF_MEMORY\r\n")},
		{"another job", "cycle conns=1 count=300", "expected job", nth("reserve", 3, "RESERVED 999 64\r\n"+body+"\r\n")},
		{"shorter body", "cycle conns=1 count=300", "a body of 64 bytes", nth("reserve", 1, "RESERVED 1 3\r\nabc\r\n")},
		{"not deleted", "cycle conns=1 depth=4 count=300", `expected DELETED, got "NOT_FOUND"`, nth("delete", 7, "NOT_FOUND\r\n")},
		{"wrong tube", "cycle conns=1", `expected USING`, nth("use", 1, "TIMED_OUT\r\n")},
		{"wrong list", "laravel conns=1 count=300", "wrong reply to list-tubes-watched", nth("list", 5, yaml("---\n- default\n"))},
		{"missed job", "laravel conns=1 count=300", `expected RESERVED, got "TIMED_OUT"`, nth("reserve", 4, "TIMED_OUT\r\n")},
		{"wrong tube", "connect conns=2 count=300", "wrong reply to \"use\"", nth("use", 4, "USING default\r\n")},
		{"missed put", "connect conns=2 count=300", "wrong reply to \"put\"", nth("put", 3, "BURIED 3\r\n")},
		{"bad stats", "laravel conns=1 count=300", "wrong reply to stats-job", nth("stats-job", 2, yaml("---\nid: 1\nstate: ready\n"))},
		{"deadline", "one-tube conns=4 count=300", `got "DEADLINE_SOON"`, nth("reserve", 20, "DEADLINE_SOON\r\n")},
		{"garbage", "wakeup conns=3 count=300", "malformed reply", nth("delete", 3, "INSERTED x\r\n")},
		{"wrong use", "multi-watch conns=1 tubes=3 count=100", "expected USING", nth("use", 2, "USING other\r\n")},
		{"wrong count", "many-tubes conns=1 tubes=3 count=100", "expected WATCHING 2", nth("watch", 3, "WATCHING 7\r\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, addr := startFake(t, c.lie)
			_, err := workloadtest.Run(t, Protocol, workload.Plan{Load: plain(t, c.load), Addr: addr, Run: "test"})
			if err == nil || !strings.Contains(err.Error(), c.expect) {
				t.Errorf("error %v, expected one with %q", err, c.expect)
			}
		})
	}
}

// A body of the right length whose content belongs to another job.
func TestSwappedBodyFailsLoudly(t *testing.T) {
	_, addr := startFake(t, func(cmd, reply string) string {
		if cmd == "reserve" {
			return strings.Replace(reply, "\r\n000000000000", "\r\n000000000001", 1)
		}
		return reply
	})
	_, err := workloadtest.Run(t, Protocol, workload.Plan{Load: plain(t, "cycle conns=1 count=30"), Addr: addr, Run: "test"})
	if err == nil || !strings.Contains(err.Error(), "came back with another body") {
		t.Errorf("error %v", err)
	}
}

func TestServerThatGoesAwayFailsTheRun(t *testing.T) {
	var f *fake
	ready := make(chan struct{})
	f, addr := startFake(t, func(cmd, reply string) string {
		<-ready
		if cmd == "delete 20" {
			f.mu.Lock()
			defer f.mu.Unlock()
			for nc := range f.nets {
				nc.Close()
			}
		}
		return reply
	})
	close(ready)
	_, err := workloadtest.Run(t, Protocol, workload.Plan{Load: plain(t, "cycle conns=3"), Addr: addr, Run: "test"})
	if err == nil {
		t.Error("the run passed although the server closed its connections")
	}
}

func TestCancelEndsARunThatWaits(t *testing.T) {
	f, addr := startFake(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			f.mu.Lock()
			n := f.puts
			f.mu.Unlock()
			if n > 10 {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	err := workload.Run(ctx, Protocol, workload.Plan{Load: plain(t, "one-tube conns=4"), Addr: addr, Run: "test"}, func(workload.Message) error { return nil })
	if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("error %v, expected that of the cancelled context", err)
	}
}

func beanstalkd(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("beanstalkd")
	if err != nil {
		t.Skip("beanstalkd is not installed; install it (Debian and Ubuntu: apt-get install beanstalkd) to run this test")
	}
	return path
}

func TestEveryWorkloadRunsOnBeanstalkd(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	beanstalkd(t)
	tg, err := compare.ParseTarget("beanstalkd", Protocol)
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
		if _, err := workloadtest.Run(t, Protocol, workload.Plan{Load: plain(t, line), Addr: s.Addr, Run: strconv.Itoa(i), ServerPID: s.PID}); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	c, err := dial(t.Context(), s.Addr, &workload.Load{}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.NC.Close()
	r, err := c.call(kindOK, "stats")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		if !bytes.Contains(r.body, []byte("current-jobs-"+state+": 0\n")) {
			t.Errorf("%s jobs are left on the server:\n%s", state, r.body)
		}
	}
}
