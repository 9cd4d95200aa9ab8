package gearmand

import (
	"sort"
	"sync"

	"polystalk/codec/gearman"
	"polystalk/router/session"
)

// A directory lists the connections that speak Gearman, for the command workers. Any of
// them may change it and read it; only what the command shows takes the lock.
type directory struct {
	mu     sync.Mutex
	last   uint64 // number of the newest connection that ever was
	newest *entry
}

// An entry is one connection as others see it. One that is gone still leads to those that
// are older, for a list that has come as far as this one. The directory's lock guards it.
type entry struct {
	number       uint64
	address      string
	id           []byte
	functions    []function // newest last
	named        int        // functions that there ever were
	dead         int        // functions of the list that it has left
	gone         bool
	newer, older *entry
}

// A function is one of a connection; a newer one has a higher number.
type function struct {
	name   string
	number int
	left   bool
}

// add puts a new connection in.
func (d *directory) add(c session.Conn) *entry {
	e := &entry{address: peerIP(session.PeerOf(c)), id: []byte(gearman.DefaultClientID)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	e.number, e.older = d.last, d.newest
	if e.older != nil {
		e.older.newer = e
	}
	d.newest = e
	return e
}

// remove takes one out that has ended.
func (d *directory) remove(e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.gone = true
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		d.newest = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	}
	e.newer = nil
}

// setID is for SET_CLIENT_ID.
func (d *directory) setID(e *entry, id []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.id = gearman.AppendClientID(nil, id)
}

// addFunction returns the number by which removeFunction knows it.
func (d *directory) addFunction(e *entry, name string) (number int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.named++
	e.functions = append(e.functions, function{name: name, number: e.named})
	return e.named
}

func (d *directory) removeFunction(e *entry, number int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := e.below(number)
	e.functions[i] = function{number: number, left: true}
	if e.dead++; e.dead <= len(e.functions)/2 {
		return
	}
	kept := make([]function, 0, 2*(len(e.functions)-e.dead))
	for _, f := range e.functions {
		if !f.left {
			kept = append(kept, f)
		}
	}
	e.functions, e.dead = kept, 0
}

// removeFunctions removes them all.
func (d *directory) removeFunctions(e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.functions, e.dead = nil, 0
}

// below is how many of the list have a lower number.
func (e *entry) below(number int) int {
	return sort.Search(len(e.functions), func(i int) bool { return e.functions[i].number >= number })
}

// A workersList is how far the reply to workers has come: newest connections first, and
// of each the newest functions.
type workersList struct {
	e       *entry
	begun   bool // the line of e
	before  int  // number of the function of e that was written last
	started bool
}

// part appends some of the reply, and reports whether there is more. Sessions that own a
// shard wait for the lock, so it is not held for long.
func (d *directory) part(dst []byte, w *workersList) (out []byte, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !w.started {
		w.started, w.e = true, d.newest
	}
	for n := 0; w.e != nil; {
		e := w.e
		if !w.begun {
			if e.gone {
				w.e = e.older
				continue
			}
			dst = gearman.AppendWorkersHead(dst, e.number, e.address, e.id)
			w.begun, w.before = true, e.named+1
		}
		for i := e.below(w.before) - 1; i >= 0; i-- {
			if n++; n > partNames {
				return dst, true
			}
			f := e.functions[i]
			if w.before = f.number; !f.left {
				dst = gearman.AppendWorkersFunction(dst, f.name)
			}
		}
		dst = append(dst, gearman.MsgWorkersEnd...)
		w.e, w.begun = e.older, false
		if n++; n > partNames {
			return dst, true
		}
	}
	return append(dst, gearman.MsgEnd...), false
}
