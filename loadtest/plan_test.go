package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseCPUs(t *testing.T) {
	for in, want := range map[string][]int{"0": {0}, "0,1": {0, 1}, "2-4,0,3": {0, 2, 3, 4}, "all": {}} {
		if got, err := parseCPUs(in); err != nil || got == nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "a", "1-", "-1", "3-2", "1,,2", "0-99999"} {
		if _, err := parseCPUs(bad); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

func TestParseLoad(t *testing.T) {
	base := Load{Conns: 7, ServerCPUs: []int{0}}
	l, err := parseLoad("many-tubes depth=16 tubes=300 duration=3s name=mine server-cpus=0,1", base)
	if err != nil {
		t.Fatal(err)
	}
	if l.Name != "mine" || l.Workload != "many-tubes" || l.Conns != 7 || l.Depth != 16 || l.Tubes != 300 || l.Body != 64 ||
		l.Duration != 3*time.Second || !slices.Equal(l.ServerCPUs, []int{0, 1}) || l.Processes != 1 {
		t.Errorf("%+v", l)
	}
	if l, err := parseLoad("big-bodies depth=2", Load{}); err != nil || l.Body != 60000 || l.Conns != 8 || l.Name != "big-bodies depth=2" {
		t.Errorf("%+v, %v", l, err)
	}
	for in, want := range map[string]string{
		"":                          "needs the name of a workload",
		"cykle":                     "no workload",
		"cycle depth":               "key=value",
		"cycle deep=3":              "no knob",
		"cycle depth=0":             "whole number",
		"cycle duration=3":          "duration",
		"cycle rate=-1":             "rate per second",
		"cycle arrivals=bursty":     "uniform nor poisson",
		"cycle count=0":             "whole number",
		"cycle conns=2 processes=3": "cannot share",
		"memory processes=2":        "one process",
		"memory rate=5":             "no open loop",
		"wakeup conns=1":            "a producer and a consumer",
		"wakeup depth=2":            "depth is 1",
		"one-tube body=8":           "16 bytes or more",
		"laravel depth=4":           "depth is 1",
		"connect depth=4":           "depth is 1",
		"held conns=2":              "one connection",
	} {
		if _, err := parseLoad(in, Load{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, expected one with %q", in, err, want)
		}
	}
}

func TestSharesOfProcessesAddUp(t *testing.T) {
	for _, n := range []int{1, 7, 50} {
		for processes := 1; processes <= n && processes < 9; processes++ {
			sum := 0
			for i := range processes {
				s := plan{Load: Load{Processes: processes}, Process: i}.share(n)
				if s < n/processes || s > n/processes+1 {
					t.Errorf("process %d of %d has %d of %d", i, processes, s, n)
				}
				sum += s
			}
			if sum != n {
				t.Errorf("%d processes share %d as %d", processes, n, sum)
			}
		}
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"is not a flag":   {"cycle"},
		"1 or more":       {"-rounds", "0"},
		".svg":            {"-chart", "x.pdf"},
		"assertion":       {"-assert", "fast"},
		"no workload":     {"-load", "fast"},
		"are called":      {"-load", "cycle", "-load", "cycle"},
		"give its path":   {"-compare", "no-such-server-anywhere -p {port}"},
		"no command line": {"-compare", "name="},
		"name of no load": {"-only", "x", "-load", "cycle"},
		"missing closing": {"-only", "("},
		"is not a whole":  {"-depth", "x"},
	} {
		if _, err := parseOptions(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, expected one with %q", args, err, want)
		}
	}
}
