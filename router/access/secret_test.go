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

// token makes a token of a valid length from a short text.
func token(text string) string { return text + "-0123456789-0123456789" }

// sha returns the text of a token's digest in the file.
func sha(text string) string { return fmt.Sprintf("sha256:%x", DigestOf(token(text))) }

func writeAccess(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.toml")
	noErr(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func open(t testing.TB, text string) *Identities {
	t.Helper()
	ids, err := Open(writeAccess(t, text))
	noErr(t, err)
	return ids
}

// reload replaces the file and reads it again.
func reload(t testing.TB, ids *Identities, text string) error {
	t.Helper()
	noErr(t, os.WriteFile(ids.path, []byte(text), 0o600))
	use, err := ids.Prepare()
	if err == nil {
		use()
	}
	return err
}

// TestPipesAreNotWaitedFor: the file of a key may be a shell's <(COMMAND), which has no writer at a reload.
func TestPipesAreNotWaitedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	path := filepath.Join(t.TempDir(), "pipe")
	noErr(t, syscall.Mkfifo(path, 0o600))
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("an access file: %v", err)
	}
	endless, err := os.OpenFile(path, os.O_RDWR, 0)
	noErr(t, err)
	defer endless.Close()
	if _, err := ReadFile(path, true); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("of a writer that says nothing: %v", err)
	}
	go endless.WriteString(strings.Repeat("x", 2*fileMax))
	if _, err := ReadFile(path, true); err != errTooLarge {
		t.Errorf("of a writer that says too much: %v", err)
	}
}

func TestExposedFileIsNoticed(t *testing.T) {
	ids := open(t, "[identity.a]\nrole = \"read\"\n")
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o660: true, 0o601: true} {
		noErr(t, os.Chmod(ids.path, mode))
		expect(t, ids.Exposed() == want, "mode %o: exposed is %t", mode, !want)
	}
}

func TestSessionsEnd(t *testing.T) {
	one := "[identity.a]\nrole = \"operate\"\ntokens = [\"" + sha("one") + "\"]\n"
	ids := open(t, one)
	s := NewSessions(ids)
	start := time.Unix(1e9, 0)
	if _, c := s.Begin(token("wrong"), start); c != nil || len(s.open) != 0 {
		t.Fatal("a wrong token begins a session")
	}
	begin := func() string {
		t.Helper()
		id, c := s.Begin(token("one"), start)
		require(t, c.Name() == "a" && len(id) >= 40, "%q %v", id, c)
		return id
	}
	id, other := begin(), begin()
	require(t, id != other, "two sessions have one id")
	for _, bad := range []string{"", token("one"), id[:len(id)-1], id + "A"} {
		expect(t, s.Find(bad, start) == nil, "%q is taken for a session", bad)
	}
	expect(t, s.Find(id, start.Add(SessionIdle)).Name() == "a", "it ended before it was idle for long")
	expect(t, s.Find(id, start.Add(2*SessionIdle)) != nil, "to use it did not keep it")
	expect(t, s.Find(other, start.Add(SessionIdle+1)) == nil && len(s.open) == 1, "an idle one goes on")
	s.End(id)
	expect(t, s.Find(id, start.Add(2*SessionIdle)) == nil, "one that was ended goes on")
	id = begin()
	noErr(t, reload(t, ids, strings.Replace(one, sha("one"), sha("two"), 1)))
	expect(t, s.Find(id, start) == nil, "it outlives its token")
	_, c := s.Begin(token("two"), start)
	require(t, c != nil, "no session for the new token")
}

// TestLoginsEndNoSessionOfAnotherToken, but the session of the same token that was idle for longest.
func TestLoginsEndNoSessionOfAnotherToken(t *testing.T) {
	ids := open(t, "[identity.boss]\nrole = \"admin\"\ntokens = [\""+sha("one")+"\"]\n[identity.reader]\nrole = \"read\"\ntokens = [\""+sha("two")+"\"]\n")
	s := NewSessions(ids)
	now := time.Now()
	boss, _ := s.Begin(token("one"), now)
	idle, _ := s.Begin(token("two"), now)
	used, _ := s.Begin(token("two"), now)
	for i := range 10_000 {
		now = now.Add(time.Millisecond)
		if i%(sessionsMax/2) == 0 {
			s.Find(used, now)
		}
		s.Begin(token("two"), now)
	}
	for id, want := range map[string]bool{boss: true, used: true, idle: false} {
		got := s.Find(id, now) != nil
		expect(t, got == want, "a session is alive: %t, want %t", got, want)
	}
	expect(t, len(s.open) == sessionsMax+1, "%d sessions are kept", len(s.open))
	s.Begin(token("one"), now.Add(SessionIdle+time.Second))
	expect(t, len(s.open) == 1, "%d sessions are kept that nobody used for long", len(s.open))
}

// noErr ends the test if there is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expect fails the test unless ok, but lets it continue.
func expect(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// require ends the test unless ok.
func require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}
