package store

import (
	"fmt"

	"polystalk/shard/slab"
)

// A List is a list of jobs by slab index, linked through the records.
type List struct {
	Head, Tail uint32
	N          int // jobs
}

// PushBack adds job i, which is in no list.
func (l *List) PushBack(jobs *slab.Pool[Job], i uint32) {
	j := jobs.At(i)
	j.Prev, j.Next = l.Tail, 0
	if l.Tail != 0 {
		jobs.At(l.Tail).Next = i
	} else {
		l.Head = i
	}
	l.Tail = i
	l.N++
}

// Remove takes out job i, which is in l. It panics when it can see that it is not: its
// links are those of another list's only job, or of none.
func (l *List) Remove(jobs *slab.Pool[Job], i uint32) {
	j := jobs.At(i)
	if j.Prev == 0 && l.Head != i || j.Next == 0 && l.Tail != i {
		l.misses(i, j)
	}
	if j.Prev != 0 {
		jobs.At(j.Prev).Next = j.Next
	} else {
		l.Head = j.Next
	}
	if j.Next != 0 {
		jobs.At(j.Next).Prev = j.Prev
	} else {
		l.Tail = j.Prev
	}
	j.Prev, j.Next = 0, 0
	l.N--
}

//go:noinline
func (l *List) misses(i uint32, j *Job) {
	panic(fmt.Sprintf("store: job %d, record %d between %d and %d, is not in the list from %d to %d of %d jobs",
		j.ID, i, j.Prev, j.Next, l.Head, l.Tail, l.N))
}

// Check walks l and tells fail what is wrong with its links. known says whether a record is
// a job's; visit is called for each of them.
func (l *List) Check(jobs *slab.Pool[Job], known func(uint32) bool, visit func(uint32), fail func(format string, args ...any)) {
	n, prev := 0, uint32(0)
	for i := l.Head; i != 0; {
		if !known(i) || n == l.N {
			fail("record %d is no job, or the list is longer than %d", i, l.N)
			return
		}
		j := jobs.At(i)
		if j.Prev != prev {
			fail("job %d has %d before it, not %d", j.ID, j.Prev, prev)
		}
		visit(i)
		n++
		prev, i = i, j.Next
	}
	if n != l.N || l.Tail != prev {
		fail("%d jobs, tail %d; counted %d, %d", n, prev, l.N, l.Tail)
	}
}
