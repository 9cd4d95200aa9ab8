//go:build linux

package keep

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
	"polystalk/codec/gearman"
)

// deletable deletes all of ids, and wants each to be acknowledged and room to
// come of it.
func deletable(t *testing.T, s *conversation.Server, ids []uint64) {
	t.Helper()
	c := daemon.Client(t, s)
	for some := range slices.Chunk(ids, 50) {
		var all bytes.Buffer
		for _, id := range some {
			fmt.Fprintf(&all, "delete %d\r\n", id)
		}
		fed := daemon.Feed(c, all.Bytes())
		for _, id := range some {
			if reply, err := c.Reply(conversation.Patience); string(reply) != "DELETED\r\n" {
				t.Fatalf("delete %d: %q (%v)", id, reply, err)
			}
		}
		if err := <-fed; err != nil {
			t.Fatal(err)
		}
	}
	accepted(t, c)
}

// scanned reports whether a reply has that form.
func scanned(reply, form string, to ...any) bool {
	n, err := fmt.Sscanf(reply, form, to...)
	return err == nil && n == len(to)
}

// untilTaken deletes jobs until a put is taken, and returns those that are left.
func untilTaken(t *testing.T, c *conversation.Client, ids []uint64) []uint64 {
	t.Helper()
	for i, id := range ids {
		if reply := daemon.MustAsk(t, c, "delete %d\r\n", id); reply != "DELETED\r\n" {
			t.Fatalf("delete %d: %q", id, reply)
		}
		if strings.HasPrefix(daemon.MustAsk(t, c, "put 5 0 1000 4\r\nmore\r\n"), "INSERTED ") {
			return ids[i+1:]
		}
	}
	t.Fatal("all is deleted, and no put is taken")
	return nil
}

// TestKickOfManyOnAFullDisk: one kick moves more jobs than there is room to record.
func TestKickOfManyOnAFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := daemon.SmallDisk(t, 16<<20)
	s := startKept(t, dir, "-s", "300000", "-F")
	c := daemon.Client(t, s)
	daemon.MustAsk(t, c, "use many\r\n")
	const many = 60_000
	putN(t, c, many, "put 5 10000 1000 1\r\nx\r\n")
	daemon.MustAsk(t, c, "use filler\r\n")
	ids := fill(t, c, 3000)
	// Room for little more than the kick's line.
	ids = untilTaken(t, c, ids)
	daemon.MustAsk(t, c, "use many\r\n")
	var kicked int
	if reply := daemon.MustAsk(t, c, "kick %d\r\n", many); !scanned(reply, "KICKED %d\r\n", &kicked) || kicked == 0 {
		t.Fatalf("kick: %q", reply)
	}
	deletable(t, s, ids)
	daemon.Kill(s)
	c = daemon.Client(t, startKept(t, dir, "-s", "300000", "-F"))
	st := fields(daemon.MustAsk(t, c, "stats-tube many\r\n"))
	if st["current-jobs-ready"] != fmt.Sprint(kicked) || st["current-jobs-delayed"] != fmt.Sprint(many-kicked) {
		t.Errorf("%d of %d were kicked, and %s are ready, %s delayed", kicked, many, st["current-jobs-ready"], st["current-jobs-delayed"])
	}
}

// TestLargeForegroundJoined: a background submission of no size that joins a large
// foreground job has all of that recorded.
func TestLargeForegroundJoined(t *testing.T) {
	dir := daemon.SmallDisk(t, 12<<20)
	s, gear := daemon.StartGearman(t, "-b", dir, "-s", "1048576", "--log-level", "error")
	w := daemon.DialGearman(t, gear)
	w.Created(t, gearman.SubmitJob, "f", "u", strings.Repeat("x", 8<<20))
	c := daemon.Client(t, s)
	ids := fill(t, c, 60_000)
	ids = half(t, c, ids)
	if err := w.Send([]byte(daemon.Request(gearman.SubmitJobBG, "f", "u", "x"))); err != nil {
		t.Fatal(err)
	}
	deletable(t, s, ids)
}

// TestLargeForegroundBuried: so does a bury.
func TestLargeForegroundBuried(t *testing.T) {
	dir := daemon.SmallDisk(t, 12<<20)
	s, gear := daemon.StartGearman(t, "-b", dir, "-s", "1048576", "--log-level", "error")
	w := daemon.DialGearman(t, gear)
	id := w.Created(t, gearman.SubmitJob, "f", "u", strings.Repeat("x", 8<<20))
	c, b := daemon.Client(t, s), daemon.Client(t, s)
	ids := fill(t, c, 60_000)
	daemon.MustAsk(t, b, "reserve-job %d\r\n", id)
	ids = half(t, c, ids)
	if _, err := fmt.Fprintf(b, "bury %d 1\r\n", id); err != nil {
		t.Fatal(err)
	}
	deletable(t, s, ids)
}

// TestPutsThatWereLetIn: many puts are let in while there is room, and end when there
// is none.
func TestPutsThatWereLetIn(t *testing.T) {
	dir := daemon.SmallDisk(t, 12<<20)
	s := startKept(t, dir, "-s", "1048576")
	var parked []*conversation.Client
	for range 200 {
		c := daemon.Client(t, s)
		daemon.MustAsk(t, c, "use parked\r\n")
		if _, err := fmt.Fprintf(c, "put 5 0 1000 60000\r\n%s", strings.Repeat("p", 59_999)); err != nil {
			t.Fatal(err)
		}
		parked = append(parked, c)
	}
	c := daemon.Client(t, s)
	ids := fill(t, c, 60_000)
	for _, p := range parked {
		if _, err := fmt.Fprintf(p, "p\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	deletable(t, s, ids)
}

// TestPausedTubesThatEnd: a connection leaves many paused tubes when the disk is full.
func TestPausedTubesThatEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := daemon.SmallDisk(t, 16<<20)
	s := startKept(t, dir, "-s", "300000")
	b := daemon.Client(t, s)
	var all strings.Builder
	const many = 20_000
	for i := range many {
		name := fmt.Sprintf("%s%d", strings.Repeat("t", 190), i)
		fmt.Fprintf(&all, "watch %s\r\npause-tube %s 100000\r\n", name, name)
	}
	fed := daemon.Feed(b, []byte(all.String()))
	for range 2 * many {
		if _, err := b.Reply(conversation.Patience); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	c := daemon.Client(t, s)
	ids := fill(t, c, 3000)
	b.Close()
	deletable(t, s, ids)
}

// half deletes some of the jobs and waits until a put is taken.
func half(t *testing.T, c *conversation.Client, ids []uint64) []uint64 {
	t.Helper()
	n := len(ids) / 4
	for _, id := range ids[:n] {
		daemon.MustAsk(t, c, "delete %d\r\n", id)
	}
	accepted(t, c)
	return ids[n:]
}

// TestLostWorkersWhileTheDiskIsBehind: connections drop jobs over and over on a disk
// that is nearly full, while others put and delete: the pressure comes and goes.
func TestLostWorkersWhileTheDiskIsBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := daemon.SmallDisk(t, 8<<20)
	s, gear := daemon.StartGearman(t, "-b", dir, "-s", "300000", "--gearman-retries", "2000000000", "--log-level", "error")
	c := daemon.Client(t, s)
	var workers []*daemon.GearmanConn
	for i := range 4 {
		w := daemon.DialGearman(t, gear)
		w.Created(t, gearman.SubmitJobBG, fmt.Sprint("f", i), "u", "x")
		workers = append(workers, w)
	}
	ids := fill(t, c, 3000)
	var running sync.WaitGroup
	for i, w := range workers {
		f := fmt.Sprint("f", i)
		takes := []byte(strings.Repeat(daemon.Request(gearman.CanDo, f)+daemon.Request(gearman.GrabJob)+daemon.Request(gearman.CantDo, f), 100))
		running.Go(func() { io.Copy(io.Discard, w.R) })
		running.Go(func() {
			for w.Send(takes) == nil {
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 1))
	put := fmt.Sprintf("put 5 0 1000 %d\r\n%s\r\n", 3000, strings.Repeat("f", 3000))
	for full := 0; full < 5 && len(ids) > 0; {
		reply := daemon.MustAsk(t, c, "%s", put)
		var id uint64
		if reply == "OUT_OF_MEMORY\r\n" {
			full++
			for range min(10, len(ids)) {
				k := rng.IntN(len(ids))
				if reply := daemon.MustAsk(t, c, "delete %d\r\n", ids[k]); reply != "DELETED\r\n" {
					t.Fatalf("delete %d: %q", ids[k], reply)
				}
				ids = slices.Delete(ids, k, k+1)
			}
			continue
		}
		if _, err := fmt.Sscanf(reply, "INSERTED %d\r\n", &id); err != nil {
			t.Fatalf("put: %q", reply)
		}
		ids = append(ids, id)
	}
	deletable(t, s, ids)
	for _, w := range workers {
		w.Close()
	}
	running.Wait()
}
