package core

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"polystalk/shard/slab"
)

// Check walks t, and adds each record that it finds to at. It follows no broken index.
func (t *idTable) Check(jobs *slab.Pool[Job], at map[uint32]string, that that) {
	want := uint64(1)<<bits.Len(uint(t.Size-1)) - 1
	that(t.Mask == want, "ids: mask %#x with %d buckets, want %#x", t.Mask, t.Size, want)
	that(t.N <= t.Size && (t.Size <= idTableMin || t.N >= t.Size/2) && t.Size >= idTableMin, "ids: %d buckets for %d jobs", t.Size, t.N)
	need, room := (t.Size+idChunk-1)>>idShift, 0
	that(len(t.chunks) == need || len(t.chunks) == need+1, "ids: %d blocks for %d buckets", len(t.chunks), t.Size)
	for _, chunk := range t.chunks {
		room += len(chunk)
	}
	if !that(t.Size <= room, "ids: %d buckets, room for %d", t.Size, room) {
		return
	}
	byID := make(map[JobID]bool, t.N)
	for b := range uint64(room) {
		if b >= uint64(t.Size) {
			that(*t.head(b) == 0, "ids: bucket %d is beyond %d and not empty", b, t.Size)
			continue
		}
		for i := *t.head(b); i != 0; {
			_, twice := at[i]
			if !that(!twice, "ids: record %d is in two buckets or in a ring", i) {
				break
			}
			at[i] = ""
			j := jobs.At(i)
			that(t.bucket(j.ID) == b, "ids: job %d is in bucket %d, not in %d", j.ID, b, t.bucket(j.ID))
			that(j.ID != 0 && !byID[j.ID], "ids: job %d is there twice, or has no id", j.ID)
			byID[j.ID] = true
			i = j.Hash
		}
	}
	that(len(at) == t.N && t.N == jobs.Len(), "ids: %d jobs found, %d counted, %d records in use", len(at), t.N, jobs.Len())
}

// insertID makes a job with that id and adds it.
func insertID(t *idTable, jobs *slab.Pool[Job], id JobID) uint32 {
	i, j := jobs.Alloc()
	j.ID = id
	t.insert(jobs, i, j)
	return i
}

// TestIDTableEqualsMap while it grows over the borders of several blocks, and shrinks in some
// order. It ends as small as it began.
func TestIDTableEqualsMap(t *testing.T) {
	const most = 5*idChunk + 7
	rng := rand.New(rand.NewPCG(1, 4))
	for _, order := range []func(n int) JobID{
		func(n int) JobID { return JobID(n + 1) },
		func(n int) JobID { return JobID(most - n) },
		func(n int) JobID { return JobID(n*37%most + 1) },
	} {
		var table idTable
		table.Init()
		jobs, all := slab.NewPool[Job](), map[JobID]uint32{}
		check := func(border int) {
			t.Helper()
			if at := border % idChunk; at > 2 && at < idChunk-2 && rng.IntN(300) > 0 {
				return
			}
			for id := JobID(1); id <= most+3; id++ {
				if got, j := table.find(jobs, id); got != all[id] || got != 0 && j != jobs.At(got) {
					t.Fatalf("job %d: found %d, want %d", id, got, all[id])
				}
			}
			if n := len(all); table.N != n || table.Size > max(idTableMin, 2*n+1) {
				t.Fatalf("%d jobs, counted %d, in %d buckets", n, table.N, table.Size)
			}
			table.Check(jobs, map[uint32]string{}, fails(t))
		}
		for n := range most {
			all[JobID(n+1)] = insertID(&table, jobs, JobID(n+1))
			check(n)
		}
		for n := range most {
			id := order(n)
			i := all[id]
			if !table.Remove(jobs, i, jobs.At(i)) || table.Remove(jobs, i, jobs.At(i)) {
				t.Fatalf("job %d was not there, or was there twice", id)
			}
			jobs.Free(i)
			delete(all, id)
			check(table.Size)
		}
		if table.Size != idTableMin {
			t.Errorf("an empty table keeps %d buckets", table.Size)
		}
		jobs.Close()
	}
}

// Consecutive ids, as a server gives them out, must not crowd: neither all of
// them nor every n-th, which is what one of n shards gets.
func TestIDTableSpreadsConsecutiveIDs(t *testing.T) {
	for _, stride := range []JobID{1, 2, 3, 8, 64, 4096} {
		var table idTable
		table.Init()
		jobs := slab.NewPool[Job]()
		for n := range JobID(20_000) {
			insertID(&table, jobs, 1_000_000+n*stride)
		}
		longest := 0
		for b := range uint64(table.Size) {
			n := 0
			for i := *table.head(b); i != 0; i = jobs.At(i).Hash {
				n++
			}
			longest = max(longest, n)
		}
		if longest > 12 {
			t.Errorf("stride %d: %d ids in one bucket", stride, longest)
		}
		jobs.Close()
	}
}
