package cluster

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// largeJob is the size of the jobs that fill disks, in bytes.
const largeJob = 60_000

// fill puts jobs until there is no space for more, and returns their IDs.
func (n *node) fill() []string {
	n.t.Helper()
	ids := n.work(4000, largeJob, false)
	if len(ids) == 4000 {
		n.t.Fatal("the disk does not become full")
	}
	return ids
}

// withDisks returns three servers, with sizes of their disks in bytes; zero: no limit.
func withDisks(t *testing.T, sizes ...int) []*node {
	t.Helper()
	var all []*node
	for i, size := range sizes {
		n := newNode(t, fmt.Sprint("jobs", i+1))
		if size > 0 {
			n.dir = daemon.SmallDisk(t, size)
		}
		all = append(all, n)
	}
	return all
}

// A full leader refuses changes only until it has handed over to a server with space. No
// acknowledged job is lost, and every server accepts more.
func TestFullLeaderHandsOver(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := withDisks(t, 40<<20, 0, 0)
	startAll(t, all)
	put := len(all[0].fill())
	eventually(t, "another leads", func() bool {
		k := all[0].status()
		return k != nil && k.Leader != nil && *k.Leader != all[0].name
	})
	for _, n := range all {
		eventually(t, "a put is accepted at "+n.name, func() bool { return n.put("more") })
	}
	// A put that was tried again may have been accepted before, too.
	answer := ""
	eventually(t, "the number of jobs is known", func() bool { answer = all[1].ready(); return answer != "" })
	if got, err := strconv.Atoi(answer); err != nil || got < put+len(all) {
		t.Errorf("%q jobs are ready, want at least %d: %v", answer, put+len(all), err)
	}
}

// The others continue when the disk of a follower is full. The status, the log of the leader, and the
// metrics and /readyz of the server itself name the disk.
func TestFullFollowerIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := withDisks(t, 0, 0, 40<<20)
	first, small := all[0], all[2]
	first.found()
	all[1].start("--cluster-join", first.cluster)
	web := daemon.FreeAddress(t)
	small.start("--cluster-join", first.cluster, "--http", web)
	awaitVoters(t, first, 3)
	eventually(t, "the leader knows of the full disk", func() bool {
		if got := len(first.work(100, largeJob, false)); got < 100 {
			t.Fatalf("%d of 100 puts were accepted", got)
		}
		m := first.member(small.name)
		return m != nil && m.DiskFull
	})
	if m := first.member("jobs2"); m == nil || m.DiskFull {
		t.Errorf("the status of another disk is %+v", m)
	}
	if table := operate(t, "cluster", "status", "--dir", small.dir).Stdout; !strings.Contains(table, "(full)") {
		t.Errorf("status at %s:\n%s", small.name, table)
	}
	if line := first.WaitLog("the disk of another server is full: it stores no changes until there is space"); line["node"] != small.name {
		t.Errorf("the leader logs %v", line)
	}
	get := func(path string) string {
		r, err := http.Get("http://" + web + path)
		if err != nil {
			return ""
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return string(b)
	}
	eventually(t, "its metrics say so", func() bool {
		return strings.Contains(get("/metrics"), "\npolystalk_journal_pressure{state=\"full\"} 1\n")
	})
	if got := get("/readyz"); !strings.HasPrefix(got, "ok\nthe disk is full: this server stores no changes of the cluster") {
		t.Errorf("/readyz: %q", got)
	}
}

// With one of three servers dead and the disk of another one full, puts are refused in time for
// deletes to be committed, and no client waits. Then changes are accepted again.
func TestFullAndDeadServersMakeNoClientWait(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := withDisks(t, 0, 160<<20, 0) // filling takes much longer than the second in which a death is detected
	startAll(t, all)
	all[2].Crash()
	ids := all[0].fill()
	const full = "the disks of too many other servers are full: changes that need space are refused; deleting still works"
	eventually(t, "the leader refuses changes", func() bool { // it may have refused one for a moment only
		ids = append(ids, all[0].work(50, largeJob, false)...)
		return all[0].LogHas(full)
	})
	line := all[0].WaitLog(full)
	if got := fmt.Sprint(line["nodes"], line["away"]); got != "[jobs2] [jobs3]" {
		t.Errorf("full and away are %s", got)
	}
	for _, command := range []string{"put 0 0 60 1\r\nx\r\n", "peek-ready\r\n", "reserve-with-timeout 0\r\n", "delete " + ids[0] + "\r\n"} {
		begun := time.Now()
		if got := ask(all[0].queue, command); got == "" || time.Since(begun) > daemon.Hang/2 {
			t.Errorf("%q is answered %.40q after %v", command, got, time.Since(begun))
		}
	}
	all[0].remove(ids[1:])
	eventually(t, "a put is accepted", func() bool { return all[0].put("more") })
}

// A disk that is full with the server's own journal has no space for the small one that the cluster
// has by now. The log has a remedy that works.
func TestServerFullOfItsOwnJournalJoinsAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := withDisks(t, 0, 40<<20, 0)
	small := all[1]
	startAll(t, all)
	for range 3 {
		all[0].work(800, largeJob, true) // 48 MB
	}
	line := small.WaitLog("the disk has no space for the journal that this server must fetch: it stores no changes; trying again")
	remedy := fmt.Sprint(line["remedy"])
	if !strings.Contains(remedy, "polystalk cluster remove jobs2 at another server") || !strings.Contains(remedy, "--cluster-join "+all[0].cluster) && !strings.Contains(remedy, "--cluster-join "+all[2].cluster) {
		t.Fatalf("the remedy is %q", remedy)
	}
	eventually(t, "the leader shows that the disk is full", func() bool { m := all[0].member(small.name); return m != nil && m.DiskFull })
	if out := operate(t, "cluster", "transfer", "jobs2", "--dir", all[0].dir); out.Code == 0 || !strings.Contains(out.Stderr, "the disk of jobs2 is full") {
		t.Errorf("a transfer to it: %+v", out)
	}
	remove(t, small, all[0])
	small.EndsWith(fault.Removed)
	files, err := filepath.Glob(filepath.Join(small.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		os.Remove(name)
	}
	small.start("--cluster-join", all[0].cluster)
	awaitVoters(t, all[0], 3)
}
