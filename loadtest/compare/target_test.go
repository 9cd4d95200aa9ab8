package compare

import (
	"net"
	"slices"
	"strings"
	"testing"

	"polystalk/loadtest/beanstalkd"
	"polystalk/loadtest/proc"
	"polystalk/loadtest/workload"
)

func TestParseTarget(t *testing.T) {
	for _, c := range []struct {
		in, name string
		args     []string
	}{
		{"sh", "sh", []string{"-l", "127.0.0.1", "-p", "{port}"}},
		{"a.b-c=sh -x {port} {dir}", "a.b-c", []string{"-x", "{port}", "{dir}"}},
		{"sh --port={port}", "sh", []string{"--port={port}"}},
	} {
		g, err := ParseTarget(c.in, beanstalkd.Protocol)
		if err != nil || g.Name != c.name || !slices.Equal(g.args[1:], c.args) {
			t.Errorf("%q: %+v %q, %v", c.in, g, g.args, err)
		}
	}
	same := []Target{{Name: "a"}, {Name: "b"}, {Name: "a"}, {Name: "a"}}
	UniqueNames(same)
	if same[0].Name != "a" || same[1].Name != "b" || same[2].Name != "a#2" || same[3].Name != "a#3" {
		t.Errorf("%+v", same)
	}
}

// A server that does not start must say why.
func TestServerThatEndsAtOnce(t *testing.T) {
	g, err := ParseTarget("ls {port} --no-such-option-here", beanstalkd.Protocol)
	if err != nil {
		t.Skip("there is no ls here to stand for a broken server; install coreutils")
	}
	_, err = Start(t.Context(), proc.NewSpawner(), beanstalkd.Protocol, g, workload.Load{})
	if err == nil || !strings.Contains(err.Error(), "ended before it listened") || !strings.Contains(err.Error(), "no-such-option-here") {
		t.Errorf("error %v", err)
	}
}

func TestFreePortCanBeUsed(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
