package gearmand

import (
	"hash/maphash"

	"polystalk/router/ops"
	"polystalk/shard/core"
	"polystalk/shard/listindex"
)

// An ability is a function for which the connection is a worker.
type ability struct {
	ops.Tube
	mirror   *core.Mirror
	sleepers *core.Sleepers
	number   int   // its number in the directory
	turn     int64 // order of service: the lowest is next
}

// abilities has the abilities of a connection, in no order. A long list has an index, so that
// adding, removing and serving an ability costs the same in a list of any length.
type abilities struct {
	list   []ability
	byName listindex.Index // of list, if that is longer than indexMin
	served int64           // turn of the last served ability
	added  int64           // turn of the last added ability: the lowest, so that it is next
}

// indexMin is the longest list that is searched without an index.
const indexMin = 8

func (l *abilities) hash(at int) uint64 { return maphash.String(ops.Seed, l.list[at].Name) }

// find returns the position of a function, or -1.
func (l *abilities) find(name []byte) int {
	if l.byName.Len() == 0 {
		for i := range l.list {
			if l.list[i].Name == string(name) {
				return i
			}
		}
		return -1
	}
	i := l.byName.First(maphash.Bytes(ops.Seed, name))
	for i >= 0 && l.list[i].Name != string(name) {
		i = l.byName.Next(i)
	}
	return i
}

// add adds an ability, as the next one to serve.
func (l *abilities) add(a ability) {
	l.added--
	a.turn = l.added
	l.list = append(l.list, a)
	if n := len(l.list); n > indexMin {
		for l.byName.Len() < n {
			l.byName.Add(l.hash)
		}
	}
}

// remove removes the ability at a position; the last one takes its place.
func (l *abilities) remove(at int) ability {
	a, n := l.list[at], len(l.list)-1
	switch {
	case n == indexMin:
		l.byName = listindex.Index{}
	case n > indexMin:
		l.byName.Remove(at, l.hash)
	}
	l.list[at] = l.list[n]
	l.list[n] = ability{}
	l.list = listindex.Shrink(l.list[:n])
	return a
}

// serve moves an ability behind all others.
func (l *abilities) serve(at int) {
	l.served++
	l.list[at].turn = l.served
}

// sleep adds n, 1 or -1, to the number of sleepers of each function.
func (l *abilities) sleep(n int32) {
	for i := range l.list {
		l.list[i].sleepers.Add(n)
	}
}

// best returns the position of the next function to serve, or -1, and the class of its best job.
// Among the functions with jobs of the best class, it is the one with the lowest turn. Source:
// gearmand 2.0.0, which rotates within a priority.
func (l *abilities) best() (at, class int) {
	at, class = -1, core.NumClasses
	for i := range l.list {
		k, ok := l.list[i].mirror.Load()
		if !ok {
			continue
		}
		if c := core.ClassOf(k.Pri); c < class || c == class && l.list[i].turn < l.list[at].turn {
			at, class = i, c
		}
	}
	return at, class
}
