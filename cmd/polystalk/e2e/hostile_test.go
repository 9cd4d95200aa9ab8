package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
)

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
		if o := p.must(client.Usage, "put", "mail", file); !strings.Contains(o.stderr, "has more than 200000 bytes, which is what the server takes") {
			t.Errorf("%q", o.stderr)
		}
		for _, more := range []int{1, 100000} {
			p.in = body + strings.Repeat("x", more)
			if o := p.must(client.Usage, "put", "mail"); !strings.Contains(o.stderr, "has more than 200000 bytes, which is what the server takes") {
				t.Errorf("%q", o.stderr)
			}
		}
		line := strings.Repeat("x", most)
		p.in = line + "\n" + line + "\n" + line + "x\n"
		if o := p.must(client.NotDone, "put", "lines", "--lines"); !strings.Contains(o.stderr, "2 jobs were put; line 3 was not: the line has more than 200000 bytes") {
			t.Errorf("%q", o.stderr)
		}
		if strings.HasPrefix(server, "http") {
			p.must(0, "edit", "1", "--body", "-")
			if o := p.must(client.Usage, "edit", "1", "--body", file); !strings.Contains(o.stderr, "more than 200000") {
				t.Errorf("%q", o.stderr)
			}
		}
	}
}

// TestScriptsAreText: bodies that a browser, a shell or a terminal would run.
func TestScriptsAreText(t *testing.T) {
	p, _ := polystalkd(t)
	for _, body := range []string{"<script>alert(1)</script>", "$(touch /tmp/x) `id`; rm -rf ~", "\x1b[2J\x1b]0;title\x07\u202e", "'; --"} {
		p.in = body
		id := strings.TrimSpace(p.must(0, "put", "mail", "-o", "name").stdout)
		if got := p.must(0, "body", id).stdout; got != body {
			t.Errorf("%q comes as %q", body, got)
		}
	}
	p.screens = cli.Screens{In: true, Out: true, Err: true}
	for _, args := range [][]string{{"jobs", "mail"}, {"jobs", "mail", "-o", "json"}, {"jobs", "mail", "-o", "jsonl"}, {"jobs", "mail", "-o", "jsonl", "--jq", ".body"}, {"job", "3"}} {
		if o := p.must(0, args...); hostile(o.stdout) {
			t.Errorf("%q: %q", args, o.stdout)
		}
	}
	if o := p.must(0, "jobs", "mail"); !strings.Contains(o.stdout, "<script>alert(1)</script>") || !strings.Contains(o.stdout, `\x1B[2J`) {
		t.Errorf("%s", o.stdout)
	}
}
