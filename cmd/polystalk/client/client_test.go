package client

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		"unix:", "unix://host/x", "beanstalk+unix:", "http://me:secret@queue", "http://queue?x=1", "http://queue#x", "beanstalk://queue/x", "http://a b", "\x00",
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
