package router_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/access"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// An accessFixture is a fixture with an access file.
type accessFixture struct {
	*fixture
	path string
	ids  *access.Identities
	log  bytes.Buffer
}

// tokenOf returns the token of an identity.
func tokenOf(name string) string { return name + "-0123456789-0123456789" }

// newAccessFixture makes a fixture whose file has the given rights of identities, in pairs.
func newAccessFixture(t testing.TB, shards int, rights ...string) *accessFixture {
	t.Helper()
	f := &accessFixture{path: filepath.Join(t.TempDir(), "access.toml")}
	f.write(t, rights)
	ids, err := access.Open(f.path)
	if err != nil {
		t.Fatal(err)
	}
	f.ids = ids
	f.fixture = newFixture(t, router.Config{Shards: shards, Access: ids, Gearman: router.GearmanConfig{Prefix: "H:x"}, Log: slog.New(slog.NewTextHandler(&f.log, nil))})
	return f
}

func (f *accessFixture) write(t testing.TB, rights []string) {
	t.Helper()
	var text strings.Builder
	text.WriteString("plaintext-tokens = true\n")
	for i := 0; i < len(rights); i += 2 {
		fmt.Fprintf(&text, "[identity.%s]\n%s\n", rights[i], rights[i+1])
		if rights[i] != "default" {
			fmt.Fprintf(&text, "tokens = [\"sha256:%x\"]\n", access.DigestOf(tokenOf(rights[i])))
		}
	}
	if err := os.WriteFile(f.path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// change replaces the file, and does not check the sessions.
func (f *accessFixture) change(rights ...string) {
	f.t.Helper()
	f.write(f.t, rights)
	use, err := f.ids.Prepare()
	if err != nil {
		f.t.Fatal(err)
	}
	use()
}

// reload is change, and returns how many sessions were killed.
func (f *accessFixture) reload(rights ...string) (killed int) {
	f.t.Helper()
	f.change(rights...)
	killed = -1
	f.d.Server.Host().Reauthorize(func(n int) { killed = n })
	f.rest()
	if killed < 0 {
		f.t.Fatal("the check does not end")
	}
	return killed
}

// as opens a client that has authenticated.
func (f *accessFixture) as(name string) *testConn {
	f.t.Helper()
	c := f.open()
	c.says("auth "+tokenOf(name)+"\n", "AUTHENTICATED\n")
	return c
}

const (
	mayPut  = `put = ["*"]`
	mayWork = `work = ["*"]`
	mayAll  = `role = "admin"`
)

func TestReloadDuringABodyRefusesThePut(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayPut, "ops", mayAll)
	a := f.as("a")
	a.send("put 0 0 60 10\r\ndelete ")
	if n := f.reload("a", `look = ["*"]`, "ops", mayAll); n != 0 {
		t.Errorf("%d sessions are killed", n)
	}
	a.says("1\n\nlist-tube-used\n", "UNKNOWN_COMMAND\nUSING default\n")
	f.reload("a", mayPut, "ops", mayAll)
	a.says("put 0 0 60 1\nx\n", "INSERTED 2\n") // as before, no id is given twice
	f.check()
}

// TestSubmissionThatWaitedIsCheckedByItsOwnNames, since other input has come meanwhile.
func TestSubmissionThatWaitedIsCheckedByItsOwnNames(t *testing.T) {
	both := `put = ["f", "r"]`
	for _, tt := range []struct{ rights, refused string }{{rights: both}, {`put = ["r"]`, "f"}, {`put = ["f"]`, "r"}} {
		f := newAccessFixture(t, 4, "web", both, "ops", mayAll)
		c, other, b := f.openGear(), f.openGear(), f.as("ops")
		c.asks("auth "+tokenOf("ops")+"\n", "OK\r\n")
		other.asks("auth "+tokenOf("web")+"\n", "OK\r\n")
		j, _ := f.waits(c, b)
		other.asks(packet(gearman.SubmitReduceJobBG, "f", "u", "r", "", "x"))
		f.change("web", tt.rights, "ops", mayAll)
		if tt.refused == "" {
			f.letIn(j, other, largeSize)
			other.hears(answer(gearman.JobCreated, "H:x:1"))
			continue
		}
		f.tended(j)
		f.committed(j)
		other.hears(string(gearman.AppendError(nil, gearman.ErrorNotPermitted)))
		if all := f.ids.Denials.All(); len(all) != 1 || all[0].Tube != tt.refused {
			t.Errorf("recorded is %+v, want %q", all, tt.refused)
		}
	}
}

func TestReloadEndsAWaitingReserve(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayWork, "b", mayWork, "ops", mayAll)
	ops, a, b := f.as("ops"), f.as("a"), f.as("b")
	ops.says("put 0 0 60 1\nx\n", "INSERTED 1\n")
	a.says("watch t\nreserve\nreserve\n", "WATCHING 2\nRESERVED 1 1\nx\n")
	b.says("reserve\n", "")
	if n := f.reload("a", `work = ["t"]`, "b", mayWork, "ops", mayAll); n != 1 || !a.closed {
		t.Errorf("%d sessions are killed; closed: %v", n, a.closed)
	}
	b.wants("RESERVED 1 1\nx\n")
	ops.says("use t\nput 0 0 60 1\ny\n", "USING t\nINSERTED 2\n")
	b.says("watch t\nreserve\ndelete 1\n", "WATCHING 2\nRESERVED 2 1\ny\nDELETED\n")
	f.check()
}

// TestSessionThatStaysFinishesItsJobs, also when it may not work any more.
func TestSessionThatStaysFinishesItsJobs(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayAll, "ops", mayAll)
	a := f.as("a")
	a.says("watch t\nignore default\nuse t\nput 0 0 60 1\nx\nreserve\n", "WATCHING 2\nWATCHING 1\nUSING t\nINSERTED 1\nRESERVED 1 1\nx\n")
	if n := f.reload("a", `work = ["t"]`, "ops", mayAll); n != 0 {
		t.Errorf("%d sessions are killed", n)
	}
	a.says("put 0 0 60 1\ny\nwatch default\n", "UNKNOWN_COMMAND\nUNKNOWN_COMMAND\n")
	f.check()
	b := f.as("a")
	b.says("watch t\nreserve\nrelease 1 0 0\nreserve-job 1\ndelete 1\n", "WATCHING 2\nRESERVED 1 1\nx\nRELEASED\nRESERVED 1 1\nx\nDELETED\n")
}

// TestUnprovenClientReachesNoShard, even a free one.
func TestUnprovenClientReachesNoShard(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayAll)
	for _, text := range []string{"put 0 0 60 1\nx\n", "list-tubes\n", "x\n", "use x\n", strings.Repeat("y", 500)} {
		c := f.open()
		c.says(text, "UNKNOWN_COMMAND\n")
		if !c.closed || !c.s.Gone() {
			t.Errorf("%.20q: not closed", text)
		}
	}
	idle := f.open()
	idle.send("aut")
	for i, sh := range f.d.Shards() {
		if n := sh.Counts().Clients; n != 0 {
			t.Errorf("shard %d has %d clients", i, n)
		}
	}
	f.pass(10 * core.Second)
	f.d.Server.Host().EvictUnproven()
	f.rest()
	if idle.wants(""); !idle.closed {
		t.Error("a silent client is not closed")
	}
	if n := f.d.Server.Host().Sums().Rejected[session.RejectedUnproven]; n != 6 {
		t.Errorf("%d are counted", n)
	}
	f.check()
}

func TestFirstCommandWaitsForItsTubes(t *testing.T) {
	f := newAccessFixture(t, 4, "a", mayAll)
	home := f.d.ShardOf("default")
	release := f.own(home)
	c := f.open()
	c.says("auth "+tokenOf("a")+"\nput 0 0 60 1\nx\nreserve\ndelete 1\n", "AUTHENTICATED\n")
	release()
	f.rest()
	c.wants("INSERTED 1\nRESERVED 1 1\nx\nDELETED\n")
	f.check()
}

// TestRightsOfAReloadApplyToOpenSessions: after a reload a client may put into a used tube that was
// only a name, and a nominal watch of the default tube becomes a real one.
func TestRightsOfAReloadApplyToOpenSessions(t *testing.T) {
	f := newAccessFixture(t, 4, "a", `put = ["x"]`, "b", `look = ["x"]`)
	a, b := f.as("a"), f.as("b")
	a.says("use t\nput 0 0 60 1\nx\n", "USING t\nUNKNOWN_COMMAND\n")
	b.says("reserve-with-timeout 0\n", "UNKNOWN_COMMAND\n")
	f.reload("a", mayPut, "b", mayWork)
	a.says("put 0 0 60 1\nx\nuse default\nput 0 0 60 1\ny\n", "INSERTED 1\nUSING default\nINSERTED 2\n")
	b.says("reserve-with-timeout 0\n", "RESERVED 2 1\ny\n")
	f.check()
}

// TestListKeepsItsFrameWhileTheFileChanges: a long list has several parts.
func TestListKeepsItsFrameWhileTheFileChanges(t *testing.T) {
	f := newAccessFixture(t, 4, "a", `look = ["t*", "!t1*"]`, "ops", mayAll)
	ops, want := f.as("ops"), "---\n"
	for i := range 5000 {
		name := fmt.Sprint("t", i, strings.Repeat("x", 20))
		ops.send("use " + name + "\r\nput 0 0 60 1\r\nx\r\n")
		if !strings.HasPrefix(name, "t1") {
			want += "- " + name + "\n"
		}
	}
	f.rest()
	ops.take()
	a := f.as("a")
	a.onWrite = func() {
		a.onWrite = nil
		f.change("a", mayPut, "ops", mayAll)
	}
	a.send("list-tubes\r\nlist-tube-used\r\n")
	f.rest()
	got := strings.Split(a.take(), "\r\n")
	if len(got) != 4 || got[0] != fmt.Sprintf("OK %d", len(want)) || got[1] != want || got[2] != "USING default" {
		t.Errorf("%d parts, %.40q", len(got), got)
	}
}

// TestTokensAndLongNamesAreNotLogged, and denials are counted and logged once a second.
func TestTokensAndLongNamesAreNotLogged(t *testing.T) {
	f := newAccessFixture(t, 4, "a", `look = ["x"]`)
	secret := "a-secret-token-of-a-user"
	f.open().says("auth "+secret+"\n", "UNAUTHORIZED\n")
	f.open().says("auth "+secret+" x\n", "BAD_FORMAT\n")
	f.open().says("put 0 0 60 1\n"+secret+"\n", "UNKNOWN_COMMAND\n")
	f.pass(core.Second)
	a := f.as("a")
	for range 1000 {
		a.says("put 0 0 60 1\nx\n", "UNKNOWN_COMMAND\n")
	}
	if log := f.log.String(); strings.Contains(log, secret) || strings.Contains(log, tokenOf("a")) ||
		strings.Count(log, "refused a command") != 1 || !strings.Contains(log, "identity=a verb=put tube=default") {
		t.Errorf("the log is\n%s", log)
	}
	all := f.ids.Denials.All()
	if len(all) != 1 || all[0].Count != 1000 || all[0].Verb != access.Put || all[0].Tube != "default" || all[0].Identity != "a" {
		t.Errorf("%+v", all)
	}
}

// TestHotCommandsVisitNoMoreShards: a look-up of the tube is only for jobs that the client does not hold.
func TestHotCommandsVisitNoMoreShards(t *testing.T) {
	visits := func(f *fixture, c *testConn) uint64 {
		c.says("use t\nwatch t\nignore default\n", "USING t\nWATCHING 2\nWATCHING 1\n")
		before := f.d.Server.Host().Sums().Counters[session.CountVisits]
		for i := range 10 {
			c.says(fmt.Sprintf("put 0 0 60 1\nx\nreserve\ntouch %d\ndelete %d\n", i+1, i+1), fmt.Sprintf("INSERTED %d\nRESERVED %d 1\nx\nTOUCHED\nDELETED\n", i+1, i+1))
		}
		return f.d.Server.Host().Sums().Counters[session.CountVisits] - before
	}
	f := newAccessFixture(t, 4, "a", "put = [\"*\"]\nwork = [\"*\"]")
	with := visits(f.fixture, f.as("a"))
	plain := newFixture(t, router.Config{Shards: 4})
	if without := visits(plain, plain.open()); with != without {
		t.Errorf("%d visits with an access file, %d without", with, without)
	}
}

// TestAThousandReloadsUnderLoad close no session that keeps its rights, whatever other identities
// lose, and each closes the session that lost its right.
func TestAThousandReloadsUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	rights := func(other string) []string { return []string{"a", mayAll, "b", other} }
	f := newAccessFixture(t, 1, rights(mayAll)...)
	s := serve(t, router.Config{Loops: 2, Shards: 8, Access: f.ids})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 16 {
		c := s.dial(s.beans)
		if got := c.ask("auth %s", tokenOf("a")); got != "AUTHENTICATED" {
			t.Fatal(got)
		}
		tube := fmt.Sprint("t", i)
		c.say("use " + tube + "\r\nwatch " + tube + "\r\nignore default\r\n")
		c.hears("USING " + tube + "\r\nWATCHING 2\r\nWATCHING 1\r\n")
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				c.say("put 0 0 60 1\r\nx\r\nreserve\r\nreserve-with-timeout 0\r\n")
				if put := c.line(); !strings.HasPrefix(put, "INSERTED ") {
					t.Errorf("put: %q", put)
					return
				}
				id := strings.Fields(c.line())[1]
				if c.line(); c.line() != "TIMED_OUT" || c.ask("delete %s", id) != "DELETED" {
					t.Error("reserve and delete")
					return
				}
			}
		})
	}
	for range 1000 {
		b := s.dial(s.beans)
		if got := b.ask("auth %s\r\nwatch x", tokenOf("b")) + b.line(); got != "AUTHENTICATEDWATCHING 2" {
			t.Fatal(got)
		}
		for _, other := range []string{`put = ["x"]`, mayAll} {
			f.change(rights(other)...)
			want := 0
			if other != mayAll {
				want = 1
			}
			if n, err := s.Reauthorize(t.Context()); n != want || err != nil {
				t.Fatalf("%d sessions are killed, %v; want %d", n, err, want)
			}
		}
		if _, err := b.r.ReadByte(); err == nil {
			t.Fatal("the session that lost its right is open")
		}
		b.Close()
	}
	close(stop)
	wg.Wait()
}

// BenchmarkReauthorize checks 100,000 sessions on one loop.
func BenchmarkReauthorize(b *testing.B) {
	f := newAccessFixture(b, 4, "a", `work = ["a*", "b*", "default"]`)
	for range 100_000 {
		s := f.l.Loop.Open(f.d.Server.Fronts()[0], new(nullConn))
		f.l.Loop.Input(s, []byte("auth "+tokenOf("a")+"\r\nlist-tube-used\r\n"))
	}
	f.change("a", `work = ["c*", "default"]`)
	for b.Loop() {
		killed := -1
		f.d.Server.Host().Reauthorize(func(n int) { killed = n })
		for killed < 0 {
			f.l.Loop.GoOn(true)
		}
		if killed > 0 {
			b.Fatal(killed)
		}
	}
}

// FuzzDeniedBody: no byte of a refused body is a command, however it arrives and what it says.
func FuzzDeniedBody(f *testing.F) {
	for _, body := range []string{"", "x", "quit\r\n", "put 0 0 60 1\r\nx\r\n", "use t\r\nput 0 0 60 5\r\n", "\r\n\r\n", "auth x\r\n", "\x00", strings.Repeat("stats\r\n", 40)} {
		f.Add([]byte(body), uint16(3), uint16(20), true)
		f.Add([]byte(body), uint16(30), uint16(2), false)
	}
	file := newAccessFixture(f, 4, "a", `put = ["t"]`, "ops", mayAll)
	f.Fuzz(func(t *testing.T, body []byte, cut1, cut2 uint16, watch bool) {
		file.t = t
		c := file.as("a")
		text := fmt.Appendf(nil, "use t\r\nput 0 0 60 1\r\nx\r\nuse no\r\nput 0 0 60 %d\r\n%s\r\nput 9 9 9 %d\r\n%s\r\nlist-tube-used\r\n", len(body), body, len(body), body)
		want := "USING t\r\nINSERTED {n}\r\nUSING no\r\nUNKNOWN_COMMAND\r\nUNKNOWN_COMMAND\r\nUSING no\r\n"
		if watch {
			text = append(text, "watch no\r\nput 0 0 60 1\r\nx\r\n"...)
			want += "UNKNOWN_COMMAND\r\n"
		}
		a := int(cut1) % (len(text) + 1)
		b := a + int(cut2)%(len(text)-a+1)
		for _, part := range [][]byte{text[:a], text[a:b], text[b:]} {
			if len(part) > 0 {
				c.send(string(part))
			}
		}
		file.rest()
		got := c.take()
		before, after, _ := strings.Cut(want, "{n}")
		id, rest, _ := strings.Cut(strings.TrimPrefix(got, before), "\r\n")
		if !strings.HasPrefix(got, before) || "\r\n"+rest != after || c.closed != watch {
			t.Fatalf("%q: got %q, closed %v", text, got, c.closed)
		}
		ops := file.as("ops")
		ops.says("stats-tube no\ndelete "+id+"\nstats-tube t\n", "NOT_FOUND\nDELETED\nNOT_FOUND\n")
		if !watch {
			c.s.Abort()
		}
		ops.s.Abort()
		file.check()
	})
}
