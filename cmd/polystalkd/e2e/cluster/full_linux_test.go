package cluster

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestFullLeaderHandsOver: a leader whose disk is full refuses changes only until another leads,
// which has room; what was acknowledged is all there, and more is taken, wherever it is put.
func TestFullLeaderHandsOver(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	first := newNode(t, "jobs1")
	first.dir = daemon.SmallDisk(t, 40<<20)
	all := []*node{first, newNode(t, "jobs2"), newNode(t, "jobs3")}
	startAll(t, all)
	put := fillUp(t, first.queue)
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

// TestFullFollowerIsNamed: the disk of a server that follows is full. The others go on, and whose
// disk it is can be seen at all of them: in the status, in the log of the one that leads, and in the
// metrics of the server itself, which is ready, and says why it is not well.
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
	if table := operate(t, "cluster", "status", "--dir", small.dir).Stdout; !strings.Contains(table, "DISK-FULL") {
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

// fillUp puts jobs until there is no space for more, and says how many.
func fillUp(t *testing.T, address string) (put int) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := strings.Repeat("x", 60_000)
	for r := bufio.NewReader(c); ; put++ {
		fmt.Fprintf(c, "put 0 0 60 %d\r\n%s\r\n", len(body), body)
		switch line, err := r.ReadString('\n'); {
		case err != nil:
			t.Fatal(err)
		case line == "OUT_OF_MEMORY\r\n":
			return put
		case !strings.HasPrefix(line, "INSERTED "):
			t.Fatalf("a put is answered %q", line)
		case put > 1000:
			t.Fatal("the disk does not become full")
		}
	}
}
