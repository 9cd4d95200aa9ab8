package gearmand

import (
	"sort"
	"sync"

	"polystalk/codec/gearman"
	"polystalk/router/session"
)

// A directory lists the Gearman connections, for the command workers. Connections on any loop may
// change and read it. Only changes of listed data take the lock.
type directory struct {
	mu     sync.Mutex
	last   uint64 // number of the last connection
	newest *entry
}

// An entry is one connection in the directory, guarded by its lock. The entry of a closed
// connection keeps its link to older ones, for a reply that has reached this entry.
type entry struct {
	number       uint64
	address      string
	id           []byte
	functions    []function // newest last
	named        int        // number of the newest function
	dead         int        // functions in the list that were unregistered
	gone         bool
	newer, older *entry
}

// A function is a registered function of a connection; newer ones have higher numbers.
type function struct {
	name   string
	number int
	left   bool
}

// add adds a new connection.
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

// remove removes a closed connection.
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

// setID sets the id of a client, for SET_CLIENT_ID.
func (d *directory) setID(e *entry, id []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.id = gearman.AppendClientID(nil, id)
}

// addFunction adds a function, and returns its number for removeFunction.
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

// removeFunctions removes all functions of a connection.
func (d *directory) removeFunctions(e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.functions, e.dead = nil, 0
}

// below returns how many functions in the list have a lower number.
func (e *entry) below(number int) int {
	return sort.Search(len(e.functions), func(i int) bool { return e.functions[i].number >= number })
}

// A workersList is the progress of a reply to workers, which lists the newest connections first,
// and the newest functions of each first.
type workersList struct {
	e       *entry
	begun   bool // the line of e was begun
	before  int  // number of the last function of e that was written
	shown   bool // the head of e's line was written
	started bool

	visible func(function string) bool // nil: all are
	own     *entry                     // of the asking connection
	all     bool                       // connections are listed without a visible function too
}

// part appends the next part of the reply, and reports whether there is more. Sessions that own a
// shard may wait for the lock, so it is held only for a short time.
func (d *directory) part(dst []byte, w *workersList) (out []byte, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !w.started {
		w.started, w.e = true, d.newest
	}
	most := partNames
	if w.visible != nil {
		most /= 8
	}
	for n := 0; w.e != nil; {
		e := w.e
		if !w.begun {
			if e.gone {
				w.e = e.older
				continue
			}
			w.begun, w.before, w.shown = true, e.named+1, false
			if w.all || e == w.own {
				dst = w.head(dst)
			}
		}
		for i := e.below(w.before) - 1; i >= 0; i-- {
			if n++; n > most {
				return dst, true
			}
			f := e.functions[i]
			w.before = f.number
			if f.left || w.visible != nil && !w.visible(f.name) {
				continue
			}
			if !w.shown {
				dst = w.head(dst)
			}
			dst = gearman.AppendWorkersFunction(dst, f.name)
		}
		if w.shown {
			dst = append(dst, gearman.MsgWorkersEnd...)
		}
		w.e, w.begun = e.older, false
		if n++; n > most {
			return dst, true
		}
	}
	return append(dst, gearman.MsgEnd...), false
}

// head appends the beginning of a connection's line.
func (w *workersList) head(dst []byte) []byte {
	w.shown = true
	return gearman.AppendWorkersHead(dst, w.e.number, w.e.address, w.e.id)
}
