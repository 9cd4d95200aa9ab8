package router

import "polystalk/codec/gearman"

// A nameList is the names of tubes in the order of list-tubes. It is kept in blocks, of
// which a snapshot takes the addresses alone: a block that has been in one is copied
// before it changes. So neither has to stop for the other, however long the list is.
type nameList struct {
	blocks []*nameBlock
	n      int
	taken  uint64 // snapshots
	bytes  int    // of the names as list-tubes shows them
}

type nameBlock struct {
	names [nameBlockLen]string
	taken uint64 // the list's when it was made or copied
}

const nameBlockLen = 256

// shownLen is how long a name is in list-tubes; ours is one that only a Gearman client
// can say.
func shownLen(name string, ours bool) int {
	if ours {
		return len(gearman.AppendQuoted(nil, []byte(name)))
	}
	return len(name)
}

func (l *nameList) at(i int) string { return l.blocks[i/nameBlockLen].names[i%nameBlockLen] }

// place is where name i is to be written.
func (l *nameList) place(i int) *string {
	b := &l.blocks[i/nameBlockLen]
	if (*b).taken != l.taken {
		c := **b
		c.taken = l.taken
		*b = &c
	}
	return &(*b).names[i%nameBlockLen]
}

func (l *nameList) add(name string) {
	if l.n == len(l.blocks)*nameBlockLen {
		l.blocks = append(l.blocks, &nameBlock{taken: l.taken})
	}
	*l.place(l.n) = name
	l.n++
}

// remove has the last name take the place of name i.
func (l *nameList) remove(i int) {
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
func (l *nameList) snapshot() *nameList {
	s := *l
	s.blocks = append([]*nameBlock(nil), l.blocks...)
	l.taken++
	return &s
}
