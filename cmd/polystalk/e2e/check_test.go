package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// The line of a plugin, as monitoring systems read it.
// Source: Monitoring Plugins Development Guidelines, "Plugin Output for Nagios",
// "Performance data" and "Threshold and Ranges".
var (
	pluginLine = regexp.MustCompile(`^POLYSTALK (OK|WARNING|CRITICAL|UNKNOWN) - ([^|\n]+)(?: \| ([^|\n]+))?\n$`)
	dataRange  = `(?:@?(?:(?:~|-?[0-9.]+):)?(?:-?[0-9.]+)?)?`
	dataItem   = regexp.MustCompile(`^(?:[^'= ]+|'(?:[^'=]|'')+')=-?[0-9.]+(?:s|us|ms|%|B|KB|MB|TB|c)?;` + dataRange + `;` + dataRange + `;(?:-?[0-9.]+)?;(?:-?[0-9.]+)?$`)
)

var pluginCodes = map[string]int{"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}

// reads wants the line of a plugin, and returns its parts.
func reads(t *testing.T, o outcome) (level, text string) {
	t.Helper()
	parts := pluginLine.FindStringSubmatch(o.stdout)
	if parts == nil || o.stderr != "" {
		t.Fatalf("no line of a plugin: %q, %q", o.stdout, o.stderr)
	}
	if pluginCodes[parts[1]] != o.code {
		t.Errorf("exit code %d: %s", o.code, o.stdout)
	}
	if parts[3] == "" && parts[1] != "UNKNOWN" {
		t.Errorf("without performance data: %q", o.stdout)
	}
	if parts[3] != "" {
		for item := range strings.SplitSeq(parts[3], " ") {
			if !dataItem.MatchString(item) {
				t.Errorf("%q is no performance data", item)
			}
		}
	}
	return parts[1], parts[2]
}

func TestCheck(t *testing.T) {
	for _, bad := range []string{"a", "a=", "a=1", "a=1x;;;;", "a=1;1:2:3;;;", "a b=1;;;;"} {
		if dataItem.MatchString(bad) {
			t.Fatalf("the test takes %q", bad)
		}
	}
	onBoth(t, func(t *testing.T, p *program, http bool) {
		p.in = strings.Repeat("x\n", 10)
		p.must(0, "put", "mail", "--lines")
		p.must(0, "bury", "3")
		for _, tt := range []struct{ flags, level, text string }{
			{"", "OK", "9 ready, 0 delayed, 0 reserved, 1 buried"},
			{"--tube mail", "OK", "tube mail: 9 ready, 0 delayed, 0 reserved, 1 buried"},
			{"--tube mail --ready 9", "WARNING", "9 ready (warning)"},
			{"--tube mail --ready 10", "OK", "9 ready"},
			{"--tube mail --ready 5:9", "CRITICAL", "9 ready (critical)"},
			{"--tube mail --ready :9", "CRITICAL", "9 ready (critical)"},
			{"--tube mail --ready :10", "OK", "9 ready"},
			{"--tube mail --buried 1 --ready :9", "CRITICAL", "9 ready (critical), 1 buried (warning)"},
			{"--tube mail --workers 1", "WARNING", "0 workers (warning)"},
			{"--tube mail --workers 2:1", "CRITICAL", "0 workers (critical)"},
			{"--tube mail --workers 0:0", "OK", "0 workers"},
			{"--tube nosuch --ready 1", "OK", "0 ready"},
			{"--tube nosuch --workers :1", "CRITICAL", "0 workers (critical)"},
			{"--connections 1000:2000", "OK", "connections"},
			{"--tube mail --ready -1", "UNKNOWN", "no number"},
			{"--tube mail --ready 1.5", "UNKNOWN", "no number"},
			{"--tube mail --ready :", "UNKNOWN", "no number"},
			{"--tube mail --workers 1:2", "UNKNOWN", "critical before it is a warning"},
			{"--tube mail --oldest soon", "UNKNOWN", "is no time"},
			{"--oldest 1h", "UNKNOWN", "--tube"},
			{"--tube mail more", "UNKNOWN", "unknown argument"},
		} {
			o := p.polystalk(append([]string{"check"}, strings.Fields(tt.flags)...)...)
			if level, text := reads(t, o); level != tt.level || !strings.Contains(text, tt.text) {
				t.Errorf("%s: %s, %q; want %s, %q", tt.flags, level, text, tt.level, tt.text)
			}
		}
		want := map[bool]string{true: "OK", false: "UNKNOWN"}[http]
		for _, flags := range []string{"--journal", "--tube mail --oldest 1h:2h"} {
			if level, text := reads(t, p.polystalk(append([]string{"check"}, strings.Fields(flags)...)...)); level != want {
				t.Errorf("%s: %s, %q", flags, level, text)
			}
		}
		if level, text := reads(t, p.polystalk("check", "--tube", "a|b\n\x1b")); http && level != "OK" || strings.ContainsAny(text, "\x1b") {
			t.Errorf("%s, %q", level, text)
		}
	})
}
