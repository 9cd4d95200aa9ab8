package e2e

import (
	"context"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestWrongServersGetALineWithARemedy: testdata/servers.txt has the ones that send fixed bytes.
func TestWrongServersGetALineWithARemedy(t *testing.T) {
	p, s := polystalkd(t)
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	t.Cleanup(tls.Close)
	for server, want := range map[string]string{
		"http://" + s.Listen[0]:                             "is that the address of polystalkd's --http?",
		strings.Replace(p.server, "http:", "https:", 1):     "write it as http://HOST:PORT",
		strings.Replace(p.server, "http:", "beanstalk:", 1): "--http as http://HOST:PORT",
		tls.URL: "--tls-ca",
		fake(t, "beanstalk", "hangs", "USING default\r\n"+strings.Repeat("x", 5000)): `it answers "xxx`,
	} {
		(&program{t: t, server: server}).says(want, client.System, "stats")
	}
	p = &program{t: t, places: []string{"unix:/nonexistent/http.sock", "http://" + daemon.FreeAddress(t)}}
	p.says("start polystalkd with --http", client.System, "stats")
}

func TestBusyServersAreAskedAgainWithinTheTimeout(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	asked := 0
	p := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 {
			w.Header().Set("Retry-After", "1")
			answer(w, 429, `{"type":"/problems/busy","title":"busy","status":429,"remedy":"try again"}`)
			return
		}
		answer(w, 200, `{"version":"x"}`)
	})
	if o := p.must(0, "stats", "--jq", ".version", "--timeout", "10s"); o.stdout != "x\n" || asked != 3 {
		t.Errorf("%q after %d requests", o.stdout, asked)
	}
	asked = -100
	p.says("try again", client.System, "stats", "--timeout", "1s")
}

// TestInterruptsEndACommandSoon, whatever the server does. A command that changes nothing does not
// say that changes remain.
func TestInterruptsEndACommandSoon(t *testing.T) {
	for args, by := range map[string]string{"cluster status": "http", "stats": "http", "health": "http", "cluster remove one": "http", "tubes": "beanstalk", "kick 1": "beanstalk"} {
		ctx, cancel := context.WithCancel(t.Context())
		address := serving(t, func(conn net.Conn) {
			if by == "beanstalk" {
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, "USING default\r\n")
			}
			_, _ = conn.Read(make([]byte, 4096))
			cancel()
			_, _ = io.Copy(io.Discard, conn)
		})
		want := "polystalk: interrupted\n"
		if strings.Contains(args, "remove") || strings.Contains(args, "kick") {
			want = "polystalk: interrupted: changes so far remain\n"
		}
		p := &program{t: t, server: by + "://" + address}
		if o := p.within(ctx, append(strings.Fields(args), "--timeout", "1h")...); o.code != client.NotDone || o.stderr != want {
			t.Errorf("%s: %d, %q, want %q", args, o.code, o.stderr, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	p := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/jobs") {
			answer(w, 200, `{"jobs":{"ready":5}}`)
			return
		}
		cancel()
		<-r.Context().Done()
	})
	if o := p.within(ctx, "export", "mail", "--file", filepath.Join(t.TempDir(), "jobs")); o.code != client.NotDone || !strings.Contains(o.stderr, "interrupted") {
		t.Errorf("export: %d: %q", o.code, o.stderr)
	}
}

// asking returns all commands that use a server, with valid arguments.
func asking() (all [][]string) {
	arguments := map[string]string{
		"tube": "x", "jobs": "x", "job": "1", "body": "1", "put": "x --body y", "kick": "1", "bury": "1", "delete": "1 --yes", "release": "1 --yes", "mv": "1 --to y", "cp": "1 --to y",
		"edit": "1 --pri 2", "pause": "x 1m", "resume": "x", "flush": "x --yes", "export": "x --id 1-2", "import": "-", "kill": "1", "top": "--once",
		"cluster": "status", "access": "whoami", "work": "x --idle 1 -- true", "reserve": "x --wait 0", "tail": "x",
	}
	for _, c := range new(cli.App).Tree().Commands() {
		if slices.Contains([]string{"help", "completion", "journal", "version", "token"}, c.Name()) {
			continue // these ask no server
		}
		all = append(all, strings.Fields(c.Name()+" "+arguments[c.Name()]))
	}
	return all
}

var slowTimeoutFlag = flag.Duration("slow-timeout", 300*time.Millisecond, "--timeout of the commands that ask bad servers")

// drips returns the address of a server that sends a text at once, and then another one byte by
// byte until the client has gone. With an interval of 0 it sends without pause.
func drips(t *testing.T, first, then string, every time.Duration) string {
	t.Helper()
	return serving(t, func(conn net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		_, err := io.WriteString(conn, first)
		if every == 0 {
			then = strings.Repeat(then, 1+1<<16/len(then))
		}
		for at := 0; err == nil; at++ {
			if every > 0 {
				time.Sleep(every)
				_, err = io.WriteString(conn, then[at%len(then):at%len(then)+1])
			} else {
				_, err = io.WriteString(conn, then)
			}
		}
	})
}

// TestEveryCommandFailsInTimeOnEveryBadServer: it ends within about its timeout, with one line that
// is safe on a terminal.
func TestEveryCommandFailsInTimeOnEveryBadServer(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	commands := append(asking(), []string{"edit", "1", "--body", "-"}, []string{"cluster", "remove", "a"}, []string{"cluster", "promote", "a"},
		[]string{"cluster", "transfer"}, []string{"cluster", "backup"})
	log.SetOutput(io.Discard) // like main
	defer log.SetOutput(os.Stderr)
	const every = 20 * time.Millisecond
	const hello, chunk = "USING default\r\n", "5\r\n     \r\n"
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	octets := "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
	garbage := "\x16\x03\x01\x00\xff\x1b[2J\r\n\x00\xfe OK 99\r\n"
	gearman := daemon.FreeAddress(t)
	_, s := polystalkd(t, "--gearman-listen", gearman)
	servers := map[string]string{
		"nobody": daemon.FreeAddress(t), "beanstalk nobody": daemon.FreeAddress(t), "Gearman": gearman, "beanstalk Gearman": gearman, "beanstalkd": s.Listen[0],
		"garbage": drips(t, garbage, "x", time.Hour), "beanstalk garbage": drips(t, garbage, "x", time.Hour),
		"silent": drips(t, "", "x", time.Hour), "silent after its head": drips(t, head+"\r\n", " ", time.Hour),
		"dripping its head": drips(t, "", head, every), "dripping a header": drips(t, head+"X: ", "x", every), "dripping JSON": drips(t, head+"\r\n", " ", every),
		"dripping chunks": drips(t, head+"Transfer-Encoding: chunked\r\n\r\n", chunk, every), "dripping a body": drips(t, octets+"Content-Length: 1000000\r\n\r\n", "x", every),
		"endless headers": drips(t, head, "X: x\r\n", 0), "endless JSON": drips(t, head+"\r\n", " ", 0), "endless chunks": drips(t, head+"Transfer-Encoding: chunked\r\n\r\n", chunk, 0),
		"an endless body": drips(t, octets+"\r\n", "x", 0), "an announced body that is endless": drips(t, octets+"Content-Length: 1000000\r\n\r\n", "x", 0),
		"an endless problem":      drips(t, strings.Replace(head, "200 OK", "404 Not Found", 1)+"\r\n", " ", 0),
		"endless interim answers": drips(t, "", "HTTP/1.1 103 Early Hints\r\n\r\n", 0),
		"beanstalk silent":        drips(t, "", "x", time.Hour), "beanstalk silent after its greeting": drips(t, hello, "x", time.Hour),
	}
	for about, text := range map[string][2]string{
		"a greeting": {"", hello}, "a line": {hello, "x"}, "lines": {hello, "x\r\n"}, "replies to nothing": {hello, hello},
		"statistics": {hello + "OK 60000\r\n", "x"}, "lists": {hello + "OK 200000000\r\n", "- a\n"}, "a job": {hello + "FOUND 1 1000000\r\n", "x"}, "jobs": {hello, "FOUND 1 5\r\nabcde\r\n"},
	} {
		servers["beanstalk dripping "+about] = drips(t, text[0], text[1], every)
		servers["beanstalk endless "+about] = drips(t, text[0], text[1], 0)
	}
	var all sync.WaitGroup
	turn := make(chan struct{}, 16)
	for _, args := range commands {
		name := strings.Join(args, " ")
		for about, address := range servers {
			args := slices.Clone(args)
			server := "http://" + address
			if strings.HasPrefix(about, "beanstalk ") {
				server = "beanstalk://" + address
			}
			if name == "cluster backup" {
				dir := t.TempDir()
				servingAt(t, "unix", filepath.Join(dir, "cluster.sock"), relaying(address, 0, func() {}))
				args = append(args, filepath.Join(dir, "out"), "--dir", dir)
			}
			turn <- struct{}{}
			all.Go(func() {
				defer func() { <-turn }()
				p := &program{t: t, server: server, in: `{"tube":"a","body":""}` + "\n"}
				ctx, cancel := context.WithTimeout(t.Context(), daemon.Hang)
				defer cancel()
				began := time.Now()
				o := p.within(ctx, slices.Insert(args, 1, "--timeout", slowTimeoutFlag.String())...)
				if took := time.Since(began); took > 2**slowTimeoutFlag+5*time.Second { // the machine may be busy
					t.Errorf("%s: %s takes %v", about, name, took)
				}
				if name == "check" {
					o.stdout, o.stderr = "", o.stdout
				}
				if args[0] == "body" {
					o.stdout = "" // the part that came
				}
				if strings.Contains(o.stderr, "; usage: ") {
					t.Errorf("the arguments of %s are wrong: %s", name, o.stderr)
				}
				if o.code != client.OK && (strings.Count(o.stderr, "\n") != 1 || o.stdout != "") || hostile(o.stderr) || o.code == client.OK && name == "check" {
					t.Errorf("%s: %s: %d, %q, %q", about, name, o.code, o.stdout, o.stderr)
				}
			})
		}
	}
	all.Wait()
}

// TestACancelledCountDoesNothing: another operator may cancel the operation that counts, or the
// server may end. Then the count is incomplete, and no job may be changed.
func TestACancelledCountDoesNothing(t *testing.T) {
	done := 0
	p := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); !strings.Contains(string(b), `"dry_run":true`) {
			done++
		}
		answer(w, 200, `{"id":"1","action":"delete","dry_run":true,"state":"cancelled","matched":1,"skipped":{},"as_of":"2026-01-31T12:00:00Z",
			"problem":{"type":"/problems/cancelled","title":"It was cancelled","status":409,"detail":"the token \"other\" has cancelled it","remedy":"do it again"}}`)
	})
	for _, flag := range []string{"--yes", "--dry-run"} {
		if o := p.must(client.NotDone, "delete", "--tube", "mail", flag); !strings.Contains(o.stderr, `the token "other" has cancelled it`) || done != 0 {
			t.Errorf("delete %s: %q after %d operations that were no count", flag, o.stderr, done)
		}
	}
}
