package ops

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// Naming has the protocols' rules for names of tubes. Its functions depend on the name only.
// They are called with a shard owned and the names locked, and must not block.
type Naming struct {
	// Fold returns the same result for names that differ only by the case of letters; FindFolded
	// treats them as equal. If a name has no letter to fold, Fold returns the name itself.
	Fold func(name string) string
	// Shown returns the length of a name in list-tubes. A name is foreign if not every protocol
	// can use it.
	Shown func(name string) (n int, foreign bool)
}

// Tubes has the names of the server's tubes in the order of list-tubes: as created, but the last
// name takes the place of a removed one. Clients know this order from beanstalkd (source: its ms.c,
// ms_delete). Shards report new and removed tubes.
type Tubes struct {
	naming Naming

	n atomic.Int64 // names.n, for readers without mu

	mu      sync.Mutex // guards all fields below
	names   nameList
	foreign int                 // how many names are foreign
	at      map[string]int      // positions
	most    int                 // the largest number of names since at was made
	folded  map[string][]string // names that Fold changes, by folded name
}

func newTubes(n Naming) *Tubes { return &Tubes{naming: n, at: make(map[string]int)} }

// TubeAdded implements core.Directory.
func (t *Tubes) TubeAdded(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, ok := t.at[name]; ok {
		panic(fmt.Sprintf("ops: tube %q is added, and is there at %d", name, i))
	}
	shown, foreign := t.naming.Shown(name)
	if foreign {
		t.foreign++
	}
	t.at[name] = t.names.n
	t.names.add(name)
	t.names.shown += shown
	t.most = max(t.most, t.names.n)
	t.n.Store(int64(t.names.n))
	if f := t.naming.Fold(name); f != name {
		if t.folded == nil {
			t.folded = make(map[string][]string)
		}
		t.folded[f] = append(t.folded[f], name)
	}
}

// TubeRemoved implements core.Directory.
func (t *Tubes) TubeRemoved(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.at[name]
	if !ok {
		panic(fmt.Sprintf("ops: tube %q is removed, and is not there", name))
	}
	shown, foreign := t.naming.Shown(name)
	if foreign {
		t.foreign--
	}
	n := t.names.n - 1
	t.at[t.names.At(n)] = i
	t.names.remove(i)
	t.names.shown -= shown
	delete(t.at, name)
	t.n.Store(int64(n))
	if f := t.naming.Fold(name); f != name {
		same := t.folded[f]
		same = slices.Delete(same, slices.Index(same, name), slices.Index(same, name)+1)
		if t.folded[f] = same; len(same) == 0 {
			delete(t.folded, f)
		}
	}
	t.shrink()
}

// FindFolded returns name if there is such a tube, or else the name of a tube that differs only
// by the case of letters; it prefers the name without upper case letters. If there is none, it
// returns name.
func (t *Tubes) FindFolded(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.naming.Fold(name)
	if _, ok := t.at[name]; ok {
		return name
	} else if _, ok := t.at[f]; ok {
		return f
	} else if same := t.folded[f]; len(same) > 0 {
		return same[0]
	}
	return name
}

// shrink makes new maps when the old ones are nearly empty, because a map never returns memory.
func (t *Tubes) shrink() {
	const part, least = 16, 1024
	n := t.names.n
	if t.most < least || n > t.most/part {
		return
	}
	t.most = n
	t.at = make(map[string]int, n) // maps.Clone would be as large as the old one
	for i := range n {
		t.at[t.names.At(i)] = i
	}
	if len(t.folded) == 0 {
		t.folded = nil
	}
}

// Names returns the names as they are now, and whether some are foreign: see Naming.
func (t *Tubes) Names() (names *nameList, foreign bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names.snapshot(), t.foreign > 0
}

// Len returns the number of tubes.
func (t *Tubes) Len() int { return int(t.n.Load()) }

// A nameList has the names of tubes in the order of list-tubes, in blocks. A snapshot copies only
// the addresses of the blocks, and a block is copied before it changes. So snapshots and changes are
// quick in a list of any length. A snapshot never changes, and any goroutine may read it.
type nameList struct {
	blocks []*nameBlock
	n      int
	taken  uint64 // number of snapshots
	shown  int    // see ShownBytes
}

type nameBlock struct {
	names [nameBlockLen]string
	taken uint64 // taken of the list when the block was made or copied
}

const nameBlockLen = 256

// Len returns the number of names.
func (l *nameList) Len() int { return l.n }

// At returns name number i.
func (l *nameList) At(i int) string { return l.blocks[i/nameBlockLen].names[i%nameBlockLen] }

// ShownBytes returns the length of all names in list-tubes; see Naming.
func (l *nameList) ShownBytes() int { return l.shown }

// All returns the names in their order.
func (l *nameList) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range l.n {
			if !yield(l.At(i)) {
				return
			}
		}
	}
}

// place returns where to write name i.
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

// remove moves the last name to the place of name i.
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

// snapshot returns a read-only copy of the list.
func (l *nameList) snapshot() *nameList {
	s := *l
	s.blocks = append([]*nameBlock(nil), l.blocks...)
	l.taken++
	return &s
}
