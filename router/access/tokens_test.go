package access

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// line returns a line of a tokens file.
func line(name, role, token string, more ...string) string {
	return strings.Join(append([]string{name, role, fmt.Sprintf("sha256:%x", DigestOf(token))}, more...), " ") + "\n"
}

func writeTokens(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	noErr(t, os.WriteFile(path, []byte(text), 0o600))
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
		{"no digest", "ops admin secretsecret\n", ":1: the third word is not a digest: give sha256:"},
		{"short digest", "ops admin sha256:abcd\n", ":1: the third word is not a digest"},
		{"long digest", strings.TrimSpace(good) + "ab\n", ":1: the third word is not a digest"},
		{"odd digits", "ops admin sha256:" + strings.Repeat("g", 64) + "\n", ":1: the third word is not a digest"},
		{"word", line("b", "read", "x", "+body"), `:1: unknown word "+body": give +bodies`},
		{"name twice", good + line("ops", "read", "x"), `:2: the name "ops" is already in line 1`},
		{"token twice", good + line("b", "read", "secret"), ":2: the token is already in line 1"},
	} {
		_, err := OpenTokens(writeTokens(t, tt.text))
		expect(t, err != nil && strings.Contains(err.Error(), tt.want), "%s: %v, want %q", tt.name, err, tt.want)
		expect(t, err == nil || !strings.Contains(err.Error(), "secretsecret"), "%s: the error shows what may be a token: %v", tt.name, err)
	}
	if _, err := OpenTokens(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "give a file") {
		t.Errorf("a file that is not there: %v", err)
	}
	_, err := OpenTokens(t.TempDir())
	expect(t, err != nil, "a directory is read")
}

func TestOldTokenIsFoundOnlyWhole(t *testing.T) {
	tokens, err := OpenTokens(writeTokens(t, "# who\n"+line("a", "read", "token-a")+line("b", "read", "token-b", "+bodies")+line("c", "operate", "token-c")+line("d", "admin", "token-d")))
	noErr(t, err)
	for _, bad := range []string{"", "token", "token-", "token-aa", " token-a", "token-a ", "TOKEN-A", fmt.Sprintf("%x", DigestOf("token-a"))} {
		g, ok := tokens.Find(bad)
		expect(t, !ok, "%q is taken for the token of %v", bad, g)
	}
	for token, want := range map[string]Grant{
		"token-a": {"a", Read, false}, "token-b": {"b", Read, true}, "token-c": {"c", Operate, false}, "token-d": {"d", Admin, false},
	} {
		g, ok := tokens.Find(token)
		expect(t, ok && g == want, "%q: %v, %t, want %v", token, g, ok, want)
	}
}

func TestGrantsGrow(t *testing.T) {
	roles := []Role{Nobody, Read, Operate, Admin}
	for i, has := range roles {
		for k, need := range roles {
			got := (Grant{Role: has}).May(need)
			expect(t, got == (i >= k), "%v for what needs %v: %t", has, need, got)
		}
		p, err := ParseRole(has.String())
		expect(t, err == nil && p == has, "%v is read as %v, %v", has, p, err)
	}
	for _, usual := range []Bodies{None, Preview, Full} {
		for g, want := range map[Grant]Bodies{
			{Role: Nobody}: None, {Role: Read}: None, {Role: Operate}: usual, {Role: Admin}: usual,
			{Role: Read, Bodies: true}: Full, {Role: Operate, Bodies: true}: Full,
		} {
			got := g.Sees(usual)
			expect(t, got == want, "%v sees %v where %v is usual, want %v", g, got, usual, want)
		}
		b, err := ParseBodies(usual.String())
		expect(t, err == nil && b == usual, "%v is read as %v, %v", usual, b, err)
	}
	_, err := ParseBodies("some")
	expect(t, err != nil, "some bodies are read")
}

func TestReloadIsAllOrNothing(t *testing.T) {
	path := writeTokens(t, line("a", "read", "one"))
	tokens, err := OpenTokens(path)
	noErr(t, err)
	replace := func(text string) error {
		noErr(t, os.WriteFile(path, []byte(text), 0o600))
		return tokens.Reload()
	}
	if err := replace(line("b", "admin", "two") + "broken\n"); err == nil {
		t.Error("a broken file is taken")
	}
	if _, ok := tokens.Find("one"); !ok || tokens.Len() != 1 {
		t.Error("a broken file has changed what there was")
	}
	noErr(t, replace(line("b", "admin", "two")))
	if _, ok := tokens.Find("one"); ok {
		t.Error("a token that is gone is still taken")
	}
	g, ok := tokens.Find("two")
	expect(t, ok && g.Role == Admin, "a token that is new is not taken")
}

func TestSessionsEnd(t *testing.T) {
	path := writeTokens(t, line("a", "operate", "one"))
	tokens, err := OpenTokens(path)
	noErr(t, err)
	s := NewSessions(tokens)
	start := time.Unix(1e9, 0)
	if _, _, ok := s.Begin("wrong", start); ok || len(s.open) != 0 {
		t.Fatal("a wrong token begins a session")
	}
	begin := func() string {
		t.Helper()
		id, g, ok := s.Begin("one", start)
		require(t, ok && g.Name == "a" && len(id) >= 40, "%q %v %t", id, g, ok)
		return id
	}
	id, other := begin(), begin()
	require(t, id != other, "two sessions have one id")
	for _, bad := range []string{"", "one", id[:len(id)-1], id + "A"} {
		_, ok := s.Find(bad, start)
		expect(t, !ok, "%q is taken for a session", bad)
	}
	if g, ok := s.Find(id, start.Add(SessionIdle)); !ok || g.Role != Operate {
		t.Error("it ended before it was idle for long")
	}
	if _, ok := s.Find(id, start.Add(2*SessionIdle)); !ok {
		t.Error("to use it did not keep it")
	}
	if _, ok := s.Find(other, start.Add(SessionIdle+1)); ok || len(s.open) != 1 {
		t.Error("an idle one goes on")
	}
	s.End(id)
	if _, ok := s.Find(id, start.Add(2*SessionIdle)); ok {
		t.Error("one that was ended goes on")
	}
	id = begin()
	noErr(t, os.WriteFile(path, []byte(line("b", "read", "two")), 0o600))
	noErr(t, tokens.Reload())
	if _, ok := s.Find(id, start); ok {
		t.Error("it outlives its token")
	}
	_, _, ok := s.Begin("two", start)
	require(t, ok, "no session for the new token")
}

// TestLoginsEndNoSessionOfAnotherToken, but the session of the same token that was idle for longest.
func TestLoginsEndNoSessionOfAnotherToken(t *testing.T) {
	tokens, err := OpenTokens(writeTokens(t, line("boss", "admin", "one")+line("reader", "read", "two")))
	noErr(t, err)
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
		_, ok := s.Find(id, now)
		expect(t, ok == want, "a session is alive: %t, want %t", ok, want)
	}
	expect(t, len(s.open) == sessionsMax+1, "%d sessions are kept", len(s.open))
	s.Begin("one", now.Add(SessionIdle+time.Second))
	expect(t, len(s.open) == 1, "%d sessions are kept that nobody used for long", len(s.open))
}
