package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		p.says("has more than 200000 bytes, which is what the server takes", client.Usage, "put", "mail", file)
		for _, more := range []int{1, 100000} {
			p.in = body + strings.Repeat("x", more)
			p.says("has more than 200000 bytes, which is what the server takes", client.Usage, "put", "mail")
		}
		line := strings.Repeat("x", most)
		p.in = line + "\n" + line + "\n" + line + "x\n"
		p.says("2 jobs were put; line 3 was not: the line has more than 200000 bytes", client.NotDone, "put", "lines", "--lines")
		if strings.HasPrefix(server, "http") {
			p.must(0, "edit", "1", "--body", "-")
			p.says("more than 200000", client.Usage, "edit", "1", "--body", file)
		}
	}
}
