//go:build linux

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// fill puts jobs until the disk is full, and returns their ids.
func fill(t *testing.T, c *conversation.Client, size int) (ids []uint64) {
	t.Helper()
	put := fmt.Sprintf("put 5 0 1000 %d\r\n%s\r\n", size, strings.Repeat("f", size))
	for range 100_000 {
		reply := daemon.MustAsk(t, c, "%s", put)
		var id uint64
		if reply == "OUT_OF_MEMORY\r\n" {
			return ids
		}
		if _, err := fmt.Sscanf(reply, "INSERTED %d\r\n", &id); err != nil {
			t.Fatalf("put: %q", reply)
		}
		ids = append(ids, id)
	}
	t.Fatal("the disk is never full")
	return nil
}

// accepted puts jobs until the server accepts one.
func accepted(t *testing.T, c *conversation.Client) (id uint64) {
	t.Helper()
	for end := time.Now().Add(daemon.Hang); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		reply := daemon.MustAsk(t, c, "put 5 0 1000 4\r\nmore\r\n")
		if reply == "OUT_OF_MEMORY\r\n" {
			continue
		}
		if _, err := fmt.Sscanf(reply, "INSERTED %d\r\n", &id); err != nil {
			t.Fatalf("put: %q", reply)
		}
		return id
	}
	t.Fatal("space came back, but puts are refused")
	return 0
}

// TestFullDisk: commands that need space are refused before they change anything, commands that
// free space work, also after a restart, and with free space all commands work again. The simulators
// of package shard/wal and the fault harness know more disks.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := daemon.SmallDisk(t, 6<<20)
	s := startLogged(t, dir, "-s", "300000")
	c := s.Client()
	for id := uint64(1); id <= 3; id++ {
		daemon.Expect(t, c, "put 5 0 1000 4\r\nlive\r\n", fmt.Sprintf("INSERTED %d\r\n", id))
	}
	daemon.Expect(t, c, "reserve-job 2\r\n", "RESERVED 2 4\r\nlive\r\n")
	daemon.Expect(t, c, "bury 2 9\r\n", "BURIED\r\n")
	daemon.Expect(t, c, "reserve-job 1\r\n", "RESERVED 1 4\r\nlive\r\n")
	filler := filepath.Join(dir, "filler")
	must(t, os.WriteFile(filler, make([]byte, 2<<20), 0o600))
	ids := fill(t, c, 3000)
	last := ids[len(ids)-1]
	before := see(t, c, upTo(last))
	for _, command := range []string{
		"put 0 0 100 1\r\nx\r\n", "put 0 60 100 1\r\nx\r\n", "release 1 77 500\r\n", "release 1 77 0\r\n", "bury 1 77\r\n",
		"kick 10\r\n", "kick-job 2\r\n", "pause-tube default 1000\r\n",
	} {
		daemon.Expect(t, c, command, "OUT_OF_MEMORY\r\n")
	}
	sameJobs(t, see(t, c, upTo(last+100)), before)
	daemon.Expect(t, c, "touch 1\r\n", "TOUCHED\r\n") // it is still reserved by this connection
	daemon.Expect(t, c, "delete 1\r\n", "DELETED\r\n")
	must(t, os.Remove(filler)) // another program frees space
	more := accepted(t, c)
	daemon.Expect(t, c, "kick-job 2\r\n", "KICKED\r\n")
	ids = append(ids, fill(t, c, 3000)...)
	last = ids[len(ids)-1]
	before = see(t, c, upTo(last))
	s.Crash()
	s = startLogged(t, dir, "-s", "300000")
	c = s.Client()
	sameJobs(t, see(t, c, upTo(last+100)), before)
	for _, id := range ids { // deletes free space: every job can be deleted
		daemon.Expect(t, c, fmt.Sprintf("delete %d\r\n", id), "DELETED\r\n")
	}
	accepted(t, c)
	if again := fill(t, c, 3000); len(again) < len(ids)/2 {
		t.Errorf("%d jobs fitted at first, after all were deleted only %d", len(ids), len(again))
	}
	if see(t, c, []uint64{more})[more] == nil {
		t.Error("a job put after the space came back is missing")
	}
}
