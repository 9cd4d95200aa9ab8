package e2e

import (
	"strings"
	"testing"

	"polystalk/cmd/polystalk/cli"
)

// TestTopWritesTextOffATerminal.
func TestTopWritesTextOffATerminal(t *testing.T) {
	p, _ := polystalkd(t)
	for _, screens := range []cli.Screens{{}, {In: true}, {Out: true}, {In: true, Out: true, Err: true}} {
		p.screens = screens
		if o := p.must(0, "top", "--once"); strings.Contains(o.stdout, "\x1b") || !strings.HasPrefix(o.stdout, "polystalk top  http://") {
			t.Errorf("%+v: %q", screens, o.stdout)
		}
		if o := p.must(0, "top", "--batch", "-n", "1", "--conns"); strings.Contains(o.stdout, "\x1b") || !strings.Contains(o.stdout, "no connections  by -holds") {
			t.Errorf("%+v: %q", screens, o.stdout)
		}
	}
	p.env = map[string]string{"TERM": "dumb"} // a terminal that cannot move its cursor
	if o := p.must(0, "top", "-n", "1"); strings.Contains(o.stdout, "\x1b") || !strings.HasPrefix(o.stdout, "polystalk top  http://") {
		t.Errorf("%q", o.stdout)
	}
}
