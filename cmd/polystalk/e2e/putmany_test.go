package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
)

// replying returns the address of a server of beanstalkd's protocol. It gives one of replies to each
// put, and closes the connection at the put after the last one.
func replying(t *testing.T, replies ...string) string {
	t.Helper()
	return "beanstalk://" + serving(t, conversing(replies))
}

func conversing(replies []string) func(net.Conn) {
	return func(conn net.Conn) {
		left := replies
		for in := bufio.NewScanner(conn); in.Scan(); {
			reply := ""
			switch word, _, _ := strings.Cut(in.Text(), " "); word {
			case "list-tube-used":
				reply = "USING default"
			case "use":
				reply = "USING a"
			case "put":
				if !in.Scan() || len(left) == 0 {
					return
				}
				reply, left = left[0], left[1:]
			}
			if _, err := io.WriteString(conn, reply+"\r\n"); err != nil {
				return
			}
		}
	}
}

// TestRefusedLinesInFlightAreNamed. A drain ends the command behind the last job that was put, so
// that no job is put twice.
func TestRefusedLinesInFlightAreNamed(t *testing.T) {
	for _, tt := range []struct {
		replies []string
		code    int
		want    string
	}{
		{[]string{"INSERTED 7", "JOB_TOO_BIG", "INSERTED 8", "INSERTED 9"}, client.NotDone,
			"line 2 was not put: the body is too large for the server: send less, or raise its -z\npolystalk: 3 jobs put, 1 line with errors, which are reported above\n"},
		{[]string{"INSERTED 7", "DRAINING", "INSERTED 8", "DRAINING"}, client.NotDone,
			"line 2 was not put: the server is draining and accepts no new jobs: use another server\n" +
				"polystalk: 2 jobs put, 1 line with errors; line 4 was not: the server is draining and accepts no new jobs: use another server. To retry line 4 use --skip 3; to leave it out use --skip 4.\n"},
		{[]string{"INSERTED 7", "OUT_OF_MEMORY", "INSERTED 8", "INSERTED 9"}, client.NotDone,
			"line 2 was not put: the server has no memory or disk space for it, or a policy limits the tube: delete jobs, or raise the limit\npolystalk: 3 jobs put, 1 line with errors; continue with --skip 4\n"},
		{[]string{"DRAINING", "DRAINING", "DRAINING", "DRAINING"}, client.NotDone,
			"0 jobs put; line 1 was not: the server is draining and accepts no new jobs: use another server. To retry line 1 use --skip 0; to leave it out use --skip 1.\n"},
		{[]string{"INSERTED 7", "INSERTED 8"}, client.NotDone,
			"2 jobs put; each of the lines 3 to 4 may have been put or not: SERVER has closed the connection: try again. To retry them use --skip 2; to leave them out use --skip 4.\n"},
		{[]string{"INSERTED 7", "INSERTED 8", "INSERTED 9"}, client.NotDone,
			"3 jobs put; line 4 may have been put or not: SERVER has closed the connection: try again. To retry line 4 use --skip 3; to leave it out use --skip 4.\n"},
		{[]string{"INSERTED 7", "PIGS 8"}, client.NotDone,
			"1 job put; each of the lines 2 to 4 may have been put or not: SERVER: it answers \"PIGS\": try again. To retry them use --skip 1; to leave them out use --skip 4.\n"},
		{nil, client.System,
			"0 jobs put; each of the lines 1 to 4 may have been put or not: SERVER has closed the connection: try again. To retry them use --skip 0; to leave them out use --skip 4.\n"},
	} {
		file := filepath.Join(t.TempDir(), "jobs")
		must(t, os.WriteFile(file, []byte(strings.Repeat(`{"tube":"a","body":"x"}`+"\n", 4)), 0o600))
		for _, args := range [][]string{{"put", "a", "--lines"}, {"import", file}} {
			p := &program{t: t, server: replying(t, tt.replies...), in: "1\n2\n3\n4\n"}
			o := p.polystalk(args...)
			if want := "polystalk: " + strings.ReplaceAll(tt.want, "SERVER", p.server); o.code != tt.code || o.stderr != want {
				t.Errorf("%v, %v: %d, %q, want %q", tt.replies, args, o.code, o.stderr, want)
			}
		}
		// The import remembers what is uncertain.
		if _, from, uncertain := strings.Cut(tt.want, "each of the lines "); uncertain {
			lines, _, _ := strings.Cut(from, " may")
			(&program{t: t, server: "beanstalk://127.0.0.1:1"}).must(client.System, "import", file) // no connection: nothing changes
			p, _ := polystalkd(t)
			p.says("each of the lines "+lines+" may have been put or not. To retry them use --skip ", client.Unconfirmed, "import", file)
		}
	}
}

// TestPutManyWantsAnAnswerForEachJob of a server that speaks HTTP.
func TestPutManyWantsAnAnswerForEachJob(t *testing.T) {
	for body, want := range map[string]string{
		`{"lines":[{"id":"1"}]}`:               "1 job put; each of the lines 2 to 3 may have been put or not: ",
		`{"lines":[{"id":"1"},{},{"id":"3"}]}`: "1 job put; each of the lines 2 to 3 may have been put or not: ",
		`{"lines":[],"problem":{"title":"T","status":503,"type":"/problems/draining"}}`:                                                "0 jobs put; line 1 was not: the server is draining",
		`{"lines":[{"id":"1"},{"problem":{"title":"T","status":422,"remedy":"R"}}],"problem":{"title":"F","status":507,"remedy":"R"}}`: "1 job put, 1 line with errors; line 3 was not: F: R. To retry line 3 use --skip 2",
		`[]`: "each of the lines 1 to 3 may have been put or not: ",
	} {
		p := answering(t, func(w http.ResponseWriter, r *http.Request) { answer(w, 200, body) })
		p.in = "a\nb\nc\n"
		if o := p.polystalk("put", "a", "--lines"); o.code == 0 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: %d, %q, want %q", body, o.code, o.stderr, want)
		}
	}
	p := answering(t, func(w http.ResponseWriter, r *http.Request) {
		answer(w, 503, `{"title":"T","status":503,"type":"/problems/uncertain","remedy":"R"}`)
	})
	p.in = "a\nb\n"
	p.says("each of the lines 1 to 2 may have been put or not: T: R. ", client.System, "put", "a", "--lines")
}

// TestLinesArePutBeforeTheNextIsAwaited: a slow producer's line waits for no other.
func TestLinesArePutBeforeTheNextIsAwaited(t *testing.T) {
	in, lines := io.Pipe()
	put := make(chan struct{}, 1)
	server := "beanstalk://" + serving(t, func(conn net.Conn) {
		for in := bufio.NewScanner(conn); in.Scan(); {
			switch word, _, _ := strings.Cut(in.Text(), " "); word {
			case "list-tube-used":
				fmt.Fprint(conn, "USING default\r\n")
			case "use":
				fmt.Fprint(conn, "USING a\r\n")
			case "put":
				in.Scan()
				fmt.Fprint(conn, "INSERTED 1\r\n")
				put <- struct{}{}
			}
		}
	})
	go func() {
		defer lines.Close()
		for range 3 {
			_, _ = io.WriteString(lines, "line\nha")
			<-put
			_, _ = io.WriteString(lines, "lf\n")
			<-put
		}
	}()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), daemon.Hang)
	defer cancel()
	a := &cli.App{In: in, Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" }}
	if code := cli.Run(ctx, a, []string{"put", "a", "--lines", "--server", server, "-o", "name"}); code != 0 || strings.Count(stdout.String(), "\n") != 6 {
		t.Errorf("%d, %q, %q", code, stdout.String(), stderr.String())
	}
}

// TestRepliesAreReadWhileLinesAreSent, as a server that waits until its replies are read reads no
// lines. The buffers of a unix socket are small.
func TestRepliesAreReadWhileLinesAreSent(t *testing.T) {
	const lines = 900
	p := &program{t: t, server: "beanstalk+unix:" + servingAt(t, "unix", filepath.Join(t.TempDir(), "s"), conversing(slices.Repeat([]string{"INSERTED 7"}, lines)))}
	for _, code := range []int{0, client.NotDone} { // the second time, it closes the connection
		p.in = strings.Repeat(strings.Repeat("x", 300)+"\n", lines+code)
		p.must(code, "put", "a", "--lines", "--timeout", "5")
	}
}
