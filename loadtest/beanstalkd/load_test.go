package beanstalkd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/loadtest/workload"
)

func TestParseLoad(t *testing.T) {
	base := workload.Load{Conns: 7, ServerCPUs: []int{0}}
	l, err := Protocol.ParseLoad("many-tubes depth=16 tubes=300 duration=3s name=mine server-cpus=0,1", base)
	if err != nil {
		t.Fatal(err)
	}
	if l.Name != "mine" || l.Workload != "many-tubes" || l.Conns != 7 || l.Depth != 16 || l.Tubes != 300 || l.Body != 64 ||
		l.Duration != 3*time.Second || !slices.Equal(l.ServerCPUs, []int{0, 1}) || l.Processes != 1 {
		t.Errorf("%+v", l)
	}
	if l, err := Protocol.ParseLoad("big-bodies depth=2", workload.Load{}); err != nil || l.Body != 60000 || l.Conns != 8 || l.Name != "big-bodies depth=2" {
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
		if _, err := Protocol.ParseLoad(in, workload.Load{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, expected one with %q", in, err, want)
		}
	}
}
