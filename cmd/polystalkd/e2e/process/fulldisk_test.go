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
// free space work, and with free space all commands work again.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, policy := range [][]string{nil, {"-f", "5"}, {"-F"}} {
		t.Run("policy="+strings.Join(policy, ""), func(t *testing.T) {
			dir := daemon.SmallDisk(t, 6<<20)
			args := append([]string{"-s", "300000"}, policy...)
			s := startLogged(t, dir, args...)
			c := s.Client()
			// Jobs in each state from before the disk was full.
			for id := uint64(1); id <= 4; id++ {
				daemon.Expect(t, c, "put 5 0 1000 4\r\nlive\r\n", fmt.Sprintf("INSERTED %d\r\n", id))
			}
			daemon.Expect(t, c, "reserve-job 2\r\n", "RESERVED 2 4\r\nlive\r\n")
			daemon.Expect(t, c, "bury 2 9\r\n", "BURIED\r\n")
			daemon.Expect(t, c, "reserve-job 3\r\n", "RESERVED 3 4\r\nlive\r\n")
			daemon.Expect(t, c, "release 3 8 5000\r\n", "RELEASED\r\n")
			daemon.Expect(t, c, "reserve-job 1\r\n", "RESERVED 1 4\r\nlive\r\n")
			filler := filepath.Join(dir, "filler")
			if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			ids := fill(t, c, 3000)
			before := see(t, c, upTo(ids[len(ids)-1]))

			const full = "OUT_OF_MEMORY\r\n"
			for range 3 {
				daemon.Expect(t, c, "put 0 0 100 1\r\nx\r\n", full)
				daemon.Expect(t, c, "put 0 60 100 1\r\nx\r\n", full)
				daemon.Expect(t, c, "release 1 77 500\r\n", full)
				daemon.Expect(t, c, "release 1 77 0\r\n", full)
				daemon.Expect(t, c, "bury 1 77\r\n", full)
				daemon.Expect(t, c, "kick 10\r\n", full)
				daemon.Expect(t, c, "kick-job 2\r\n", full)
				daemon.Expect(t, c, "kick-job 3\r\n", full)
				daemon.Expect(t, c, "pause-tube default 1000\r\n", full)
			}
			sameJobs(t, see(t, c, upTo(ids[len(ids)-1]+100)), before)
			if st := fields(daemon.MustAsk(t, c, "stats-tube default\r\n")); st["pause"] != "0" {
				t.Error("the tube is paused nevertheless")
			}
			// The job is still reserved by this connection.
			daemon.Expect(t, c, "touch 1\r\n", "TOUCHED\r\n")
			daemon.Expect(t, c, "delete 1\r\n", "DELETED\r\n")
			daemon.Expect(t, c, fmt.Sprintf("reserve-job %d\r\n", ids[0]), fmt.Sprintf("RESERVED %d 3000\r\n%s\r\n", ids[0], strings.Repeat("f", 3000)))
			daemon.Expect(t, c, fmt.Sprintf("delete %d\r\n", ids[0]), "DELETED\r\n")

			// Another program frees space.
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			more := accepted(t, c)
			daemon.Expect(t, c, "kick-job 2\r\n", "KICKED\r\n")
			ids = append(ids, fill(t, c, 3000)...)

			// A restart with a full disk.
			before = see(t, c, upTo(ids[len(ids)-1]))
			c.Close()
			s.Crash()
			s = startLogged(t, dir, args...)
			c = s.Client()
			sameJobs(t, see(t, c, upTo(ids[len(ids)-1]+100)), before)

			// Deletes free space: every job can be deleted.
			for _, id := range ids[1:] {
				daemon.Expect(t, c, fmt.Sprintf("delete %d\r\n", id), "DELETED\r\n")
			}
			last := accepted(t, c)
			again := fill(t, c, 3000)
			if len(again) < len(ids)/2 {
				t.Errorf("%d jobs fitted at first, after all were deleted only %d", len(ids), len(again))
			}
			before = see(t, c, upTo(again[len(again)-1]))
			if before[more] == nil || before[last] == nil {
				t.Error("a job put after the space came back is missing")
			}
			s.Crash()
			s = startLogged(t, dir, args...)
			sameJobs(t, see(t, s.Client(), upTo(again[len(again)-1]+100)), before)
		})
	}
}
