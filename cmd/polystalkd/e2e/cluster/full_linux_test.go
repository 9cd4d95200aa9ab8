package cluster

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/admin"
)

// A full leader refuses changes only until it has handed over to a server with room. No
// acknowledged job is lost, and every server takes more.
func TestFullLeaderHandsOver(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	first := newNode(t, "jobs1")
	first.dir = daemon.SmallDisk(t, 40<<20)
	all := []*node{first, newNode(t, "jobs2"), newNode(t, "jobs3")}
	startAll(t, all)
	put := len(fillUp(t, first.queue))
	eventually(t, "another leads", func() bool {
		k := first.status()
		return k != nil && k.Leader != nil && *k.Leader != first.name
	})
	for _, n := range all {
		eventually(t, "a put is taken at "+n.name, func() bool { return n.put("more") })
	}
	// A put that was tried again may have been taken before, too.
	answer := ""
	eventually(t, "it is said how many jobs there are", func() bool { answer = all[1].ready(); return answer != "" })
	if got, err := strconv.Atoi(answer); err != nil || got < put+len(all) {
		t.Errorf("%q jobs are ready, want at least %d: %v", answer, put+len(all), err)
	}
}

// The others go on when the disk of a follower is full. The status, the log of the leader, and the
// metrics and /readyz of the server itself name the disk.
func TestFullFollowerIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	first, small := newNode(t, "jobs1"), newNode(t, "jobs3")
	small.dir = daemon.SmallDisk(t, 40<<20)
	first.start("--cluster-new")
	newNode(t, "jobs2").start("--cluster-join", first.cluster)
	web := daemon.FreeAddress(t)
	small.start("--cluster-join", first.cluster, "--http", web)
	awaitVoters(t, first, 3)

	c, err := net.Dial("tcp", first.queue)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body, r := strings.Repeat("x", 60_000), bufio.NewReader(c)
	full := func() (names []string) {
		if k := first.status(); k != nil {
			for _, m := range k.Members {
				if m.DiskFull {
					names = append(names, m.Name)
				}
			}
		}
		return names
	}
	eventually(t, "the leader knows of the full disk", func() bool {
		for range 100 {
			fmt.Fprintf(c, "put 0 0 60 %d\r\n%s\r\n", len(body), body)
			if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "INSERTED ") {
				t.Fatalf("a put is answered %q, %v", line, err)
			}
		}
		return len(full()) > 0
	})
	if got := full(); len(got) != 1 || got[0] != small.name {
		t.Errorf("full are said to be the disks of %v", got)
	}
	if table := operate(t, "cluster", "status", "--dir", small.dir).Stdout; !strings.Contains(table, "(full)") {
		t.Errorf("status at %s:\n%s", small.name, table)
	}
	eventually(t, "the leader's log names it", func() bool {
		return strings.Contains(first.LogText(), `"msg":"the disk of another server is full: it does not keep what the others do before there is space","node":"jobs3"`)
	})
	eventually(t, "its metrics say so", func() bool {
		return strings.Contains(get(web, "/metrics"), "\npolystalk_journal_pressure{state=\"full\"} 1\n")
	})
	if got := get(web, "/readyz"); !strings.HasPrefix(got, "ok\nthe disk is full: this server does not keep what the others do") {
		t.Errorf("/readyz: %q", got)
	}
}

// get is what a server answers by HTTP; empty: it does not.
func get(address, path string) string {
	r, err := http.Get("http://" + address + path)
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	return string(b)
}

// TestDeletesPassWhileTheOnlyServerLeftIsFull: with one of three servers dead and the disk of another
// one full, puts are refused in time for deletes to be committed. Changes are taken again then.
func TestDeletesPassWhileTheOnlyServerLeftIsFull(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := []*node{newNode(t, "jobs1"), newNode(t, "jobs2"), newNode(t, "jobs3")}
	all[1].dir = daemon.SmallDisk(t, 160<<20) // filled in much more than the second in which a death is noticed
	startAll(t, all)
	all[2].Crash()
	ids := fillUp(t, all[0].queue)
	line := all[0].WaitLog("the disks of too many other servers are full: changes for which there is no space are refused; deleting goes on")
	if got := fmt.Sprint(line["nodes"], line["away"]); got != "[jobs2] [jobs3]" {
		t.Errorf("full and away are said to be %s", got)
	}
	c := daemon.Dial(t, all[0].queue)
	for _, id := range ids {
		daemon.Says(t, c, "delete "+id+"\r\n", "DELETED\r\n")
	}
	eventually(t, "a put is taken", func() bool { return all[0].put("more") })
}

// TestServerFullOfItsOwnJournalJoinsAnew: a disk that the server's own journal fills has no room for the
// small one that the cluster has by now. The log says what to do, and that works.
func TestServerFullOfItsOwnJournalJoinsAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all := []*node{newNode(t, "jobs1"), newNode(t, "jobs2"), newNode(t, "jobs3")}
	small := all[1]
	small.dir = daemon.SmallDisk(t, 40<<20)
	startAll(t, all)
	for range 3 {
		deleteAll(t, all[0], putLarge(t, all[0], 800)) // 48 MB
	}
	line := small.WaitLog("the disk has no room for the journal that this server needs beside its own: it keeps nothing of what the others do; trying again")
	remedy := fmt.Sprint(line["remedy"])
	if !strings.Contains(remedy, "polystalk cluster remove jobs2 at another server") || !strings.Contains(remedy, "--cluster-join "+all[0].cluster) && !strings.Contains(remedy, "--cluster-join "+all[2].cluster) {
		t.Fatalf("the remedy is %q", remedy)
	}
	eventually(t, "the leader shows that the disk is full", func() bool {
		k := all[0].status()
		return k != nil && slices.ContainsFunc(k.Members, func(m admin.ClusterMember) bool { return m.Name == "jobs2" && m.DiskFull })
	})
	if out := operate(t, "cluster", "transfer", "jobs2", "--dir", all[0].dir); out.Code == 0 || !strings.Contains(out.Stderr, "the disk of jobs2 is full") {
		t.Errorf("a transfer to it: %+v", out)
	}
	if out := operate(t, "cluster", "remove", "jobs2", "--dir", all[0].dir); out.Code != 0 {
		t.Fatalf("%+v", out)
	}
	small.EndsWith(int(fault.Removed))
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

// fillUp puts jobs until there is no space for more, and gives their ids.
func fillUp(t *testing.T, address string) (ids []string) {
	t.Helper()
	c := daemon.Dial(t, address)
	defer c.Close()
	body := strings.Repeat("x", 60_000)
	for r := bufio.NewReader(c); len(ids) < 4000; {
		c.SetDeadline(time.Now().Add(daemon.Hang))
		fmt.Fprintf(c, "put 0 0 60 %d\r\n%s\r\n", len(body), body)
		line, err := r.ReadString('\n')
		id, ok := strings.CutPrefix(strings.TrimSpace(line), "INSERTED ")
		switch {
		case line == "OUT_OF_MEMORY\r\n":
			return ids
		case !ok:
			t.Fatalf("a put is answered %q, %v", line, err)
		}
		ids = append(ids, id)
	}
	t.Fatal("the disk does not become full")
	return nil
}

// putLarge puts jobs of 60 kB, one after the other, and returns their IDs.
func putLarge(t *testing.T, n *node, jobs int) (ids []string) {
	t.Helper()
	body := strings.Repeat("x", 60_000)
	c := daemon.Dial(t, n.queue)
	defer c.Close()
	for r := bufio.NewReader(c); len(ids) < jobs; {
		c.SetDeadline(time.Now().Add(daemon.Hang))
		fmt.Fprintf(c, "put 0 0 60 %d\r\n%s\r\n", len(body), body)
		line, err := r.ReadString('\n')
		id, ok := strings.CutPrefix(strings.TrimSpace(line), "INSERTED ")
		if !ok {
			t.Fatalf("a put is answered %q, %v", line, err)
		}
		ids = append(ids, id)
	}
	return ids
}

func deleteAll(t *testing.T, n *node, ids []string) {
	t.Helper()
	c := daemon.Dial(t, n.queue)
	defer c.Close()
	for _, id := range ids {
		daemon.Says(t, c, "delete "+id+"\r\n", "DELETED\r\n")
	}
}
