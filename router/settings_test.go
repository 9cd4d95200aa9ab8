package router_test

import (
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/gearmand"
	"polystalk/shard"
)

// TestSettingsThatCannotBeUsedChangeNothing: one invalid setting prevents all changes.
func TestSettingsThatCannotBeUsedChangeNothing(t *testing.T) {
	f := newGearFixture(t)
	srv := f.d.Server
	for name, spoil := range map[string]func(*router.Settings){
		"largest job":        func(s *router.Settings) { s.MaxJobSize = 1<<30 + 1 },
		"negative":           func(s *router.Settings) { s.ConnectionMemory = -1 },
		"max connections":    func(s *router.Settings) { s.MaxConnections = -1 },
		"Gearman packet is ": func(s *router.Settings) { s.Gearman.MaxBody = 1<<30 + 1 },
		"unread":             func(s *router.Settings) { s.Gearman.MaxUnread = -1 },
	} {
		to := router.Settings{MaxJobSize: 7, MaxConnections: 7, ConnectionMemory: 1 << 40, Gearman: router.GearmanConfig{MaxBody: 7, Retries: 7}}
		spoil(&to)
		was := srv.Gearman()
		if err := applied(srv, to); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if got := srv.Gearman(); !reflect.DeepEqual(got, was) {
			t.Errorf("%s: %+v", name, got)
		}
		f.open().says("put 0 0 9 8\n12345678\n", "INSERTED 1\n")
		f.open().says("delete 1\n", "DELETED\n")
		f = newGearFixture(t)
		srv = f.d.Server
	}
}

// TestSettingsHoldForWhatComes: commands in progress keep the old settings.
func TestSettingsHoldForWhatComes(t *testing.T) {
	f := newGearFixture(t)
	set := func(size uint32, g router.GearmanConfig) {
		t.Helper()
		if err := applied(f.d.Server, router.Settings{MaxJobSize: size, Gearman: g}); err != nil {
			t.Fatal(err)
		}
	}
	under, c := f.open(), f.open()
	under.send("put 0 0 9 1000\r\n" + strings.Repeat("x", 500))
	set(10, router.GearmanConfig{MaxBody: 10, Exceptions: true, Version: "ignored", Prefix: "ignored", Verbose: "DEBUG"})
	c.says("put 0 0 9 11\n12345678901\n", "JOB_TOO_BIG\n")
	c.says("put 0 0 9 10\n1234567890\n", "INSERTED 2\n")
	under.says(strings.Repeat("x", 500)+"\n", "INSERTED 1\n")
	under.says("put 0 0 9 11\n12345678901\n", "JOB_TOO_BIG\n")
	g := f.openGear()
	g.asks("verbose\n", "OK DEBUG\n")
	g.asks("version\n", "OK 2.0.0\n")
	g.send(packet(gearman.EchoReq, "12345678901"))
	f.rest()
	if got := g.take(); !strings.Contains(got, "DATA_TOO_LARGE") || !g.closed {
		t.Errorf("above the limit: %q", got)
	}

	set(1000, router.GearmanConfig{})
	c.says("put 0 0 9 11\n12345678901\n", "INSERTED 3\n")
	set(0, router.GearmanConfig{})
	c.send("stats\r\n")
	f.rest()
	if got := c.take(); !strings.Contains(got, "\nmax-job-size: 65535\n") {
		t.Errorf("the default is not 65535: %s", got)
	}
}

// TestRetriesChangeWhileJobsWait: lost workers count even if they were lost before the limit was set.
func TestRetriesChangeWhileJobsWait(t *testing.T) {
	f := newGearFixture(t)
	client := f.openGear()
	client.asks(packet(gearman.SubmitJob, "f", "", "x"), answer(gearman.JobCreated, "H:x:1"))
	lose := func() {
		t.Helper()
		w := f.openGear()
		w.send(packet(gearman.CanDo, "f"))
		w.asks(packet(gearman.GrabJob), answer(gearman.JobAssign, "H:x:1", "f", "x"))
		w.s.Abort()
		f.rest()
	}
	lose()
	lose()
	client.hears()
	if err := applied(f.d.Server, router.Settings{Gearman: router.GearmanConfig{Retries: 3}}); err != nil {
		t.Fatal(err)
	}
	lose()
	client.hears(answer(gearman.WorkFail, "H:x:1"))
}

// TestBoundOfConnectionsChanges: a lower bound applies to connections that already exceed it.
func TestBoundOfConnectionsChanges(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4, ConnectionMemory: 1 << 40})
	srv := f.d.Server
	for _, tt := range []struct{ memory, bound int64 }{{8 << 20, 4 << 20}, {0, (1<<63 - 1) / 2}, {4 << 20, 2 << 20}} {
		if err := applied(srv, router.Settings{ConnectionMemory: tt.memory}); err != nil {
			t.Fatal(err)
		}
		if got := srv.Host().Account.Bound(); got != tt.bound {
			t.Errorf("bound %d of %d, want %d", got, tt.memory, tt.bound)
		}
	}
	srv.Host().Account.Add(3 << 20)
	<-srv.Host().Account.High()
	if err := applied(srv, router.Settings{ConnectionMemory: 2 << 20}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-srv.Host().Account.High():
	default:
		t.Error("a lower bound does not notify")
	}
	srv.Host().Account.Add(-3 << 20)
}

// TestSettingsChangeUnderLoad: clients that keep to all settings are served while the settings change.
func TestSettingsChangeUnderLoad(t *testing.T) {
	srv := serve(t, router.Config{Loops: 2, Shards: 4, MaxJobSize: 6, Gearman: router.GearmanConfig{Prefix: "H:x"}})
	var stop atomic.Bool
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop.Store(true)
	play := func(at net.Addr, says, want string) {
		k := srv.dial(at)
		k.say(says)
		k.hears(want) // it is accepted: a lower limit does not close it
		clients.Go(func() {
			for b := make([]byte, len(want)); !stop.Load(); {
				io.WriteString(k, says)
				if n, err := io.ReadFull(k.r, b); err != nil || string(b) != want {
					t.Errorf("answered %q, %v, want %q", b[:n], err, want)
					return
				}
			}
		})
	}
	play(srv.beans, "use default\r\n", "USING default\r\n")
	play(srv.beans, "put 0 0 9 100\r\n"+strings.Repeat("x", 100)+"\r\n", "JOB_TOO_BIG\r\n")
	play(srv.gears, packet(gearman.EchoReq, "123456"), answer(gearman.EchoRes, "123456"))
	play(srv.gears, packet(gearman.SubmitJobBG, "f", "same", "x"), answer(gearman.JobCreated, "H:x:1"))
	for n := range 200 {
		err := applied(srv.Server, router.Settings{
			MaxJobSize: uint32(6 + n%90), MaxConnections: 1 + n%50, ConnectionMemory: 1<<20 + int64(n),
			Gearman: router.GearmanConfig{MaxBody: uint32(100 + n), MaxUnread: 100 + n, Retries: uint32(n % 3), Wakeup: n % 2, BuryFailed: n%2 == 0, Exceptions: n%3 == 0},
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestMaxConnectionsChange: new connections above the limit are closed, connected clients stay.
func TestMaxConnectionsChange(t *testing.T) {
	srv := serve(t, router.Config{Loops: 1, Shards: 1})
	dial := func() *remote { return srv.dial(srv.beans) }
	served := func(c *remote) bool {
		t.Helper()
		_, err := io.WriteString(c, "list-tube-used\r\n")
		if err == nil {
			_, err = io.ReadFull(c.r, make([]byte, len("USING default\r\n")))
		}
		return err == nil
	}
	first, second := dial(), dial()
	if !served(first) || !served(second) {
		t.Fatal("two clients are not served")
	}
	for _, most := range []int{1, 3} {
		if err := applied(srv.Server, router.Settings{MaxConnections: most}); err != nil {
			t.Fatal(err)
		}
		if n, from := srv.ConnectionLimit(); n != most || from != "--max-connections" {
			t.Errorf("the limit is %d from %s", n, from)
		}
		if third := dial(); served(third) != (most == 3) {
			t.Errorf("of at most %d, the third is served: %v", most, most != 3)
		}
		if !served(first) || !served(second) {
			t.Errorf("at most %d: who was connected is not any more", most)
		}
	}
}

// TestAliveNamesWhatIsStuck: a shard with an owner that does not release it, and a loop in an
// endless turn.
func TestAliveNamesWhatIsStuck(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	srv := serve(t, router.Config{Loops: 2, Shards: 4})
	alive := func() error {
		time.Sleep(600 * time.Millisecond) // a result is cached for half a second
		return srv.Alive()
	}
	if err := alive(); err != nil {
		t.Error(err)
	}
	b := shard.Batch{Home: stranger{}}
	srv.Host().Clock.Stamp(&b)
	sh := srv.Host().Map.Shard(2)
	sh.OwnPatiently(&b)
	if err := alive(); err == nil || err.Error() != "the shards [2] could not be owned within 1s" {
		t.Errorf("a shard is kept: %v", err)
	}
	sh.Release(&b)

	loop := srv.Host().Loops()[1]
	loop.Enter()
	if err := alive(); err == nil || err.Error() != "the event loops [1] do not respond" {
		t.Errorf("a loop does not turn: %v", err)
	}
	loop.Exit()
	if err := alive(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestConnectionsOfSeveralDescriptors: an explicit limit holds as long as the descriptors suffice;
// else the number of descriptors is the limit.
func TestConnectionsOfSeveralDescriptors(t *testing.T) {
	srv := serve(t, router.Config{Loops: 1, Shards: 1, MaxConnections: 9})
	if n := srv.ConnectionLimitOf(2); n != 9 {
		t.Errorf("at most 9, there may be %d of two descriptors each", n)
	}
	if err := applied(srv.Server, router.Settings{}); err != nil {
		t.Fatal(err)
	}
	all, _ := srv.ConnectionLimit()
	if n := srv.ConnectionLimitOf(2); n != all/2 {
		t.Errorf("with descriptors for %d, there may be %d of two each", all, n)
	}
	if err := applied(srv.Server, router.Settings{MaxConnections: all - 1}); err != nil {
		t.Fatal(err)
	}
	if n := srv.ConnectionLimitOf(2); n != all/2 {
		t.Errorf("with descriptors for %d, and at most %d, there may be %d of two each", all, all-1, n)
	}
}

// applied applies settings to a server, unless one of them is invalid.
func applied(s *router.Server, to router.Settings) error {
	apply, err := s.Prepare(to)
	if err == nil {
		apply()
	}
	return err
}

// TestDefaultShards: the number of shards is a power of two, four to seven for each loop, and never
// more than there are slots.
func TestDefaultShards(t *testing.T) {
	for loops := 1; loops <= router.LoopsMax; loops++ {
		n := router.DefaultShards(loops)
		if n&(n-1) != 0 || n > router.ShardsMax || n < min(4*loops, router.ShardsMax) || n >= 8*loops {
			t.Fatalf("%d loops have %d shards", loops, n)
		}
	}
	c := router.Config{}.Filled()
	if want := router.DefaultLoops(); c.Loops != want || c.Shards != router.DefaultShards(want) {
		t.Errorf("%d loops and %d shards by default, want %d and %d", c.Loops, c.Shards, want, router.DefaultShards(want))
	}
}

// TestLargestBodiesAreTheSame: every body of one protocol can be a job of the other.
func TestLargestBodiesAreTheSame(t *testing.T) {
	if gearmand.MaxBodyLimit != beanstalk.MaxJobSizeLimit {
		t.Errorf("%d and %d", gearmand.MaxBodyLimit, beanstalk.MaxJobSizeLimit)
	}
}
