package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"polystalk/loadtest/compare"
	"polystalk/loadtest/gearmand"
)

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

func TestGearmanOptions(t *testing.T) {
	for _, c := range []struct{ args, expect string }{
		{"-protocol smtp", "the protocols are beanstalkd gearman"},
		{"-protocol gearman -load cycle", `there is no workload "cycle" for gearman`},
		{"-load foreground", `there is no workload "foreground" for beanstalkd`},
		{"-protocol gearman -floor", "does not speak gearman"},
		{"-protocol gearman -load drain -rate 5", "has no open loop"},
		{"-protocol gearman -load memory -light-rate 5", "no light load"},
		{"-protocol gearman -load foreground -conns 8 -processes 4 -workers 3", "needs a worker in each"},
	} {
		if _, err := parseOptions(strings.Fields(c.args), io.Discard); err == nil || !strings.Contains(err.Error(), c.expect) {
			t.Errorf("%s: error %v, expected one with %q", c.args, err, c.expect)
		}
	}
	o, err := parseOptions([]string{"-protocol", "gearman", "-bench", "-goals"}, io.Discard)
	if err != nil || o.Targets[0].Addr() != "127.0.0.1:4730" || len(o.Loads) != len(gearmand.Protocol.Bench) {
		t.Errorf("%+v, %v", o, err)
	}
	var help bytes.Buffer
	parseOptions([]string{"-help"}, &help) // its error is that there was help
	for _, proto := range protocols {
		for name, s := range proto.Workloads {
			if !strings.Contains(help.String(), name) || !strings.Contains(help.String(), s.Help) {
				t.Errorf("the help lacks %s: %s", name, s.Help)
			}
		}
	}
	for _, g := range gearmand.Protocol.Goals {
		if _, err := compare.ParseAssertion(g); err != nil {
			t.Error(err)
		}
	}
}
