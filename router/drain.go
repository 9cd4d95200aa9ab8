package router

import (
	"sync"

	"polystalk/router/session"
)

// A drain says whether new jobs are refused, for one of two reasons: somebody wants it, or the
// server, which was to end with its last job, is about to. Each may come and go without the
// other.
type drain struct {
	host *session.Host // whose Draining is kept up to date

	mu     sync.Mutex
	wanted bool // by who has called Drain, or asked by HTTP
	ending bool // the last job is gone; see awaitLastJob
}

// want has new jobs refused, or taken again as soon as nothing else is against it.
func (d *drain) want(on bool) { d.set(&d.wanted, on) }

// end says whether the server is about to end.
func (d *drain) end(on bool) { d.set(&d.ending, on) }

func (d *drain) set(reason *bool, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*reason = on
	d.host.Draining.Store(d.wanted || d.ending)
}
