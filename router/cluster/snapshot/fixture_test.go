package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	"polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A node is a journal with the jobs that are in it. Its goroutine is the test's.
type node struct {
	t    *testing.T
	disk wal.Disk
	j    *commit.Journal
	core *core.Core
	log  *commit.Log
	tube core.TubeID
	id   core.JobID
}

var segmentSize int64 = wal.SegmentMin

// start starts a node from what is on a disk.
func start(t *testing.T, d wal.Disk) *node {
	t.Helper()
	n := &node{t: t, disk: d, core: core.New(nil)}
	n.j = commit.New(commit.Options{
		Options: wal.Options{
			Disk: d, SegmentSize: segmentSize, Manual: true,
			Now:       func() time.Time { return time.Unix(1_700_000_000, 0) },
			Copy:      n.copyJobs,
			CopyPause: func(uint16, []byte) {},
		},
		Shards: 1,
	})
	n.log = n.j.Log(0)
	n.core.RecordTo(&n.log.Buffer)
	replay := n.core.Replay()
	_, err := n.j.Recover(wal.Replayer{
		Workers: 1, Worker: func(uint16) int { return 0 },
		Apply: func(_ int, r *record.Record) error { return replay.Apply(r) },
	})
	if err != nil {
		t.Fatal(err)
	}
	replay.Done(1)
	if err := n.j.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.core.Close)
	n.id = core.JobID(n.j.HighID())
	n.tube = n.apply(&core.Op{Kind: core.OpUse, Name: []byte("default")}).Tube
	return n
}

func (n *node) copyJobs(_ uint16, ids []uint64, after uint64) {
	n.log.Begin()
	for _, id := range ids {
		n.core.CopyJob(core.JobID(id), after)
	}
	n.log.End()
}

func (n *node) apply(op *core.Op) (r core.Reply) {
	n.log.Begin()
	n.core.Apply(2, op, &r)
	n.log.End()
	return r
}

// put puts and commits jobs of a size in bytes.
func (n *node) put(jobs, size int) {
	n.t.Helper()
	for range jobs {
		n.id++
		body := bytes.Repeat(fmt.Appendf(nil, "job %d;", n.id), size/6+1)[:size]
		if r := n.apply(&core.Op{Kind: core.OpPut, Tube: n.tube, ID: n.id, TTR: 60, Body: body}); r.Status != core.StatusOK {
			n.t.Fatalf("put: %d", r.Status)
		}
		n.commit()
	}
}

// remove deletes a job.
func (n *node) remove(id core.JobID) {
	n.t.Helper()
	if r := n.apply(&core.Op{Kind: core.OpDelete, ID: id}); r.Status != core.StatusOK {
		n.t.Fatalf("delete %d: %d", id, r.Status)
	}
	n.commit()
}

func (n *node) commit() {
	n.t.Helper()
	if err := n.j.Commit(); err != nil {
		n.t.Fatal(err)
	}
	if err := n.j.Tend(); err != nil {
		n.t.Fatal(err)
	}
}

// close ends the node.
func (n *node) close() {
	n.t.Helper()
	if err := n.j.Close(); err != nil {
		n.t.Fatal(err)
	}
}

// jobs are what a node has, the bodies by id.
func (n *node) jobs() map[core.JobID]string {
	all := map[core.JobID]string{}
	n.core.EachID(func(id core.JobID) {
		var r core.Reply
		n.core.Apply(3, &core.Op{Kind: core.OpPeek, ID: id}, &r)
		all[id] = string(r.Body)
	})
	return all
}

// jobsOf are those with which a server starts from a disk, and that it goes on.
func jobsOf(t *testing.T, d wal.Disk) map[core.JobID]string {
	t.Helper()
	n := start(t, d)
	jobs := n.jobs()
	n.put(5, 1000)
	n.close()
	return jobs
}

// same fails the test unless two nodes have the same jobs.
func same(t *testing.T, got, want map[core.JobID]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Fatalf("%d jobs, want %d: %v and %v", len(got), len(want), head(got), head(want))
	}
}

func head(jobs map[core.JobID]string) []core.JobID {
	ids := slices.Sorted(maps.Keys(jobs))
	return ids[:min(5, len(ids))]
}

// aNode is a node with several segments that has dropped some.
func aNode(t *testing.T) *node {
	n := start(t, fakedisk.New(1))
	n.put(30, 40_000)
	for id := core.JobID(1); id <= 25; id++ {
		n.remove(id)
	}
	n.put(20, 20_000)
	return n
}

// frame encodes a frame.
func frame(kind byte, body string) string {
	var b strings.Builder
	writeFrame(&b, kind, []byte(body))
	return b.String()
}
