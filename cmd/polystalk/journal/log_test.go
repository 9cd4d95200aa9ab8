package journal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	"polystalk/shard/wal"
)

// follows is the proposer of a server that never leads.
type follows struct{}

func (follows) Propose([]byte, uint64) error { return errors.New("it does not lead") }
func (follows) End(uint64) error             { return errors.New("it does not lead") }
func (follows) Wanted() bool                 { return false }

// TestJournalOfAClustersServer: the commands show the records of the log, and skip replaced
// entries. A file that was deleted below a Floor is not missing.
func TestJournalOfAClustersServer(t *testing.T) {
	dir := t.TempDir()
	j := commit.New(commit.Options{
		Options: wal.Options{
			Disk: wal.Dir(dir), SegmentSize: wal.SegmentMin, Manual: true, Now: time.Now,
		},
		Shards:   1,
		Proposer: follows{},
		Node:     5,
	})
	_, err := j.Recover(wal.Replayer{Workers: 1, Worker: func(uint16) int { return 0 }})
	must(t, err)
	must(t, j.Open())
	put := func(id uint64, tube string, size int) []byte {
		return (&record.Job{ID: id, Tube: []byte(tube), State: record.Ready, Body: make([]byte, size)}).AppendPut(nil, core.SlotOf([]byte(tube)), 0)
	}
	first := (&record.Epoch{Node: 5, Time: 1e18, Format: record.Format}).Append(nil)
	first = (&record.Floor{Index: 1, Globals: record.Globals{HighID: 40}}).Append(first)
	e := j.Entries()
	must(t, e.Append([]wal.Entry{
		{Index: 1, Term: 1, Data: first},
		{Index: 2, Term: 1, Data: put(41, "old", 10)},
		{Index: 3, Term: 1, Kind: record.ChangeV2, Data: []byte("who")},
		{Index: 4, Term: 1, Data: put(42, "lost", 10)},
		{Index: 5, Term: 1, Data: put(43, "lost", 10)},
	}, 0))
	must(t, e.Append([]wal.Entry{{Index: 4, Term: 2, Data: put(44, "found", 10)}}, 3))
	must(t, e.Sync())
	must(t, j.Close())

	unchanged(t, dir, func() {
		out := polystalk(t, 0, "journal", "inspect", dir).stdout
		for _, want := range []string{
			"jobs: 2 (2 ready", "log: entries 1 to 4; 2 batches were replaced", "highest id: 44", "\nfound ", "\nold ",
		} {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.TrimSpace(want)) {
				t.Errorf("inspect does not say %q:\n%s", want, out)
			}
		}
		out = polystalk(t, 0, "journal", "inspect", "--records", dir).stdout
		for _, want := range []string{
			"entry index=1 term=1 committed=0 of=records bytes=0\n", "floor index=1 highest=40 imported=0\n",
			"epoch node=0000000000000005 time=2001-09-09T01:46:40.000Z format=1\n", "of=members bytes=3\n",
			"entry index=5 term=1 committed=0 of=records bytes=0 (replaced)\n", "entry index=4 term=2 committed=3 of=records bytes=0\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("the records do not say %q:\n%s", want, out)
			}
		}
		polystalk(t, 0, "journal", "verify", dir)
	})
	saved := t.TempDir()
	if out := polystalk(t, 0, "journal", "salvage", dir, saved).stdout; !strings.Contains(out, "copied: 2 jobs") || !strings.Contains(out, "continue from 45") {
		t.Errorf("salvage says %q", out)
	}
}
