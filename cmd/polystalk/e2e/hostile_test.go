package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
)

// asking are all commands that ask a server, with arguments that can be used.
func asking(t *testing.T) (all [][]string) {
	t.Helper()
	arguments := map[string]string{
		"tube": "x", "jobs": "x", "job": "1", "body": "1", "put": "x --body y", "kick": "1", "bury": "1", "delete": "1 --yes", "release": "1 --yes", "mv": "1 --to y", "cp": "1 --to y",
		"edit": "1 --pri 2", "pause": "x 1m", "resume": "x", "flush": "x --yes", "export": "x --id 1-2", "import": "-", "kill": "1", "top": "--once",
		"cluster": "status",
	}
	for _, c := range new(cli.App).Tree().Commands() {
		if slices.Contains([]string{"help", "completion", "journal", "version", "token", "check"}, c.Name()) {
			continue // these ask nobody, and check has answers of its own
		}
		args := strings.Fields(c.Name() + " " + arguments[c.Name()])
		if err := needs(c, args[1:]); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		all = append(all, args)
	}
	if len(all) < 25 {
		t.Errorf("%d commands", len(all))
	}
	return all
}

// needs is what is wrong with the arguments of a command, if they are wrong.
func needs(c *cobra.Command, args []string) error {
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--") }); i >= 0 {
		args = args[:i]
	}
	c, args, err := c.Find(args) // perhaps below it
	if err != nil {
		return err
	}
	return c.Args(c, args)
}

// TestEveryCommandOnBadServers: whatever is asked of whatever server, there is one line that
// says what to do, soon, and nothing else.
func TestEveryCommandOnBadServers(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	gearman := freeAddress(t)
	_, s := polystalkd(t, "--gearman-listen", gearman)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<p>Hello</p>"))
	}))
	t.Cleanup(page.Close)
	garbage := "\x16\x03\x01\x00\xff\x1b[2J\r\n\x00\xfe OK 99\r\n"
	for about, server := range map[string]string{
		"nobody": "http://" + freeAddress(t), "nobody for beanstalkd": "beanstalk://" + freeAddress(t),
		"Gearman for HTTP": "http://" + gearman, "Gearman for beanstalkd": "beanstalk://" + gearman,
		"a web server": page.URL, "a web server for beanstalkd": "beanstalk://" + strings.TrimPrefix(page.URL, "http://"), "beanstalkd for HTTP": "http://" + s.Listen[0],
		"garbage": "http://" + says(t, garbage), "garbage for beanstalkd": "beanstalk://" + says(t, garbage),
		"silence": "http://" + says(t, ""), "silence for beanstalkd": "beanstalk://" + says(t, ""),
		"silence in the middle": "beanstalk://" + says(t, "USING default\r\n"),
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel() // most of the time they wait
			for _, args := range asking(t) {
				p := &program{t: t, server: server}
				if args[0] == "import" {
					p.in = `{"tube":"x","body":"y"}`
				}
				o := p.polystalk(append(args, "--timeout", "100ms")...)
				onlyUs := strings.Contains(o.stderr, "that takes polystalkd with --http")
				if o.code != client.System && !(o.code == client.Usage && onlyUs) || onlyUs && !strings.HasPrefix(server, "beanstalk") {
					t.Errorf("%q: exit code %d", args, o.code)
				}
				if strings.Count(o.stderr, "\n") != 1 || !strings.Contains(o.stderr, ": ") || hostile(o.stderr) || o.stdout != "" {
					t.Errorf("%q: %q, %q", args, o.stdout, o.stderr)
				}
			}
		})
	}
}

// TestBodiesThatAreTooLarge: they are refused before they are sent, by their size or as soon as
// they have more than the server takes; what it takes gets there, however it comes.
func TestBodiesThatAreTooLarge(t *testing.T) {
	const most = 200000
	byHTTP, s := polystalkd(t, "-z", "200000")
	body := strings.Repeat("01234\x00\xff\n89", most/10)
	file := filepath.Join(t.TempDir(), "body")
	for _, server := range []string{byHTTP.server, "beanstalk://" + s.Listen[0]} {
		p := &program{t: t, server: server}
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
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
		if o := p.must(client.Usage, "put", "mail", file); !strings.Contains(o.stderr, "has 200001 bytes, and the server takes 200000") {
			t.Errorf("%q", o.stderr)
		}
		for _, more := range []int{1, 100000} {
			p.in = body + strings.Repeat("x", more)
			if o := p.must(client.Usage, "put", "mail"); !strings.Contains(o.stderr, "has more than 200000 bytes, and the server takes 200000") {
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
			if o := p.must(client.Usage, "edit", "1", "--body", file); !strings.Contains(o.stderr, "200001") {
				t.Errorf("%q", o.stderr)
			}
		}
	}
}

// TestScripts: what a browser, a shell or a terminal would run is text to this program.
func TestScripts(t *testing.T) {
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
