package process

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// TestAddressesGivenTwice: the log says so, and that is all.
func TestAddressesGivenTwice(t *testing.T) {
	port, err := conversation.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	path := "unix:" + filepath.Join(daemon.ShortDir(t), "s")
	s := daemon.Serve(t, "-p", strconv.Itoa(port), "-l", path, "-l", "127.0.0.1", "-l", path)
	if len(s.Listen) != 2 {
		t.Errorf("it listens on %q", s.Listen)
	}
	for _, given := range []string{"127.0.0.1", path} {
		if s.WaitLog("flag -l: "+strconv.Quote(given)+" was given twice; it is opened once") == nil {
			t.Errorf("the log does not say so of %s: %s", given, s.LogText())
		}
	}
}

// TestOurOwnListenerInTheWay: there is no other server that could be stopped.
func TestOurOwnListenerInTheWay(t *testing.T) {
	port, err := conversation.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	p := strconv.Itoa(port)
	for _, tt := range []struct {
		args string
		says []string
	}{
		{"-l 0.0.0.0 -l 127.0.0.1 -p " + p, []string{`flag -l "127.0.0.1": 0.0.0.0:` + p, `flag -l "0.0.0.0"`}},
		{"-l 127.0.0.1 -l 0.0.0.0 -p " + p, []string{`flag -l "0.0.0.0": 127.0.0.1:` + p, `flag -l "127.0.0.1"`}},
		{"-l 127.0.0.1 -l :: -p " + p, []string{`flag -l "::": 127.0.0.1:` + p}},
		{"-l 127.0.0.1 -p " + p + " --gearman-listen 127.0.0.1:" + p, []string{`flag --gearman-listen "127.0.0.1:` + p, `flag -l "127.0.0.1"`}},
		{"gearmand -L 127.0.0.1 -p " + p + " --beanstalk-listen 127.0.0.1:" + p, []string{`flag -L "127.0.0.1": 127.0.0.1:` + p, `flag --beanstalk-listen`}},
	} {
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), strings.Fields(tt.args)...)
		if got.Code == 0 || strings.Contains(got.Stderr, "stop the server") || !strings.Contains(got.Stderr, "leave one of the two out") {
			t.Errorf("%s: %+v", tt.args, got)
		}
		for _, want := range tt.says {
			if !strings.Contains(got.Stderr, want) {
				t.Errorf("%s: no %q in %s", tt.args, want, got.Stderr)
			}
		}
	}
}
