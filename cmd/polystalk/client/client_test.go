package client

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]string{
		"http://127.0.0.1:11380":        "http://127.0.0.1:11380 tcp 127.0.0.1:11380",
		"http://queue":                  "http://queue:11380 tcp queue:11380",
		"http://[::1]:80/q/":            "http://[::1]:80/q tcp [::1]:80",
		"https://queue.example.org/ops": "https://queue.example.org/ops tcp queue.example.org:443",
		"unix:/run/x.sock":              "http://localhost unix /run/x.sock",
		"unix:///run/x.sock":            "http://localhost unix /run/x.sock",
		"unix:x.sock":                   "http://localhost unix x.sock",
		"beanstalk://queue":             "<nil> tcp queue:11300",
		"beanstalk://[::1]:1":           "<nil> tcp [::1]:1",
		"beanstalk+tls://queue":         "<nil> tcp queue:11301",
		"beanstalk+unix:/run/b.sock":    "<nil> unix /run/b.sock",
	} {
		got, err := parseTarget(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		base := "<nil>"
		if got.Base != nil {
			base = got.Base.String()
		}
		if text := base + " " + got.Network + " " + got.Address; text != want || got.Name != name {
			t.Errorf("%s: %s, want %s", name, text, want)
		}
	}
	for _, name := range []string{
		"queue", "queue:11300", "127.0.0.1:11380", "ftp://queue", "http://", "http://:80", "http://queue:0", "http://queue:70000", "http://queue:http",
		"unix:", "unix://host/x", "beanstalk+unix:", "http://me:secret@queue", "http://queue?x=1", "http://queue#x", "beanstalk://queue/x", "beanstalk+tls://queue/x", "http://a b", "\x00",
	} {
		_, err := parseTarget(name)
		if ExitCode(err) != Usage || !strings.Contains(err.Error(), "give http://HOST:PORT") || strings.ContainsAny(err.Error(), "\x00\n") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestFind(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	here := "beanstalk://" + l.Addr().String()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "dead.sock"), nil, 0o600))
	places := []string{"unix:" + filepath.Join(dir, "none.sock"), "unix:" + filepath.Join(dir, "dead.sock"), here}
	if got, err := Find(t.Context(), "", places); err != nil || got.Name != here {
		t.Errorf("found %v, %v", got, err)
	}
	if got, err := Find(t.Context(), "http://named", places); err != nil || got.Name != "http://named" {
		t.Errorf("found %v, %v", got, err)
	}
	l.Close()
	if _, err := Find(t.Context(), "", places); ExitCode(err) != System || !strings.Contains(err.Error(), here) || !strings.Contains(err.Error(), "--http") {
		t.Errorf("found nobody: %v", err)
	}
	for _, place := range Places {
		if _, err := parseTarget(place); err != nil {
			t.Error(err)
		}
	}
}

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if _, err := Token(file); ExitCode(err) != Usage {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{"abc=": "abc=", " abc\r\n": "abc", "": "", "\n": "", "a b": "", "name read sha256:00\n": "", "a\nb": "", "ä": ""} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if got, err := Token(file); got != want || (want == "") != (ExitCode(err) == Usage) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if got, err := Token(""); got != "" || err != nil {
		t.Errorf("no name: %q, %v", got, err)
	}
}

// TestSilenceIsNoOtherProtocol: only an answer shows that a server speaks another protocol.
func TestSilenceIsNoOtherProtocol(t *testing.T) {
	for name, tt := range map[string]struct {
		sends  string
		closes bool
		want   string
	}{
		"silent":           {"", false, "does not answer in time"},
		"closing":          {"", true, "has closed the connection"},
		"slow":             {"USING def", false, "does not answer in time"},
		"closing later":    {"USING def", true, "has closed the connection"},
		"another protocol": {"HTTP/1.1 400 Bad Request\r\n", false, "does not speak beanstalkd's protocol"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		gone := make(chan struct{})
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 100)) // else the close discards what was sent
			_, _ = conn.Write([]byte(tt.sends))
			if !tt.closes {
				<-gone
			}
		}()
		target, err := parseTarget("beanstalk://" + l.Addr().String())
		must(t, err)
		_, err = Dial(t.Context(), target, Options{Timeout: 200 * time.Millisecond})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		close(gone)
		l.Close()
	}
}

// TestOnlyCellsThatNeedAttentionAreColoured, on a terminal, in tables.
func TestOnlyCellsThatNeedAttentionAreColoured(t *testing.T) {
	const red, end = "\x1b[1;31m", "\x1b[0m"
	tubes := `{"tubes":[{"name":"a","watching":1,"jobs":{"ready":5,"buried":0},"pause_left_seconds":0},
		{"name":"b","watching":0,"jobs":{"ready":5,"buried":3},"pause_left_seconds":60},{"name":"\u001b[2J","watching":0,"jobs":{"ready":0}}]}`
	members := `{"members":[{"name":"a","connected":true,"room_bytes":1},{"name":"b","connected":false,"room_bytes":1,"disk_full":true,"trouble":"lost","access_digest":"none","access_differs":true}]}`
	for _, tt := range []struct {
		view                   View
		document, format, want string
	}{
		{TubesView, tubes, "table", "5 3 1m00s"}, {ClusterView, members, "table", "1 B (full) lost"}, {ClusterView, members, "wide", "1 B (full) lost no none (differs)"},
		{TubesView, tubes, "jsonl", ""}, {TubesView, tubes, "json", ""}, {TubesView, tubes, "name", ""},
		{HealthView, `{"status":"fail"}`, "table", "fail"}, {HealthView, `{"status":"ok"}`, "table", ""}, {DrainView, `{"draining":true}`, "table", "yes"},
	} {
		var out, coloured strings.Builder
		must(t, (&Printer{Out: &out, Format: tt.format}).Show([]byte(tt.document), tt.view))
		must(t, (&Printer{Out: &coloured, Colour: &coloured, Format: tt.format}).Show([]byte(tt.document), tt.view))
		var marked []string
		for _, part := range strings.Split(coloured.String(), red)[1:] {
			cell, _, _ := strings.Cut(part, end)
			marked = append(marked, cell)
		}
		if got := strings.Join(marked, " "); got != tt.want {
			t.Errorf("%s %.20s: %q is marked, want %q", tt.format, tt.document, got, tt.want)
		}
		if got := strings.NewReplacer(red, "", end, "").Replace(coloured.String()); got != out.String() || strings.Contains(got, "\x1b") {
			t.Errorf("%s: the colours change the text:\n%q\n%q", tt.format, got, out.String())
		}
	}
}

// TestTokenIsSentOnlyWhereOthersCannotReadIt: no name is looked up, and nothing connects.
func TestTokenIsSentOnlyWhereOthersCannotReadIt(t *testing.T) {
	for name, want := range map[string]bool{
		"http://queue": false, "http://10.0.0.1:11380": false, "http://localhost.example": false, "http://[2001:db8::1]": false, "beanstalk://queue": false,
		"http://127.0.0.1:11380": true, "http://127.1.2.3": true, "http://[::1]:1": true, "http://localhost": true, "https://queue": true,
		"unix:/x": true, "beanstalk+unix:/x": true, "beanstalk://127.0.0.1": true, "beanstalk+tls://queue": true,
	} {
		target, err := parseTarget(name)
		if err != nil {
			t.Fatal(err)
		}
		err = target.checkSecrecy(Options{Token: "x"})
		if (err == nil) != want || err != nil && (ExitCode(err) != Usage || !strings.Contains(err.Error(), "https:// or beanstalk+tls://")) {
			t.Errorf("%s: %v", name, err)
		}
		if target.checkSecrecy(Options{}) != nil {
			t.Errorf("%s is refused without a token", name)
		}
		if want {
			continue
		}
		if _, err := DialWorker(t.Context(), target, Options{Token: "x"}, nil); ExitCode(err) != Usage {
			t.Errorf("%s: a worker: %v", name, err)
		}
		if _, err := Dial(t.Context(), target, Options{Token: "x"}); ExitCode(err) != Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}
