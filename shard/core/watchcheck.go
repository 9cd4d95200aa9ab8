package core

// watchList checks a client's watch list, and adds it to who watches what.
func (k *checker) watchList(cl *client, watching map[*tube]uint32) {
	c, l := k.c, &cl.watches
	if n, long := l.byTube.Len(), len(l.list) > watchScan; long && n != len(l.list) || !long && n != 0 {
		k.fail("client %d: %d watches, %d in the index", cl.id, len(l.list), n)
		return
	}
	seen := make(map[*tube]bool, len(l.list))
	for at, i := range l.list {
		w := c.watches.At(i)
		t := c.tubes[w.tube]
		if t == nil {
			k.fail("client %d: watches tube %d, which is gone", cl.id, w.tube)
			continue
		}
		if w.client != cl.id || seen[t] || c.watchAt(cl, t) != at {
			k.fail("client %d: watch %d of tube %q is wrong", cl.id, at, t.name)
		}
		seen[t] = true
		watching[t]++
	}
}

// waits checks that a client is in the queue of each tube it watches while it
// waits, once, and otherwise in none.
func (k *checker) waits() {
	c := k.c
	queued := make(map[uint32]bool)
	for _, t := range c.tubes {
		if t == nil {
			continue
		}
		n, prev := 0, uint32(0)
		for i := t.waiters.head; i != 0; prev, i = i, c.watches.At(i).next {
			if w := c.watches.At(i); w.tube != t.id || w.prev != prev || queued[i] || !c.clientOf(i).waiting {
				k.fail("tube %q: waiter %d of client %d does not belong there", t.name, n, w.client)
				break
			}
			queued[i] = true
			n++
		}
		if n != t.waiters.n || t.waiters.tail != prev {
			k.fail("tube %q: %d wait, counted %d, or the tail is wrong", t.name, n, t.waiters.n)
		}
	}
	for _, cl := range c.clients {
		if cl == nil {
			continue
		}
		for _, i := range cl.watches.list {
			if queued[i] != cl.waiting {
				k.fail("client %d: waits: %v; queued in tube %d: %v", cl.id, cl.waiting, c.watches.At(i).tube, queued[i])
			}
			delete(queued, i)
		}
	}
	if len(queued) > 0 {
		k.fail("%d places in wait queues belong to no watch list", len(queued))
	}
}
