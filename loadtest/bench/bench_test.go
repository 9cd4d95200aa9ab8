package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/codec/conversation"
)

// TestMain makes this binary usable as a load process and as the floor.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "worker", "floor":
			if err := Main(context.Background(), os.Args[1:]); err != nil {
				os.Exit(1)
			}
			return
		}
	}
	conversation.Program("polystalkd") // no test pays for the build; one that needs it reports an error
	os.Exit(m.Run())
}

func near(a, b float64) bool { return math.Abs(a-b) <= b*0.002 } // three significant figures

func TestLatencies(t *testing.T) {
	var a recorder
	for us := int64(1); us <= 10000; us++ {
		a.record(us*1000, 1)
	}
	if l := a.take(); l.Count != 10000 || !near(l.P50, 5000) || !near(l.P99, 9900) || !near(l.P999, 9990) || !near(l.Max, 10000) {
		t.Errorf("%+v", l)
	}
	a.record(-5, 1)
	a.record(math.MaxInt64, 2)
	if l := a.take(); l.Count != 3 || !near(l.Max, float64(longest)/1e3) {
		t.Errorf("out of bounds: %+v", l)
	}
	if l := a.take(); l != (Latency{}) {
		t.Errorf("nothing recorded gives %+v", l)
	}
}

// All lanes together must send at the rate, evenly, for any batches.
func TestScheduleKeepsTheRate(t *testing.T) {
	for _, batch := range []int{1, 3} {
		seen := map[int64]bool{}
		var last int64
		for i := range 4 {
			ph := &phase{env: &env{plan: plan{Load: Load{Rate: 1000}}}, started: 1, deadline: math.MaxInt64}
			l, err := ph.lane(i, 4, true)
			if err != nil {
				t.Fatal(err)
			}
			for range 3000 / 4 / batch {
				seen[l.due()] = true
				last = max(last, l.due())
				l.sent += int64(batch)
			}
			l.end()
		}
		// 3000 commands at 1000/s: the last batch is due just before 3 s.
		if d := time.Duration(last); len(seen) != 3000/batch || d >= 3*time.Second || d < 3*time.Second-time.Duration(batch*4)*time.Millisecond {
			t.Errorf("batches of %d: %d different times, the last one %v", batch, len(seen), d)
		}
	}
	l := &lane{step: 1e9 / 3.0, sent: 3_000_000} // a third of a second is not a whole number of nanoseconds
	if want := int64(1e15); max(l.due()-want, want-l.due()) > 1000 {
		t.Errorf("arrival 3,000,001 is due at %d, want %d", l.due(), want)
	}
}

// A stalled server must not shift the schedule: latency counts from the due time. Commands that
// were due in time are sent late, within the overtime; the unsent ones are counted.
func TestOpenLoopCountsFromTheDueTime(t *testing.T) {
	start := Now() - int64(2*time.Second) // late already
	l := &lane{rec: new(recorder), deadline: start + int64(time.Second)}
	if err := l.openLoop(start, 1e8); err != nil {
		t.Fatal(err)
	}
	l.overtime = int64(time.Hour)
	sent := int64(0)
	for ; l.more(); sent++ {
		from, err := l.begin(1)
		if err != nil || from != start+sent*1e8 {
			t.Fatalf("command %d counts from %d: %v", sent, from-start, err)
		}
		l.answered(from, from+int64(time.Second))
	}
	l.flush()
	if s := l.rec.take(); sent != 10 || l.unsent() != 0 || !near(s.P50, 1e6) {
		t.Errorf("%d of 10 arrivals sent, %d counted as unsent, %+v", sent, l.unsent(), s)
	}
	l.sent, l.overtime = 3, 1
	if l.more() || l.unsent() != 7 {
		t.Errorf("it continues after its overtime, or counts %d of 7 as unsent", l.unsent())
	}
	for range 20 {
		due := Now() + int64(300*time.Microsecond)
		if err := l.alarm.sleepUntil(due); err != nil || Now() < due {
			t.Fatalf("the alarm woke %d ns early, %v", due-Now(), err)
		}
	}
	l.end()
}

func TestGrowthComparesTheFirstAndTheLastTenth(t *testing.T) {
	var m milestones
	at := int64(0)
	for i := range 20 * growthStep { // a job each 1000 ns, later each 4000
		if i == 9*growthStep && m.growth(0) != (growth{}) {
			t.Error("the growth of few jobs is known")
		}
		at += 1000
		if i >= 10*growthStep {
			at += 3000
		}
		m.add(at)
	}
	if g := m.growth(0); g != (growth{1e6, 250_000}) {
		t.Errorf("%+v", g)
	}
}

func TestProcessesAreMeasured(t *testing.T) {
	before, err := CPU(os.Getpid())
	for now := before; err == nil && now == before; {
		now, err = CPU(os.Getpid())
	}
	if rss, err2 := RSS(os.Getpid()); err != nil || err2 != nil || rss < 1<<20 {
		t.Errorf("%d bytes, %v, %v", rss, err, err2)
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil || child.Start() != nil {
		t.Fatal("cannot start cat:", err)
	}
	if all := family(os.Getpid()); runtime.GOOS == "linux" && !slices.Contains(all, child.Process.Pid) {
		t.Errorf("family %v lacks the child %d", all, child.Process.Pid)
	}
	in.Close()
	child.Wait()
	var k tail
	for range 500 {
		k.Write([]byte("some line\n"))
	}
	k.Write([]byte("the last words"))
	if s := k.String(); len(s) > tailLen || !strings.HasSuffix(s, "the last words") {
		t.Errorf("%d bytes: %q", len(s), s)
	}
}

func TestParseLoad(t *testing.T) {
	base := newLoad()
	base.Conns, base.ServerCPUs = 7, []int{0}
	l, err := beanstalkd.parseLoad("many-tubes depth=16 tubes=300 duration=3s name=mine server-cpus=3,0-1", base)
	if err != nil {
		t.Fatal(err)
	}
	if l.Name != "mine" || l.Workload != "many-tubes" || l.Conns != 7 || l.Depth != 16 || l.Tubes != 300 || l.Body != 64 ||
		l.Duration != 3*time.Second || !slices.Equal(l.ServerCPUs, []int{0, 1, 3}) {
		t.Errorf("%+v", l)
	}
	if l, err := beanstalkd.parseLoad("big-bodies depth=2", newLoad()); err != nil || l.Body != 60000 || l.Conns != 8 || l.Name != "big-bodies depth=2" {
		t.Errorf("%+v, %v", l, err)
	}
	for in, want := range map[string]string{
		"":                      "needs the name of a workload",
		"cykle":                 "no workload",
		"cycle depth":           "key=value",
		"cycle deep=3":          "no setting",
		"cycle depth=-1":        "out of range",
		"cycle duration=3":      "duration",
		"cycle rate=-1":         "out of range",
		"cycle server-cpus=1-0": "list of cores",
		"memory rate=5":         "no open loop",
		"wakeup conns=1":        "a producer and a consumer",
		"wakeup depth=2":        "depth is 1",
		"one-tube body=8":       "16 bytes or more",
	} {
		if _, err := beanstalkd.parseLoad(in, newLoad()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", in, err, want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"cycle":                                 "is not a flag",
		"-rounds 0":                             "1 or more",
		"-chart x.pdf":                          ".svg",
		"-assert fast":                          "assertion",
		"-load fast":                            "no workload",
		"-load cycle -load cycle":               "are called",
		"-compare no-such-server":               "give its path",
		"-compare name=":                        "not the command line",
		"-compare ls -compare ls":               "two servers",
		"-depth x":                              "invalid value",
		"-protocol smtp":                        "the protocols are beanstalkd gearman",
		"-compare redis:ls -load cycle":         "has only the load job",
		"-protocol gearman -floor":              "does not speak gearman",
		"-protocol gearman -load drain -rate 5": "has no open loop",
	} {
		if _, err := parseSession(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", args, err, want)
		}
	}
	var help bytes.Buffer
	parseSession([]string{"-help"}, &help) // its error is that there was help
	for _, p := range protocols {
		for name, s := range p.workloads {
			if !strings.Contains(help.String(), name) || !strings.Contains(help.String(), s.help) {
				t.Errorf("the help lacks %s: %s", name, s.help)
			}
		}
		s, err := parseSession([]string{"-protocol", p.name, "-bench", "-goals", "-quiet"}, io.Discard)
		if err != nil || s.targets[0].addr != p.addr || len(s.loads) != len(p.bench) {
			t.Fatalf("%+v, %v", s, err)
		}
		known := func(name string) bool {
			return slices.ContainsFunc(s.loads, func(l Load) bool { return l.Name == name })
		}
		for _, g := range p.goals {
			a, err := parseAssertion(g)
			if err != nil {
				t.Error(err)
			}
			if other, ok := strings.CutPrefix(a.against, "@"); !known(a.load) || ok && !known(other) {
				t.Errorf("goal %q is about a load that -bench does not have", g)
			}
		}
	}
	s, err := parseSession([]string{"-compare", "sh", "-compare", "a=sh -x {port}"}, io.Discard)
	if err != nil || s.targets[0].Name != "sh" || s.targets[1].Name != "a" ||
		!slices.Equal(s.targets[0].args[1:], []string{"-l", "127.0.0.1", "-p", "{port}"}) {
		t.Errorf("%+v, %v", s.targets, err)
	}
}

// threeRounds are runs in which new takes half of ref's CPU in every round.
func threeRounds() []Run {
	var runs []Run
	for round := 1; round <= 3; round++ {
		slow := float64(round) // what a busy machine makes of everything
		run := func(load, server string, ops, cpu float64) Run {
			return Run{Load: load, Server: server, Round: round, OpsRate: ops / slow, CPU: cpu * slow, Latency: Latency{P99: 100 * slow}}
		}
		runs = append(runs, run("cycle", "ref", 250, 4), run("cycle", "new", 500, 2), run("cycle", "floor", 1000, 1), run("busy", "new", 100, 3))
		full := run("memory", "new", 100, 1)
		full.Memory = Memory{Jobs: 10, RSSEmpty: 1000, RSSFull: 3000, RSSDrained: 1000}
		runs = append(runs, full)
	}
	return runs
}

func TestJudge(t *testing.T) {
	targets := []Target{{Name: "ref"}, {Name: "new"}, {Name: "floor", Constant: true}}
	for _, c := range []struct {
		in           string
		verdicts     int
		value        float64
		known, holds bool
	}{
		{"cycle: cpu<=0.5", 1, 0.5, true, true},
		{"cycle: cpu < 0.5", 1, 0.5, true, false},
		{"cycle: ops>=2", 1, 2, true, true},
		{"cycle: ops>2", 1, 2, true, false},
		{"cycle: cpu/floor<=2", 1, 2, true, true},
		{"cycle: floor.cpu<=0.2", 1, 0.25, true, false},
		{"cycle: ref.cpu/new<=3", 1, 2, true, true},
		{"busy: cpu/@cycle<=1.6", 1, 1.5, true, true},
		{"memory: bytes<=200", 1, 200, true, true},
		{"memory: kept<=0.2", 1, 0, true, true},
		{"cycle: kept<=0.2", 1, 0, false, false},
		{"busy: cpu<=1", 1, 0, false, false},
		{"elsewhere: cpu<=1", 1, 0, false, false},
		{"cycle: nobody.cpu<=1", 1, 0, false, false},
		{"cycle: cpu/nobody<=1", 1, 0, false, false},
		{"cpu<=9", 3, 0.5, true, true},
	} {
		a, err := parseAssertion(c.in)
		if err != nil {
			t.Fatal(err)
		}
		vs := a.judge(threeRounds(), targets)
		if len(vs) != c.verdicts || vs[0].Value != c.value || vs[0].Known != c.known || vs[0].Holds != c.holds {
			t.Errorf("%q: %+v", c.in, vs)
		}
		if err := failures(vs[:1]); (err == nil) != c.holds {
			t.Errorf("%q: error %v", c.in, err)
		}
	}
	for _, bad := range []string{"", "cpu", "cpu=0.85", "cpu<=", "cpu<=x", "cpu<=1.2.3", "speed<=1", "<=1", "cpu/<=1", "a.b.<=1"} {
		if _, err := parseAssertion(bad); err == nil || !strings.Contains(err.Error(), "assertion") {
			t.Errorf("%q: error %v", bad, err)
		}
	}
	if v, ok := median([]float64{4, 1, 3, 2}); v != 2.5 || !ok {
		t.Errorf("the median of 1 to 4 is %v", v)
	}
}

func TestReportShowsTableServersAndVerdicts(t *testing.T) {
	runs, targets := threeRounds(), []Target{{Name: "ref", Command: "beanstalkd", Version: "1.12"}, {Name: "new", Command: "polystalkd"}, {Name: "floor", Constant: true}}
	a, err := parseAssertion("cycle: cpu<=0.5")
	if err != nil {
		t.Fatal(err)
	}
	d := &document{Machine: thisMachine(), Command: "-x", Servers: targets, Runs: runs, Summary: summarizeRuns(runs, "ref"),
		Verdicts: a.judge(runs, targets), Loads: []Load{{Name: "cycle", Workload: "cycle", ServerCPUs: []int{0, 1}}}, protocol: beanstalkd}
	text := string(d.markdown("chart.svg"))
	for _, want := range []string{"`beanstalkd`, version 1.12", "](chart.svg)", "| cycle | ref |", "|  | new | 250 | 2 | 4.000 | 0.500 |",
		"| `cycle: cpu<=0.5` | cycle | new | 0.5 | holds |", "core 0 1", "| 200 | 0% |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	svg := chart(d.Summary, targets)
	if err := xml.Unmarshal(svg, new(any)); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"new", "floor", "cycle", ">0.5<", ">2<", ">0.25<", "relative to ref"} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("no %q in the chart", want)
		}
	}
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	target, err := parseTarget("ls {port} --no-such-option-here", beanstalkd)
	if err != nil {
		t.Skip("there is no ls here to stand for a broken server; install coreutils")
	}
	if _, err = target.start(t.Context(), NewSpawner(), beanstalkd, Load{}); err == nil || !strings.Contains(err.Error(), "ended before it was ready") || !strings.Contains(err.Error(), "no-such-option-here") {
		t.Errorf("error %v", err)
	}
}

func TestMissedAssertionFailsTheSession(t *testing.T) {
	err := Session(t.Context(), strings.Fields("-quiet -rounds 1 -duration 30ms -warmup 0s -conns 2 -floor -assert floor.ops<=0.5"), io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "MISSED") {
		t.Errorf("error %v, want a missed assertion", err)
	}
}

// A complete session: it starts servers and load processes, and writes all reports.
func TestComparisonEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := t.TempDir()
	args := strings.Fields("-quiet -rounds 2 -duration 50ms -warmup 10ms -conns 4 -floor -load cycle -load wakeup -assert floor.cpu>0" +
		" -json r.json -markdown r.md -chart r.svg -compare")
	args = append(args, "ref="+installed(t, "beanstalkd").args[0])
	t.Chdir(dir)
	if err := Session(t.Context(), args, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("r.json")
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Runs) != 2*(2+1) || len(d.Summary) != 3 || d.Servers[0].Version == "" { // the floor has no wakeup
		t.Errorf("%d runs, %d summaries, servers %+v", len(d.Runs), len(d.Summary), d.Servers)
	}
	for _, r := range d.Runs {
		if r.Ops == 0 || r.CPU <= 0 || r.RSSBefore == 0 || r.RSSAfter == 0 || r.Latency.Count == 0 || r.LoadCPU <= 0 {
			t.Errorf("incomplete run %+v", r)
		}
	}
	for _, name := range []string{"r.md", "r.svg"} {
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
