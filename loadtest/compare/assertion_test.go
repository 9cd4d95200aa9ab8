package compare

import (
	"strings"
	"testing"

	"polystalk/loadtest/beanstalkd"
	"polystalk/loadtest/measure/measuretest"
	"polystalk/loadtest/workload"
)

func TestParseAssertion(t *testing.T) {
	for _, c := range []struct{ in, load, server, metric, against, op string }{
		{"cpu<=0.85", "", "", "cpu", "", "<="},
		{" ops >= 8 ", "", "", "ops", "", ">="},
		{"cycle: polystalkd.cpu/floor<=1.08", "cycle", "polystalkd", "cpu", "floor", "<="},
		{"cycle depth=16: cpu<0.1", "cycle depth=16", "", "cpu", "", "<"},
		{"tubes-5000: cpu/@tubes-50 <= 1.15", "tubes-5000", "", "cpu", "@tubes-50", "<="},
		{"c: cpu/@cycle depth=16>1", "c", "", "cpu", "@cycle depth=16", ">"},
		{"a.b-1#2.p999<=1e1", "", "a.b-1#2", "p999", "", "<="},
		{"rss-before<=1", "", "", "rss-before", "", "<="},
	} {
		a, err := ParseAssertion(c.in)
		if err != nil || a.load != c.load || a.server != c.server || a.metric.Name != c.metric || a.against != c.against || a.op != c.op {
			t.Errorf("%q: %+v, %v", c.in, a, err)
		}
	}
	for _, bad := range []string{"", "cpu", "cpu=0.85", "cpu<=", "cpu<=x", "cpu<=1.2.3", "speed<=1", "<=1", "cpu/<=1", "a.b.<=1"} {
		if _, err := ParseAssertion(bad); err == nil {
			t.Errorf("%q passed", bad)
		} else if !strings.Contains(err.Error(), "assertion") {
			t.Errorf("%q: error %v does not say what it is about", bad, err)
		}
	}
}

func TestGoalsParseAndNameBenchLoads(t *testing.T) {
	names := map[string]bool{}
	for _, line := range beanstalkd.Protocol.Bench {
		l, err := beanstalkd.Protocol.ParseLoad(line, workload.Load{})
		if err != nil {
			t.Fatal(err)
		}
		names[l.Name] = true
	}
	for _, g := range beanstalkd.Protocol.Goals {
		a, err := ParseAssertion(g)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := strings.CutPrefix(a.against, "@"); !names[a.load] || (ok && !names[other]) {
			t.Errorf("goal %q speaks of a load that -bench has not", g)
		}
	}
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
		{"cycle: cpu<0.5", 1, 0.5, true, false},
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
		a, err := ParseAssertion(c.in)
		if err != nil {
			t.Fatal(err)
		}
		vs := a.Judge(measuretest.ThreeRounds(), targets)
		if len(vs) != c.verdicts || vs[0].Value != c.value || vs[0].Known != c.known || vs[0].Holds != c.holds {
			t.Errorf("%q: %+v", c.in, vs)
		}
		if err := Failures(vs[:1]); (err == nil) != c.holds {
			t.Errorf("%q: error %v", c.in, err)
		}
	}
}
