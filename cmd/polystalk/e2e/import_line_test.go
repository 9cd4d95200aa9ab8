package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/client"
)

// TestOnlyAWrongAnswerIsAWrongProtocol: a server that says nothing, or that closes the connection,
// may speak the protocol.
func TestOnlyAWrongAnswerIsAWrongProtocol(t *testing.T) {
	for want, server := range map[string]string{
		"does not answer in time":        says(t, ""),
		"has closed the connection":      serving(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 4096)) }),
		"it answers \"H\": polystalkd's": serving(t, func(conn net.Conn) { _, _ = conn.Write([]byte("H")) }),
	} {
		p := &program{t: t, server: "beanstalk://" + server}
		timeout := "10s"
		if strings.Contains(want, "time") {
			timeout = "100ms"
		}
		o := p.must(client.System, "stats", "--timeout", timeout)
		if !strings.Contains(o.stderr, want) || strings.Contains(o.stderr, "does not speak") != strings.Contains(want, "answers") {
			t.Errorf("%q, want %q", o.stderr, want)
		}
	}
}

// TestImportTakesNoLineThatItWouldChange: a line is put as it is, or reported.
func TestImportTakesNoLineThatItWouldChange(t *testing.T) {
	goName := regexp.MustCompile(`Go |struct|uint|float64|json:|jsontext`)
	for line, want := range map[string]string{
		`{"tube":"a","body":"` + "\xff" + `"}`:                         "no UTF-8",
		`{"tube":"a","body":"\ud800"}`:                                 "surrogate",
		`{"tube":"a","body":"1","body":"2"}`:                           "the member body: the member is given more than once",
		`{"tube":"a","Body":"1"}`:                                      "the member Body: the member's name is in another case: write it as body",
		`{"tube":"a","body":"1","colour":"red"}`:                       "the member colour: the member is unknown",
		`{"tube":"a","body":"1","holder":{"colour":"red"}}`:            "the member holder.colour: the member is unknown",
		`{"tube":"a","body":"1","state":"weird"}`:                      `the state "weird" is unknown: give ready, delayed, reserved or buried`,
		`{"tube":"a","body":"1","body_base64":"AA=="}`:                 "it has body and body_base64",
		`{"tube":"a","body":"pre","body_bytes":300}`:                   "body_bytes is 300, and the body has 3",
		`{"tube":"a","body":"1","body_bytes":-1}`:                      "body_bytes is -1, and the body has 1",
		`{"tube":"a","body":"1","body_bytes":1,"body_truncated":true}`: "it has no body, or a part of it",
		`{"tube":"a","body":"1","pri":-1}`:                             "the member pri: it is of the type number -1, and not a whole number from 0 to what 32 bits hold",
		`{"tube":"a","body":"1","pri":4294967296}`:                     "the member pri: ",
		`{"tube":"a","body":"1","left_seconds":"x"}`:                   "the member left_seconds: it is of the type string, and not a number",
		`{"tube":"a","body":"1","id":5}`:                               "the member id: it is of the type number, and not a whole number from 0 to what 64 bits hold, in double quotes: ",
		`{"tube":"a","body_base64":"%"}`:                               "the member body_base64: it is not base64: give the bytes in base64",
		`{"tube":"a","body":null}`:                                     "it has no body",
		`{"tube":"a","body":"1"} {}`:                                   "it is no JSON: ",
		`["a"]`:                                                        "it is of the type list, and not an object",
		`null`:                                                         "it has no body",
	} {
		p := &program{t: t, server: "http://" + freeAddress(t), in: line}
		o := p.polystalk("import", "-")
		if o.code != client.Usage || !strings.Contains(o.stderr, "line 1 was not put: ") || !strings.Contains(o.stderr, want) || goName.MatchString(o.stderr) {
			t.Errorf("%s: %d, %s, want %q", line, o.code, o.stderr, want)
		}
	}
	// All members that any version has exported, and lines by hand.
	good := strings.Join([]string{
		`{"id":"7","tube":"a","tube_path":"a","state":"reserved","moving":true,"pri":1,"delay_seconds":2,"ttr_seconds":3,"age_seconds":4.5,"state_seconds":5.5,"left_seconds":6.5,` +
			`"reserves_total":1,"timeouts_total":1,"releases_total":1,"buries_total":1,"kicks_total":1,"holder":{"connection":"1","peer":"x"},"body_bytes":1,"body":"1"}`,
		`{"tube":"a","body_base64":"AP8="}`, `{"tube":"a","body_bytes":0}`, `{"tube":"a","body":"` + "\u00e9\ufffd" + `","body_bytes":5}`,
	}, "\n")
	p, _ := polystalkd(t)
	p.in = good + "\n" + `{"tube":"a","body":"1","colour":"red"}` + "\n" + good
	if o := p.polystalk("import", "-"); o.code != client.NotDone || o.stdout != "import: 8 jobs\n" || !strings.Contains(o.stderr, "line 5 was not put: ") {
		t.Errorf("%d, %q, %q", o.code, o.stdout, o.stderr)
	}
}

// TestImportThatSentNothingIsCertain: without a connection no job can have been put.
func TestImportThatSentNothingIsCertain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs")
	if err := os.WriteFile(file, []byte(`{"tube":"a","body":"1"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, server: "http://" + freeAddress(t)}
	o := p.must(client.System, "import", file)
	if !strings.Contains(o.stderr, "line 1 was not: ") || !strings.HasSuffix(o.stderr, ". To retry line 1 use --skip 0; to leave it out use --skip 1.\n") {
		t.Errorf("%q", o.stderr)
	}
	p, s := polystalkd(t)
	p.must(0, "import", file)
	if o := p.must(client.Unconfirmed, "import", file); !strings.Contains(o.stderr, "or into another server, use --skip 0.") {
		t.Errorf("%q", o.stderr)
	}
	// A server that has hung up may have it.
	p = &program{t: t, server: "http://" + serving(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 4096)) })}
	if o := p.must(client.System, "import", file, "--skip", "0"); !strings.Contains(o.stderr, "line 1 may have been put or not") {
		t.Errorf("%q", o.stderr)
	}
	if o := p.must(client.Unconfirmed, "import", file); strings.Contains(o.stderr, "line 0") || strings.Count(o.stderr, "--skip 0") != 1 {
		t.Errorf("%q", o.stderr)
	}
	p = &program{t: t, server: "beanstalk://" + s.Listen[0]}
	if o := p.must(client.Unconfirmed, "import", file); !strings.Contains(o.stderr, "To put all of it into "+p.server+" use --skip 0.") {
		t.Errorf("%q", o.stderr)
	}
}

// TestImportArgumentsAreCheckedOnce, and not for each line.
func TestImportArgumentsAreCheckedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs")
	if err := os.WriteFile(file, []byte(strings.Repeat(`{"tube":"a","body":"1"}`+"\n", 18)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, s := polystalkd(t)
	for _, server := range []string{p.server, "beanstalk://" + s.Listen[0]} {
		q := &program{t: t, server: server}
		if o := q.must(client.Usage, "import", file, "--to", strings.Repeat("x", 256)); !strings.HasPrefix(o.stderr, "polystalk: --to is a name of 256 bytes: ") {
			t.Errorf("%q", o.stderr)
		}
		if o := q.must(client.Usage, "import", file, "--skip", "30"); !strings.Contains(o.stderr, "there are only 18 lines: --skip 30 is too many") {
			t.Errorf("%q", o.stderr)
		}
		if _, err := os.Stat(file + ".imported"); err == nil {
			t.Error("it remembers an import of which there was none")
		}
	}
	q := &program{t: t, server: "beanstalk://" + s.Listen[0]}
	q.must(client.Usage, "import", file, "--to", "App::resize")
	q.in = `{"tube_path":"%FF%00","body":"1"}`
	if o := q.polystalk("import", "-"); !strings.Contains(o.stderr, `no tube "\xFF\x00": `) {
		t.Errorf("%q", o.stderr)
	}
	p.must(0, "import", file, "--skip", fmt.Sprint(18))
}
