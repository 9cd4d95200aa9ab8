package core

import (
	"fmt"

	"polystalk/shard/slab"
)

// A List is a list of jobs by slab index, linked through the records.
type List struct {
	Head, Tail uint32
	N          uint32 // jobs
}

// pushBack adds job i, which is j and in no list.
func (l *List) pushBack(jobs *slab.Pool[Job], i uint32, j *Job) {
	j.Prev, j.Next = l.Tail, 0
	if l.Tail != 0 {
		jobs.At(l.Tail).Next = i
	} else {
		l.Head = i
	}
	l.Tail = i
	l.N++
}

// pushBehind adds job i, which is j and in no list, behind job before of l; zero: at the front.
func (l *List) pushBehind(jobs *slab.Pool[Job], before, i uint32, j *Job) {
	if before == l.Tail {
		l.pushBack(jobs, i, j)
		return
	}
	next := &l.Head
	if before != 0 {
		next = &jobs.At(before).Next
	}
	j.Prev, j.Next = before, *next
	jobs.At(*next).Prev = i
	*next = i
	l.N++
}

// Remove takes job i, which is j, out of l. It panics if the links show that the job is not in
// l: it is in no list, or it is the first or the last of another.
func (l *List) Remove(jobs *slab.Pool[Job], i uint32, j *Job) {
	prev, next := j.Prev, j.Next
	if prev != 0 {
		jobs.At(prev).Next = next
	} else {
		if l.Head != i {
			l.misses(i, j)
		}
		l.Head = next
	}
	if next != 0 {
		jobs.At(next).Prev = prev
	} else {
		if l.Tail != i {
			l.misses(i, j)
		}
		l.Tail = prev
	}
	j.Prev, j.Next = 0, 0
	l.N--
}

// sort sorts the jobs by Since; it is stable, and allocates nothing. It merges runs that are in
// order already. A list from a journal has few runs.
func (l *List) sort(jobs *slab.Pool[Job]) {
	// Sorted runs, linked only by Next. runs[k] was merged from 2^k runs, which come before the
	// runs at lower indexes.
	var runs [33]uint32
	for i := l.Head; i != 0; {
		run := i
		for {
			next := jobs.At(i).Next
			if next == 0 || jobs.At(next).Since < jobs.At(i).Since {
				jobs.At(i).Next = 0
				i = next
				break
			}
			i = next
		}
		k := 0
		for ; runs[k] != 0; k++ {
			run = merge(jobs, runs[k], run)
			runs[k] = 0
		}
		runs[k] = run
	}
	all := uint32(0)
	for _, run := range runs {
		all = merge(jobs, run, all)
	}
	l.Head, l.Tail = all, 0
	for i := all; i != 0; i = jobs.At(i).Next {
		jobs.At(i).Prev = l.Tail
		l.Tail = i
	}
}

// merge makes one run of two. Of jobs with the same moment, those in a come first.
func merge(jobs *slab.Pool[Job], a, b uint32) (first uint32) {
	last := &first
	for a != 0 && b != 0 {
		x, y := jobs.At(a), jobs.At(b)
		if y.Since < x.Since {
			*last, last, b = b, &y.Next, y.Next
		} else {
			*last, last, a = a, &x.Next, x.Next
		}
	}
	*last = a + b // one of them is zero
	return first
}

//go:noinline
func (l *List) misses(i uint32, j *Job) {
	panic(fmt.Sprintf("store: job %d, record %d between %d and %d, is not in the list from %d to %d of %d jobs",
		j.ID, i, j.Prev, j.Next, l.Head, l.Tail, l.N))
}
