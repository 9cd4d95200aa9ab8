package access

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// line is a line of a file of tokens.
func line(name, role, token string, more ...string) string {
	return strings.Join(append([]string{name, role, fmt.Sprintf("sha256:%x", DigestOf(token))}, more...), " ") + "\n"
}

func writeTokens(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTokensThatCannotBeUsedAreRefusedWithLineAndRemedy(t *testing.T) {
	good := line("ops", "admin", "secret")
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", ":1: there is no token"},
		{"only comments", "# nobody\n\n", ":1: there is no token"},
		{"two words", good + "ops2 admin\n", ":2: there are 2 words: give a name, a role"},
		{"five words", good + line("b", "read", "x", "+bodies", "+bodies"), ":2: there are 5 words"},
		{"role", good + "\n" + line("b", "root", "x"), `:3: unknown role "root": give read, operate or admin`},
		{"no role", line("b", "none", "x"), `:1: unknown role "none": give read`},
		{"no digest", "ops admin secretsecret\n", ":1: the third word is no digest: give sha256:"},
		{"short digest", "ops admin sha256:abcd\n", ":1: the third word is no digest"},
		{"long digest", strings.TrimSpace(good) + "ab\n", ":1: the third word is no digest"},
		{"odd digits", "ops admin sha256:" + strings.Repeat("g", 64) + "\n", ":1: the third word is no digest"},
		{"word", line("b", "read", "x", "+body"), `:1: unknown word "+body": give +bodies`},
		{"name twice", good + line("ops", "read", "x"), `:2: the name "ops" is in line 1 already`},
		{"token twice", good + line("b", "read", "secret"), ":2: the token is in line 1 already"},
	} {
		_, err := OpenTokens(writeTokens(t, tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "secretsecret") {
			t.Errorf("%s: the error shows what may be a token: %v", tt.name, err)
		}
	}
	if _, err := OpenTokens(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "give a file") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := OpenTokens(t.TempDir()); err == nil {
		t.Error("a directory is read")
	}
}

func TestTokenIsFoundOnlyWhole(t *testing.T) {
	tokens, err := OpenTokens(writeTokens(t, "# who\n"+line("a", "read", "token-a")+line("b", "read", "token-b", "+bodies")+line("c", "operate", "token-c")+line("d", "admin", "token-d")))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "token", "token-", "token-aa", " token-a", "token-a ", "TOKEN-A", fmt.Sprintf("%x", DigestOf("token-a"))} {
		if g, ok := tokens.Find(bad); ok {
			t.Errorf("%q is taken for the token of %v", bad, g)
		}
	}
	for token, want := range map[string]Grant{
		"token-a": {"a", Read, false}, "token-b": {"b", Read, true}, "token-c": {"c", Operate, false}, "token-d": {"d", Admin, false},
	} {
		if g, ok := tokens.Find(token); !ok || g != want {
			t.Errorf("%q: %v, %t, want %v", token, g, ok, want)
		}
	}
}

func TestGrantsGrow(t *testing.T) {
	roles := []Role{Nobody, Read, Operate, Admin}
	for i, has := range roles {
		for k, need := range roles {
			if got := (Grant{Role: has}).May(need); got != (i >= k) {
				t.Errorf("%v for what needs %v: %t", has, need, got)
			}
		}
		if p, err := ParseRole(has.String()); err != nil || p != has {
			t.Errorf("%v is read as %v, %v", has, p, err)
		}
	}
	for _, usual := range []Bodies{None, Preview, Full} {
		for g, want := range map[Grant]Bodies{
			{Role: Nobody}: None, {Role: Read}: None, {Role: Operate}: usual, {Role: Admin}: usual,
			{Role: Read, Bodies: true}: Full, {Role: Operate, Bodies: true}: Full,
		} {
			if got := g.Sees(usual); got != want {
				t.Errorf("%v sees %v where %v is usual, want %v", g, got, usual, want)
			}
		}
		if b, err := ParseBodies(usual.String()); err != nil || b != usual {
			t.Errorf("%v is read as %v, %v", usual, b, err)
		}
	}
	if _, err := ParseBodies("some"); err == nil {
		t.Error("some bodies are read")
	}
}

func TestReloadIsAllOrNothing(t *testing.T) {
	path := writeTokens(t, line("a", "read", "one"))
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(text string) error {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return tokens.Reload()
	}
	if err := replace(line("b", "admin", "two") + "broken\n"); err == nil {
		t.Error("a broken file is taken")
	}
	if _, ok := tokens.Find("one"); !ok || tokens.Len() != 1 {
		t.Error("a broken file has changed what there was")
	}
	if err := replace(line("b", "admin", "two")); err != nil {
		t.Fatal(err)
	}
	if _, ok := tokens.Find("one"); ok {
		t.Error("a token that is gone is still taken")
	}
	if g, ok := tokens.Find("two"); !ok || g.Role != Admin {
		t.Error("a token that is new is not taken")
	}
}

// TestPipesAreNotWaitedFor: the file may be a shell's <(COMMAND), which has no writer at a reload.
func TestPipesAreNotWaitedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTokens(path); err == nil || !strings.Contains(err.Error(), "there is no token") {
		t.Errorf("of nobody: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.WriteString(line("a", "read", "one"))
	w.Close()
	if tokens, err := OpenTokens(fmt.Sprint("/dev/fd/", r.Fd())); err != nil || tokens.Len() != 1 {
		t.Errorf("of a shell: %v", err)
	}
	endless, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer endless.Close()
	if _, err := ReadSecret(path, 10); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("of a writer that says nothing: %v", err)
	}
	endless.WriteString("0123456789a")
	if _, err := ReadSecret(path, 10); err == nil || !strings.Contains(err.Error(), "10") {
		t.Errorf("of a writer that says too much: %v", err)
	}
}

func TestExposedFileIsNoticed(t *testing.T) {
	path := writeTokens(t, line("a", "read", "one"))
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if tokens.Exposed() != want {
			t.Errorf("mode %o: exposed is %t", mode, !want)
		}
	}
}

func TestSessionsEnd(t *testing.T) {
	path := writeTokens(t, line("a", "operate", "one"))
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSessions(tokens)
	start := time.Unix(1e9, 0)
	if _, _, ok := s.Begin("wrong", start); ok || s.Len() != 0 {
		t.Fatal("a wrong token begins a session")
	}
	begin := func() string {
		t.Helper()
		id, g, ok := s.Begin("one", start)
		if !ok || g.Name != "a" || len(id) < 40 {
			t.Fatalf("%q %v %t", id, g, ok)
		}
		return id
	}
	id, other := begin(), begin()
	if id == other {
		t.Fatal("two sessions have one id")
	}
	for _, bad := range []string{"", "one", id[:len(id)-1], id + "A"} {
		if _, ok := s.Find(bad, start); ok {
			t.Errorf("%q is taken for a session", bad)
		}
	}
	if g, ok := s.Find(id, start.Add(SessionIdle)); !ok || g.Role != Operate {
		t.Error("it ended before it was idle for long")
	}
	if _, ok := s.Find(id, start.Add(2*SessionIdle)); !ok {
		t.Error("to use it did not keep it")
	}
	if _, ok := s.Find(other, start.Add(SessionIdle+1)); ok || s.Len() != 1 {
		t.Error("an idle one goes on")
	}
	s.End(id)
	if _, ok := s.Find(id, start.Add(2*SessionIdle)); ok {
		t.Error("one that was ended goes on")
	}
	id = begin()
	if err := os.WriteFile(path, []byte(line("b", "read", "two")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Find(id, start); ok {
		t.Error("it outlives its token")
	}
	if _, _, ok := s.Begin("two", start); !ok {
		t.Fatal("no session for the new token")
	}
}

// TestLoginsEndNoSessionOfAnotherToken: and of the same one that which is idle for longest.
func TestLoginsEndNoSessionOfAnotherToken(t *testing.T) {
	tokens, err := OpenTokens(writeTokens(t, line("boss", "admin", "one")+line("reader", "read", "two")))
	if err != nil {
		t.Fatal(err)
	}
	s := NewSessions(tokens)
	now := time.Now()
	boss, _, _ := s.Begin("one", now)
	idle, _, _ := s.Begin("two", now)
	used, _, _ := s.Begin("two", now)
	for i := range 10_000 {
		now = now.Add(time.Millisecond)
		if i%(sessionsMax/2) == 0 {
			s.Find(used, now)
		}
		s.Begin("two", now)
	}
	for id, want := range map[string]bool{boss: true, used: true, idle: false} {
		if _, ok := s.Find(id, now); ok != want {
			t.Errorf("a session is alive: %t, want %t", ok, want)
		}
	}
	if s.Len() != sessionsMax+1 {
		t.Errorf("%d sessions are kept", s.Len())
	}
	s.Begin("one", now.Add(SessionIdle+time.Second))
	if s.Len() != 1 {
		t.Errorf("%d sessions are kept that nobody used for long", s.Len())
	}
}
