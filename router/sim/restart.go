package sim

import (
	"errors"
	"fmt"
	"time"

	"polystalk/router/routertest"
	"polystalk/shard/core"
)

// errDown is returned when the world's machine has stopped: the journal's disk does nothing
// more, or fails. Boot makes the world go on.
var errDown = errors.New("sim: the machine has stopped")

// boot makes the server, with what its journal holds.
func (w *world) boot() error {
	if err := w.serve(); err != nil {
		return err
	}
	d := w.D
	if w.journal != nil {
		for _, sh := range d.Shards() { // as their goroutines begin: jobs may be due
			w.tick(sh)
		}
	}
	for i := range w.loops {
		l := new(loop)
		l.Loop = d.NewLoop(func() { l.asked = true })
		l.RunAfter(func(d time.Duration) { l.later = append(l.later, w.now+core.Time(d)) })
		w.loops[i] = l
	}
	return nil
}

// serve makes the server that the clients have: whichever leads, if there are several.
func (w *world) serve() (err error) {
	if w.lead != nil {
		w.D, w.journal, err = w.lead()
	} else if w.D, err = w.newServer(); err == nil && w.cfg.Journal != nil {
		w.journal, err = w.D.Keep(w.noted)
		if err != nil {
			w.stopped(err)
			return w.down
		}
	}
	return err
}

// newServer makes one that has the world's time.
func (w *world) newServer() (*routertest.Driven, error) {
	d, err := routertest.New(w.cfg, w.Now)
	if err == nil {
		d.SetDay(w.day)
	}
	return d, err
}

// noted is the time that journals note.
func (w *world) noted() time.Time { return time.Unix(0, int64(w.day())) }

// reboot ends the process, as by kill -9 or with its machine, and begins another one on what
// the journal's disk has. All connections break; input and output in flight is lost. It returns
// the error of reading the journal; the machine is then down again.
func (w *world) reboot() error {
	for _, k := range w.socks {
		k.broken, k.sent = true, nil
	}
	w.socks, w.owned = nil, nil
	if w.operator != nil {
		w.operator.end()
		w.operator = nil
	}
	w.D.Close()
	w.journal, w.down = nil, nil
	return w.boot()
}

// Down is ErrDown with its reason once the machine has stopped, else nil.
func (w *world) Down() error { return w.down }

// stopped notes that the machine has stopped, if err says so.
func (w *world) stopped(err error) {
	if err != nil && w.down == nil {
		w.down = fmt.Errorf("%w: %w", errDown, err)
	}
}

// keep does one thing that a journal's goroutines would.
func (w *world) keep() {
	switch {
	case w.down != nil:
	case w.rng.IntN(2) == 0:
		w.stopped(w.journal.Commit())
	case len(w.owned) == 0: // a compaction waits for the shards that it visits
		w.stopped(w.journal.Tend())
	}
}

// toKeep is what the journal's goroutines would do before the world comes to rest.
func (w *world) toKeep() (todo []func()) {
	if w.journal == nil {
		return nil
	}
	if w.journal.Requested() {
		todo = append(todo, func() { w.stopped(w.journal.Commit()) })
	}
	if w.journal.Untended() && len(w.owned) == 0 {
		todo = append(todo, func() { w.stopped(w.journal.Tend()) })
	}
	return todo
}

// tendUnasked does what a journal's keeper does now and then, without a request.
func (w *world) tendUnasked() { w.stopped(w.journal.Tend()) }

// day returns the world's time of day. Only dates depend on it.
func (w *world) day() core.Time { return w.now + w.ahead }

// setClock sets the machine's clock, now and then, to anything within a day.
func (w *world) setClock() {
	if !w.steady && w.clock.IntN(16) == 0 {
		w.ahead = core.Time(w.clock.Int64N(int64(48*time.Hour))) - core.Time(24*time.Hour)
	}
}
