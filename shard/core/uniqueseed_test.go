package core

import (
	"hash/maphash"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// Unique ids with the same bits of the unseeded hash that choose the bucket are not all in one
// bucket, where each submission would look at all.
func TestNobodyChoosesTheBucket(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{Hash: new(maphash.Hash)})
	c := w.session()
	const jobs, bits = 400, 0xFFF << 32
	for n, id := 0, JobID(1); id <= jobs; n++ {
		if u := strconv.Itoa(n); xxhash.Sum64String(u)&bits == 0 {
			c.submit("f", u, "x", 1024, true, id)
			c.submit("f", u, "x", 1024, true, id) // joins
			id++
		}
	}
	table := &w.core.submissions.unique
	for b := range uint32(table.Size) {
		n := 0
		for i := table.At(b).chain(); i != 0; i = w.core.submissions.jobs.At(i).Next {
			n++
		}
		if n > jobs/4 {
			t.Errorf("%d jobs in one of %d buckets", n, table.Size)
		}
	}
}
