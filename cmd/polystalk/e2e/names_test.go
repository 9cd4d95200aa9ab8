package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/gearman"
)

// TestBodiesArriveUnchanged: only on a terminal are bodies refused that are not text.
func TestBodiesArriveUnchanged(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 4000)
	onBoth(t, func(t *testing.T, p *program, http bool) {
		for _, body := range []string{"", "text\r\nand more\n", "ünï", "a\x00b\r\n", "\x1b]0;title\x07", "\xff\xfe", "<script>alert(1)</script>", "$(touch /tmp/x) `id`; rm -rf ~", "\x1b[2J\u202e'; --", large, large[:60000] + "\x9b2J"} {
			p.in = body
			id := strings.TrimSpace(p.must(0, "put", "mail", "-o", "name").stdout)
			p.prints(body, "body", id)
			p.screens = cli.Screens{Out: true}
			if hostile(body) {
				if o := p.must(client.Usage, "body", id); hostile(o.stdout) || !strings.Contains(o.stderr, "--raw") {
					t.Errorf("on a terminal %.40q came as %.40q, %q", body, o.stdout, o.stderr)
				}
			} else if got := p.must(0, "body", id).stdout; got != body {
				t.Errorf("on a terminal %.40q came as %.40q", body, got)
			}
			p.prints(body, "body", "--raw", id)
			p.screens = cli.Screens{}
		}
		p.screens = cli.Screens{In: true, Out: true, Err: true}
		for _, args := range []string{"jobs mail", "jobs mail -o json", "jobs mail -o jsonl", "jobs mail -o jsonl --jq .body"} {
			if o := p.polystalk(strings.Fields(args)...); http && (o.code != 0 || hostile(o.stdout) || !strings.Contains(o.stdout, "script")) {
				t.Errorf("%s: %d, %q", args, o.code, o.stdout)
			}
		}
		p.screens = cli.Screens{}
		if o := p.must(client.Usage, "put", "mail", "--body", strings.Repeat("x", 70000)); !strings.Contains(o.stderr, "too large") && !strings.Contains(o.stderr, "65535") {
			t.Errorf("%q", o.stderr)
		}
	})
}

// submit submits a background job of each of these Gearman functions.
func submit(t *testing.T, address string, functions ...string) {
	t.Helper()
	c := daemon.DialGearman(t, address)
	for _, name := range functions {
		must(t, c.Send([]byte(daemon.Request(gearman.SubmitJobBG, name, "", "data of "+name))))
		if kind, _, err := c.Reply(); err != nil || kind != gearman.JobCreated {
			t.Fatalf("%q: answered with %v, %v", name, kind, err)
		}
	}
}

// TestTubesAreReachedByAnyName, with any bytes.
func TestTubesAreReachedByAnyName(t *testing.T) {
	address := daemon.FreeAddress(t)
	p, _ := polystalkd(t, "--gearman-listen", address)
	names := map[string]string{ // with their form for --path
		"-x": "-x", "--all": "--all", "a b": "a%20b", `say "hi"`: "say%20%22hi%22", "it's": "it's", "a/b?c#d%": "a%2Fb%3Fc%23d%25", "..": "%2E%2E", "*": "*",
		"tab\tend": "tab%09end", "\x1b[2J": "%1B%5B2J", "\xff\xfe": "%ff%fe", "\u202e": "%E2%80%AE", `back\slash`: `back%5Cslash`,
	}
	submit(t, address, slices.Collect(maps.Keys(names))...)
	for name, encoded := range names {
		want := "1\n"
		p.prints(want, "tube", "--jq", ".jobs.ready", "--path", "--", encoded)
		p.prints(want, "tube", "--jq", ".jobs.ready", "--", name)
		p.must(0, "pause", "--", name, "1m")
		p.must(0, "resume", "--", name)
		if got := p.must(0, "jobs", "-o", "jsonl", "--jq", ".body_bytes", "--", name).stdout; strings.Count(got, "\n") != 1 {
			t.Errorf("%q: %q", name, got)
		}
		p.must(0, "check", "--tube="+name, "--ready", "2")
	}
	for _, format := range []string{"table", "wide", "json", "jsonl", "name"} {
		if got := p.must(0, "tubes", "-o", format).stdout; hostile(got) {
			t.Errorf("%s: %q", format, got)
		}
	}
	// On a terminal an export has escapes, which do not change its meaning.
	p.screens = cli.Screens{Out: true}
	if got := p.must(0, "export", "--all-tubes").stdout; hostile(got) || !strings.Contains(got, `"tube":"\u202E"`) || strings.Count(got, "\n") != len(names) {
		t.Errorf("to a terminal: %q", got)
	}
	p.screens = cli.Screens{}
	paths := strings.Fields(p.must(0, "tubes", "-o", "jsonl", "--jq", ".path").stdout)
	if len(paths) != len(names)+1 {
		t.Errorf("%d paths of %d tubes: %q", len(paths), len(names)+1, paths)
	}
	for _, path := range paths {
		p.must(0, "tube", "--path", "--", path)
	}
	for _, bad := range []string{"%", "%g0", "%f", ""} {
		p.says("tube", client.Usage, "tube", "--path", "--", bad)
	}
}

// TestBodiesAreSentUpToTheServersLimit, from a file or standard input.
func TestBodiesAreSentUpToTheServersLimit(t *testing.T) {
	const most = 200000
	byHTTP, s := polystalkd(t, "-z", "200000")
	body := strings.Repeat("01234\x00\xff\n89", most/10)
	file := filepath.Join(t.TempDir(), "body")
	for _, server := range []string{byHTTP.server, "beanstalk://" + s.Listen[0]} {
		p := &program{t: t, server: server}
		write := func(text string) {
			t.Helper()
			must(t, os.WriteFile(file, []byte(text), 0o600))
		}
		same := func(o outcome) {
			t.Helper()
			id := strings.TrimSpace(strings.TrimPrefix(o.stdout, "id "))
			if p.must(0, "body", id).stdout != body {
				t.Errorf("%s: the body of job %s is another one", server, id)
			}
		}
		write(body)
		same(p.must(0, "put", "mail", file))
		p.in = body
		same(p.must(0, "put", "mail"))
		write(body + "x")
		p.says("has more than 200000 bytes, which is what the server takes", client.Usage, "put", "mail", file)
		for _, more := range []int{1, 100000} {
			p.in = body + strings.Repeat("x", more)
			p.says("has more than 200000 bytes, which is what the server takes", client.Usage, "put", "mail")
		}
		line := strings.Repeat("x", most)
		p.in = line + "\n" + line + "\n" + line + "x\n"
		o := p.polystalk("put", "lines", "--lines")
		const want = "polystalk: line 3 was not put: the line has more than 200000 bytes, which is what the server takes: send less, or raise its -z\npolystalk: 2 jobs put, 1 line with errors, which are reported above\n"
		if o.code != client.NotDone || o.stderr != want || strings.Count(o.stdout, "\n") < 2 {
			t.Errorf("%d, %q, %q", o.code, o.stdout, o.stderr)
		}
		if strings.HasPrefix(server, "http") {
			p.must(0, "edit", "1", "--body", "-")
			p.says("more than 200000", client.Usage, "edit", "1", "--body", file)
		}
	}
}
