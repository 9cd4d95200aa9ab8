package ops

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Naming is what protocols think of the names of tubes. Its functions depend on the name
// alone. They are called with a shard owned and the names locked: they must not block.
type Naming struct {
	// Fold is the same for names that differ by the case of letters only, which FindFolded
	// takes for one another. It is the name itself if that has no letter to fold.
	Fold func(name string) string
	// Shown tells how many bytes a list of tubes shows a name with, and whether it is
	// foreign: a name that not every protocol can say.
	Shown func(name string) (n int, foreign bool)
}

// Tubes are the names of the server's tubes in the order that list-tubes shows: as
// created, except that the last one takes a removed one's place. Clients have
// met that order, so it is kept (source: the reference's ms.c, ms_delete).
// Shards report what comes and goes.
type Tubes struct {
	naming Naming

	n atomic.Int64 // names.n, to be read without mu

	mu      sync.Mutex // guards what follows
	names   NameList
	foreign int            // how many of them are foreign
	at      map[string]int // their positions
	most    int            // how many there were at a time since at was made
	// folded are the names that Fold changes, by what it makes of them.
	folded map[string][]string
}

// newTubes makes an empty list.
func newTubes(n Naming) *Tubes { return &Tubes{naming: n, at: make(map[string]int)} }

// TubeAdded implements core.Directory.
func (t *Tubes) TubeAdded(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, ok := t.at[name]; ok {
		panic(fmt.Sprintf("placement: tube %q is added, and is there at %d", name, i))
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
		panic(fmt.Sprintf("placement: tube %q is removed, and is not there", name))
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

// FindFolded is the name of a tube: the given one if there is such a tube, or else one that
// differs from it by the case of letters only, those without an upper case letter first.
// If there is none, it is the name that was given.
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

// shrink makes the maps anew when they hold a small part of what they once did: no map
// gives memory back by itself.
func (t *Tubes) shrink() {
	const part, least = 16, 1024
	n := t.names.n
	if t.most < least || n > t.most/part {
		return
	}
	t.most = n
	t.at = make(map[string]int, n) // maps.Clone's is as large as the old one
	for i := range n {
		t.at[t.names.At(i)] = i
	}
	if len(t.folded) == 0 {
		t.folded = nil
	}
}

// Names are the names as they are now, and whether some of them are foreign: see Naming.
func (t *Tubes) Names() (names *NameList, foreign bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names.snapshot(), t.foreign > 0
}

// Len is the number of tubes.
func (t *Tubes) Len() int { return int(t.n.Load()) }

// Check reports whether all that is known of the names fits together. It walks all of
// them, with the lock held.
func (t *Tubes) Check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	foreign, shown, folded := 0, 0, 0
	for i := range t.names.n {
		name := t.names.At(i)
		if at, ok := t.at[name]; !ok || at != i {
			return fmt.Errorf("tube %q is number %d, and is looked for at %d (%t)", name, i, at, ok)
		}
		n, isForeign := t.naming.Shown(name)
		if shown += n; isForeign {
			foreign++
		}
		if f := t.naming.Fold(name); f != name {
			if folded++; !slices.Contains(t.folded[f], name) {
				return fmt.Errorf("tube %q is not found by %q", name, f)
			}
		}
	}
	for f, same := range t.folded {
		if folded -= len(same); len(same) == 0 {
			return fmt.Errorf("nothing is folded to %q", f)
		}
	}
	if n := t.names.n; len(t.at) != n || t.Len() != n || t.foreign != foreign || t.names.shown != shown || folded != 0 {
		return fmt.Errorf("%d tubes, of which %d are foreign, shown in %d bytes: %d places, counted %d, %d and %d; %d folded names too few",
			n, foreign, shown, len(t.at), t.Len(), t.foreign, t.names.shown, folded)
	}
	return nil
}
