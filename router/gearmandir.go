package router

import (
	"cmp"
	"slices"
	"sync"

	"polystalk/codec/gearman"
)

// A gearDirectory lists the connections that speak Gearman, for the command
// workers. Only what it shows takes the lock.
type gearDirectory struct {
	mu   sync.Mutex
	last uint64
	all  map[uint64]*gearEntry
}

// A gearEntry is one connection as others see it.
type gearEntry struct {
	number    uint64
	address   string
	id        []byte
	functions []string // newest last
}

func (d *gearDirectory) add(c Conn) *gearEntry {
	e := &gearEntry{address: peerIP(peerOf(c)), id: []byte(gearman.DefaultClientID)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = make(map[uint64]*gearEntry)
	}
	d.last++
	e.number = d.last
	d.all[e.number] = e
	return e
}

func (d *gearDirectory) remove(e *gearEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, e.number)
}

func (d *gearDirectory) setID(e *gearEntry, id []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.id = gearman.AppendClientID(nil, id)
}

func (d *gearDirectory) addFunction(e *gearEntry, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.functions = append(e.functions, name)
}

func (d *gearDirectory) removeFunction(e *gearEntry, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(e.functions, name); i >= 0 {
		// A copy: the list may be being shown.
		e.functions = slices.Concat(e.functions[:i], e.functions[i+1:])
	}
}

// removeFunctions removes them all.
func (d *gearDirectory) removeFunctions(e *gearEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.functions = nil
}

// newestFirst is how the command workers lists functions.
func (e *gearEntry) newestFirst(yield func(string) bool) {
	for _, name := range slices.Backward(e.functions) {
		if !yield(name) {
			return
		}
	}
}

// list is all connections, newest first.
func (d *gearDirectory) list() []gearEntry {
	d.mu.Lock()
	entries := make([]gearEntry, 0, len(d.all))
	for _, e := range d.all {
		entries = append(entries, *e)
	}
	d.mu.Unlock()
	slices.SortFunc(entries, func(a, b gearEntry) int { return cmp.Compare(b.number, a.number) })
	return entries
}

// appendWorkers appends the reply to workers. It writes without the lock, for which
// sessions wait that own a shard.
func (d *gearDirectory) appendWorkers(dst []byte) []byte {
	for _, e := range d.list() {
		dst = gearman.AppendWorkersLine(dst, e.number, e.address, e.id, e.newestFirst)
	}
	return append(dst, gearman.MsgEnd...)
}
