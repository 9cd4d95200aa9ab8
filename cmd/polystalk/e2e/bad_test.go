package e2e

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
)

// serving is the address of a server that does that with everybody who connects, and closes
// the connection then.
func serving(t *testing.T, serve func(conn net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// says is a server that says something to everybody who connects, and then nothing.
func says(t *testing.T, text string) string {
	t.Helper()
	return serving(t, func(conn net.Conn) {
		// It has read something of the request first.
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, conn)
	})
}

// TestBadServers: whatever a server is, there is one line that says what to do.
func TestBadServers(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	_, s := polystalkd(t)
	answer := func(status int, contentType, body string) string {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			if status == http.StatusFound {
				w.Header().Set("Location", "https://elsewhere.example")
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(h.Close)
		return h.URL
	}
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	t.Cleanup(tls.Close)
	problem := `{"type":"/problems/x","title":"It is\u001b[2J so","status":418,"remedy":"do\nthat"}`
	for _, tt := range []struct {
		about, server string
		code          int
		want          string
	}{
		{"nobody", "http://" + freeAddress(t), client.System, "is polystalkd running, with --http?"},
		{"nobody", "beanstalk://" + freeAddress(t), client.System, "is the server running?"},
		{"no socket", "unix:/nonexistent/http.sock", client.System, "is polystalkd running, with that socket?"},
		{"no socket", "beanstalk+unix:/nonexistent/sock", client.System, "is the server running?"},
		{"no name", "nowhere:80", client.Usage, "give http://HOST:PORT"},
		{"silence", "http://" + says(t, ""), client.System, "does not answer in time: try again, or give it longer by --timeout"},
		{"silence", "beanstalk://" + says(t, ""), client.System, "does not answer in time"},
		{"half an answer", "http://" + says(t, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"), client.System, "--timeout"},
		{"half an answer", "beanstalk://" + says(t, "USING"), client.System, "does not answer in time"},
		{"a hanging beanstalkd", "beanstalk://" + says(t, "USING default\r\n"), client.System, "does not answer in time"},
		{"a size that cannot be", "beanstalk://" + says(t, "USING default\r\nOK -5\r\n"), client.System, "try again"},
		{"a size that is too large", "beanstalk://" + says(t, "USING default\r\nOK 99999999999999999\r\n"), client.System, "try again"},
		{"beanstalkd for HTTP", "http://" + says(t, "UNKNOWN_COMMAND\r\n"), client.System, "given as beanstalk://HOST:PORT"},
		{"our beanstalkd for HTTP", "http://" + s.Listen[0], client.System, "is that the address of polystalkd's --http?"},
		{"HTTP for beanstalkd", "beanstalk://" + says(t, "HTTP/1.1 400 Bad Request\r\n"), client.System, "given as http://HOST:PORT"},
		{"HTTP for HTTPS", strings.Replace(answer(200, "text/html", "x"), "http:", "https:", 1), client.System, "given as http://HOST:PORT"},
		{"an unknown certificate", tls.URL, client.System, "SSL_CERT_FILE"},
		{"a page", answer(200, "text/html; charset=utf-8", "<p>"), client.System, "it answers 200 OK, text/html"},
		{"no page", answer(404, "text/plain", "404"), client.System, "it answers 404 Not Found, text/plain"},
		{"a login", answer(302, "text/html", ""), client.System, "points to https://elsewhere.example"},
		{"no JSON", answer(200, "application/json", "{"), client.System, "is no polystalkd"},
		{"nothing", answer(204, "application/json", ""), client.System, "answers nothing"},
		{"an unknown problem", answer(418, "application/problem+json", problem), client.Usage, `It is\x1B[2J so: do\nthat`},
		{"an empty problem", answer(500, "application/problem+json", "{}"), client.System, "is no polystalkd"},
	} {
		t.Run(tt.about, func(t *testing.T) {
			t.Parallel() // some say nothing for all of the time
			p := &program{t: t, server: tt.server}
			o := p.must(tt.code, "stats", "--timeout", "10s")
			if !strings.Contains(o.stderr, tt.want) || o.stdout != "" {
				t.Errorf("%s%q, want something about %q", o.stdout, o.stderr, tt.want)
			}
		})
	}
	p := &program{t: t, places: []string{"unix:/nonexistent/http.sock", "http://" + freeAddress(t)}}
	if o := p.must(client.System, "stats"); !strings.Contains(o.stderr, "start polystalkd with --http") {
		t.Errorf("%q", o.stderr)
	}
	p = &program{t: t, server: "http://" + freeAddress(t)}
	if o := p.must(2, "check"); !strings.HasPrefix(o.stdout, "POLYSTALK CRITICAL - http://") || o.stderr != "" {
		t.Errorf("check of nobody: %q, %q", o.stdout, o.stderr)
	}
}

// TestServersWithoutAList: a list in which something is missing, or that never ends.
func TestServersWithoutAList(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                                  "without \"tubes\"",
		`{"tubes":1}`:                         "without \"tubes\"",
		`[]`:                                  "without \"tubes\"",
		`{"tubes":[],"next":1}`:               "without \"next\"",
		`{"tubes":[{"name":"a"}],"next":"x"}`: "the same part of the list again",
	} {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		}))
		p := &program{t: t, server: h.URL}
		if o := p.must(client.System, "tubes"); !strings.Contains(o.stderr, want) {
			t.Errorf("%s: %q", body, o.stderr)
		}
		h.Close()
	}
}

// TestOlderServer: of what it does not have, its description does not tell either.
func TestOlderServer(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/openapi.json" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"paths":{"/tubes/{tube}":{"get":{}}}}`)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(404)
		_, _ = io.WriteString(w, `{"type":"/problems/not-found","title":"no","status":404,"detail":"no such thing","remedy":"look"}`)
	}))
	defer h.Close()
	p := &program{t: t, server: h.URL}
	if o := p.must(client.Usage, "release", "1"); !strings.Contains(o.stderr, "is older than this program, and has no POST /jobs/1/release: upgrade it") {
		t.Errorf("%q", o.stderr)
	}
	if o := p.must(client.Nothing, "tube", "x"); !strings.Contains(o.stderr, "no such thing: polystalk tubes lists") {
		t.Errorf("%q", o.stderr)
	}
}

// TestBusyServer: who is told to come again does.
func TestBusyServer(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	asked := 0
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
			_, _ = io.WriteString(w, `{"type":"/problems/busy","title":"busy","status":429,"remedy":"try again"}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"version":"x"}`)
	}))
	defer h.Close()
	p := &program{t: t, server: h.URL}
	if o := p.must(0, "stats", "--jq", ".version", "--timeout", "10s"); o.stdout != "x\n" || asked != 3 {
		t.Errorf("%q after %d requests", o.stdout, asked)
	}
	asked = -100
	if o := p.must(client.System, "stats", "--timeout", "1s"); !strings.Contains(o.stderr, "try again") {
		t.Errorf("%q", o.stderr)
	}
}

// TestInterrupted: who is interrupted ends soon, whatever the server does.
func TestInterrupted(t *testing.T) {
	for _, server := range []string{"http://" + says(t, ""), "beanstalk://" + says(t, "USING default\r\n"), "beanstalk://" + says(t, "")} {
		p := &program{t: t, server: server}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		began := time.Now()
		o := p.within(ctx, "stats", "--timeout", "1h")
		if took := time.Since(began); o.code != client.NotDone || took > daemon.Hang/2 || !strings.Contains(o.stderr, "interrupted") {
			t.Errorf("%s: %d, %q after %v", server, o.code, o.stderr, took)
		}
	}
}

// TestTokens: who needs a token is told so, and one that is shown is used.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	// Of "secret", by sha256sum.
	const sum = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
	tokens, token := filepath.Join(dir, "tokens"), filepath.Join(dir, "token")
	if err := os.WriteFile(tokens, []byte("me read sha256:"+sum+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := polystalkd(t, "--http-tokens-file", tokens)
	if o := p.must(client.Refused, "stats"); !strings.Contains(o.stderr, "--token-file or POLYSTALK_TOKEN_FILE") {
		t.Errorf("%q", o.stderr)
	}
	if o := p.must(3, "check"); !strings.HasPrefix(o.stdout, "POLYSTALK UNKNOWN - ") {
		t.Errorf("%q", o.stdout)
	}
	p.must(0, "stats", "--token-file", token)
	p.env = map[string]string{"POLYSTALK_TOKEN_FILE": token}
	p.must(0, "stats")
	if o := p.must(client.Refused, "put", "mail", "--body", "x"); !strings.Contains(o.stderr, "role operate") {
		t.Errorf("%q", o.stderr)
	}
}
