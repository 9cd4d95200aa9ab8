package gearmand

import (
	"polystalk/router/ops"
	"polystalk/shard/core"
)

// An ability is a function for which the connection is a worker.
type ability struct {
	*core.Face
	sleepers *core.Sleepers
	number   int   // its number in the directory
	turn     int64 // order of service: the lowest is next
}

// abilities has the abilities of a connection, in no order.
type abilities struct {
	ops.NamedList[ability]
	served int64 // turn of the last served ability
	added  int64 // turn of the last added ability: the lowest, so that it is next
}

// add adds an ability, as the next one to serve.
func (l *abilities) add(a ability) {
	l.added--
	a.turn = l.added
	l.Append(a)
}

// serve moves an ability behind all others.
func (l *abilities) serve(at int) {
	l.served++
	l.List[at].turn = l.served
}

// sleep adds n, 1 or -1, to the number of sleepers of each function.
func (l *abilities) sleep(n int32) {
	for i := range l.List {
		l.List[i].sleepers.Add(n)
	}
}

// best returns the position of the next function to serve, or -1, and the class of its best job.
// Among the functions with jobs of the best class, it is the one with the lowest turn. Source:
// gearmand 2.0.0, which rotates within a priority.
func (l *abilities) best() (at, class int) {
	at, class = -1, core.NumClasses
	for i := range l.List {
		k, ok := l.List[i].Load()
		if !ok {
			continue
		}
		if c := core.ClassOf(k.Pri); c < class || c == class && l.List[i].turn < l.List[at].turn {
			at, class = i, c
		}
	}
	return at, class
}
