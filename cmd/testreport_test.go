package cmd

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// events is what go test -json writes for two packages with a passing, a
// failing and a skipped test.
const events = `{"ImportPath":"m/c","Action":"build-output","Output":"c/c.go:3:1: syntax \u003cerror\u003e\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"run","Package":"m/a","Test":"TestGood"}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/a","Test":"TestGood","Output":"    a_test.go:1: chatter\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"pass","Package":"m/a","Test":"TestGood","Elapsed":0}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/a","Test":"TestNeeds","Output":"=== RUN   TestNeeds\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/a","Test":"TestNeeds","Output":"    a_test.go:2: tool is not installed\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/a","Test":"TestNeeds","Output":"--- SKIP: TestNeeds (0.00s)\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"skip","Package":"m/a","Test":"TestNeeds","Elapsed":0}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/a","Output":"PASS\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.012s\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"pass","Package":"m/a","Elapsed":0.012}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/e","Output":"?   \tm/e\t[no test files]\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"skip","Package":"m/e","Elapsed":0}
`

const failure = `{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/b","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/b","Test":"TestBad","Output":"    b_test.go:9: got \"x\\\\y\" \u0026 {\"Action\":\"pass\"}\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/b","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"fail","Package":"m/b","Test":"TestBad","Elapsed":0}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/b","Output":"FAIL\tm/b\t0.010s\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"fail","Package":"m/b","Elapsed":0.01}
`

// shortEvents is what go test -short -json writes for a long test and a slow test.
const shortEvents = `{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/a","Test":"TestLong","Output":"    a_test.go:4: long\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"output","Package":"m/a","Test":"TestLong","Output":"--- SKIP: TestLong (0.00s)\n"}
{"Time":"2026-01-02T03:04:05Z","Action":"skip","Package":"m/a","Test":"TestLong","Elapsed":0}
{"Time":"2026-01-02T03:04:05Z","Action":"pass","Package":"m/a","Test":"TestSlow/part","Elapsed":2.61}
{"Time":"2026-01-02T03:04:05Z","Action":"pass","Package":"m/a","Test":"TestSlow","Elapsed":0.1}
{"Time":"2026-01-02T03:04:05Z","Action":"pass","Package":"m/a","Test":"TestGood","Elapsed":1.9}
`

func report(t *testing.T, input, ci, short string) (out string, code int) {
	t.Helper()
	cmd := exec.Command("awk", "-v", "ci="+ci, "-f", "../.ci/testreport.awk", "-v", "short="+short)
	cmd.Stdin = strings.NewReader(input)
	text, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(text), exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return string(text), 0
}

func TestReportPrintsWhatGoTestPrintsAndNamesSkips(t *testing.T) {
	const passed = "c/c.go:3:1: syntax <error>\nok  \tm/a\t0.012s\n?   \tm/e\t[no test files]\n"
	const skipped = "skipped tests:\n  m/a TestNeeds: a_test.go:2: tool is not installed\n"
	const failed = "    b_test.go:9: got \"x\\\\y\" & {\"Action\":\"pass\"}\n--- FAIL: TestBad (0.00s)\nFAIL\tm/b\t0.010s\n"
	const left = "long tests left out: 1 (make long runs them)\n"
	const slow = "tests that take more than 2 s, which only long tests may:\n  m/a TestSlow/part: 2.61 s\n"
	const none = "no test was skipped\n"
	for _, tt := range []struct {
		name, input, ci, short, want string
		code                         int
	}{
		{"skip", events, "", "", passed + skipped, 0},
		{"skip with CI=false", events, "false", "", passed + skipped, 0},
		{"skip in CI", events, "true", "", passed + skipped + "a skipped test is a failure in CI\n", 1},
		{"failure", events + failure, "", "", passed + failed + skipped, 1},
		{"failure alone", failure, "", "", failed + none, 1},
		{"nothing", "", "", "", "", 1},
		{"short", shortEvents, "", "2", left + slow + none, 0},
		{"short in CI", shortEvents, "true", "2", left + slow + none, 1},
		{"short under race", shortEvents, "true", "0", left + none, 0},
		{"long test skipped by itself", shortEvents, "true", "", "skipped tests:\n  m/a TestLong: a_test.go:4: long\na skipped test is a failure in CI\n", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, code := report(t, tt.input, tt.ci, tt.short)
			if got != tt.want || code != tt.code {
				t.Errorf("exit code %d, want %d; output:\n%s\nwant:\n%s", code, tt.code, got, tt.want)
			}
		})
	}
}

// The report counts a test as long by the reason that the test gives when it skips itself.
func TestLongTestsGiveTheReasonThatTheReportKnows(t *testing.T) {
	skip := regexp.MustCompile(`if testing\.Short\(\) \{\n\t+t\.Skip\("([^"]*)"\)`)
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range skip.FindAllSubmatch(text, -1) {
			if string(m[1]) != "long" {
				t.Errorf("%s: a test that -short leaves out gives the reason %q, want \"long\"", name, m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
