package ops

import "iter"

// A NameList is the names of tubes in the order of list-tubes. It is kept in blocks, of
// which a snapshot takes the addresses alone: a block that has been in one is copied
// before it changes. So neither has to stop for the other, however long the list is. A
// snapshot is never changed, and may be read by anyone.
type NameList struct {
	blocks []*nameBlock
	n      int
	taken  uint64 // snapshots
	shown  int    // bytes of the names as a list of tubes shows them
}

type nameBlock struct {
	names [nameBlockLen]string
	taken uint64 // the list's when it was made or copied
}

const nameBlockLen = 256

// Len is the number of names.
func (l *NameList) Len() int { return l.n }

// At is name i, from 0 on.
func (l *NameList) At(i int) string { return l.blocks[i/nameBlockLen].names[i%nameBlockLen] }

// ShownBytes is how long all names together are as a list of tubes shows them; see Naming.
func (l *NameList) ShownBytes() int { return l.shown }

// All are the names in their order.
func (l *NameList) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range l.n {
			if !yield(l.At(i)) {
				return
			}
		}
	}
}

// place is where name i is to be written.
func (l *NameList) place(i int) *string {
	b := &l.blocks[i/nameBlockLen]
	if (*b).taken != l.taken {
		c := **b
		c.taken = l.taken
		*b = &c
	}
	return &(*b).names[i%nameBlockLen]
}

func (l *NameList) add(name string) {
	if l.n == len(l.blocks)*nameBlockLen {
		l.blocks = append(l.blocks, &nameBlock{taken: l.taken})
	}
	*l.place(l.n) = name
	l.n++
}

// remove has the last name take the place of name i.
func (l *NameList) remove(i int) {
	l.n--
	last := l.place(l.n)
	*l.place(i) = *last
	*last = ""
	if used := (l.n + nameBlockLen - 1) / nameBlockLen; len(l.blocks) > used+1 {
		l.blocks[used+1] = nil
		l.blocks = l.blocks[:used+1]
	}
}

// snapshot is the list as it is now. It is only to be read.
func (l *NameList) snapshot() *NameList {
	s := *l
	s.blocks = append([]*nameBlock(nil), l.blocks...)
	l.taken++
	return &s
}
