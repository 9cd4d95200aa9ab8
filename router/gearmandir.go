package router

import (
	"sort"
	"sync"

	"polystalk/codec/gearman"
)

// A gearDirectory lists the connections that speak Gearman, for the command
// workers. Only what it shows takes the lock.
type gearDirectory struct {
	mu     sync.Mutex
	last   uint64
	newest *gearEntry
}

// A gearEntry is one connection as others see it. One that is gone still leads to
// those that are older.
type gearEntry struct {
	number       uint64
	address      string
	id           []byte
	functions    []gearFunction // newest last
	named, dead  int            // functions that there were; those of the list that it has left
	gone         bool
	newer, older *gearEntry
}

// A gearFunction is one function of a connection; its number is higher than those of
// the connection's older ones.
type gearFunction struct {
	name   string
	number int
	left   bool
}

func (d *gearDirectory) add(c Conn) *gearEntry {
	e := &gearEntry{address: peerIP(peerOf(c)), id: []byte(gearman.DefaultClientID)}
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

func (d *gearDirectory) remove(e *gearEntry) {
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

func (d *gearDirectory) setID(e *gearEntry, id []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.id = gearman.AppendClientID(nil, id)
}

// addFunction returns the number by which removeFunction knows it.
func (d *gearDirectory) addFunction(e *gearEntry, name string) (number int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.named++
	e.functions = append(e.functions, gearFunction{name: name, number: e.named})
	return e.named
}

func (d *gearDirectory) removeFunction(e *gearEntry, number int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := e.below(number)
	e.functions[i] = gearFunction{number: number, left: true}
	if e.dead++; e.dead <= len(e.functions)/2 {
		return
	}
	kept := make([]gearFunction, 0, 2*(len(e.functions)-e.dead))
	for _, f := range e.functions {
		if !f.left {
			kept = append(kept, f)
		}
	}
	e.functions, e.dead = kept, 0
}

// removeFunctions removes them all.
func (d *gearDirectory) removeFunctions(e *gearEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.functions, e.dead = nil, 0
}

// below is how many of the list have a lower number.
func (e *gearEntry) below(number int) int {
	return sort.Search(len(e.functions), func(i int) bool { return e.functions[i].number >= number })
}

// A workersList is how far the reply to workers has come: newest connections first, and
// of each the newest functions.
type workersList struct {
	e       *gearEntry
	begun   bool // the line of e
	before  int  // number of the function of e that was written last
	started bool
}

// part appends some of the reply, and reports whether there is more. Sessions that own a
// shard wait for the lock, so it is not held for long.
func (d *gearDirectory) part(dst []byte, w *workersList) (out []byte, more bool) {
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

// workers answers the command of that name.
func (g *gearSession) workers() {
	l := g.s.loop
	w := new(workersList)
	g.s.sayList(func() (more bool) {
		l.out, more = l.srv.gearDir.part(l.out, w)
		return more
	})
}
