package cluster

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestFullLeaderHandsOver: a leader whose disk is full refuses changes only until another leads,
// which has room; what was acknowledged is all there, and more is taken, wherever it is put.
func TestFullLeaderHandsOver(t *testing.T) {
	first := newNode(t, "jobs1")
	first.dir = daemon.SmallDisk(t, 40<<20)
	all := []*node{first, newNode(t, "jobs2"), newNode(t, "jobs3")}
	first.start("--cluster-new")
	for _, n := range all[1:] {
		n.start("--cluster-join", first.cluster)
	}
	awaitVoters(t, first, 3)

	put := fillUp(t, first.queue)
	eventually(t, "another leads", func() bool {
		k := first.status()
		return k != nil && k.Leader != nil && *k.Leader != first.name
	})
	for _, n := range all {
		eventually(t, "a put is taken at "+n.name, func() bool { return n.put("more") })
	}
	// A put that was tried again may have been taken before, too.
	if got, err := strconv.Atoi(all[1].ready()); err != nil || got < put+len(all) {
		t.Errorf("%d jobs are ready, want at least %d: %v", got, put+len(all), err)
	}
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
