package sim

import (
	"errors"
	"fmt"
	"time"

	"polystalk/router"
	"polystalk/router/routertest"
	"polystalk/shard/core"
)

// errDown is returned when the world's machine has stopped, because the journal's disk has stopped
// or failed. reboot starts it again.
var errDown = errors.New("sim: the machine has stopped")

// boot makes the server with the jobs of its journal.
func (w *world) boot() error {
	if err := w.serve(); err != nil {
		return err
	}
	d := w.D
	if w.journal != nil {
		for _, sh := range d.Shards() { // the goroutines of shards begin like this: jobs may be due
			w.tick(sh)
		}
	}
	if w.harsh {
		d.Server.Host().LimitBodies(int64(100_000 << w.rng.IntN(4)))
		d.LookAtMost(1 + w.rng.IntN(8))
	}
	for i := range w.loops {
		l := new(loop)
		l.Loop = d.NewLoop(func() { l.asked = true })
		l.RunAfter(func(d time.Duration) { l.later = append(l.later, w.now+core.Time(d)) })
		w.loops[i] = l
	}
	return nil
}

// serve makes the clients' server, or gets the leader of a cluster.
func (w *world) serve() (err error) {
	if w.lead != nil {
		w.D, w.journal, err = w.lead()
	} else if w.D, err = w.newServer(w.cfg); err == nil && w.cfg.Journal != nil {
		w.journal, err = w.D.Keep(w.noted)
		if err != nil {
			w.stopped(err)
			return w.down
		}
	}
	return err
}

// newServer makes a server with the world's time.
func (w *world) newServer(cfg router.Config) (*routertest.Driven, error) {
	return routertest.New(cfg, w.Now, w.day, func() core.Time { return 0 })
}

// noted returns the time for journals.
func (w *world) noted() time.Time { return time.Unix(0, int64(w.day())) }

// reboot ends the process, as by kill -9 or a crash of the machine, and starts another one from the
// journal's disk. All connections break; input and output in flight are lost. If the journal cannot
// be read, it returns the error, and the machine is down again.
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

// Down returns errDown with its reason if the machine has stopped, else nil.
func (w *world) Down() error { return w.down }

// stopped notes that the machine has stopped if err is not nil.
func (w *world) stopped(err error) {
	if err != nil && w.down == nil {
		w.down = fmt.Errorf("%w: %w", errDown, err)
	}
}

// keep does one step of a journal's goroutines.
func (w *world) keep() {
	switch {
	case w.down != nil:
	case w.rng.IntN(2) == 0:
		w.stopped(w.journal.Commit())
	case len(w.owned) == 0: // a compaction waits for the shards that it visits
		w.stopped(w.journal.Tend())
	}
}

// toKeep returns the pending steps of the journal's goroutines.
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

// tendUnasked does the periodic work of a journal's goroutine.
func (w *world) tendUnasked() { w.stopped(w.journal.Tend()) }

// day returns the world's time of day. Only dates depend on it.
func (w *world) day() core.Time { return w.now + w.ahead }

// setClock sometimes sets the machine's clock to a random time within a day.
func (w *world) setClock() {
	if !w.steady && w.clock.IntN(16) == 0 {
		w.ahead = core.Time(w.clock.Int64N(int64(48*time.Hour))) - core.Time(24*time.Hour)
	}
}

// pass lets d pass punctually: every timer runs when it is due, in the order of
// their times over all shards. The world must be at rest, and is at rest
// afterwards.
func (w *world) pass(d time.Duration) error {
	w.setClock()
	end := w.now + core.Time(d)
	for {
		at := end
		for _, sh := range w.D.Shards() {
			at = min(at, sh.Due())
		}
		for _, l := range w.loops {
			at = min(at, l.next())
		}
		w.now = max(w.now, at)
		if err := w.rest(); err != nil {
			return err
		}
		if w.now == end {
			return nil
		}
	}
}

// jump lets d pass without running timers.
func (w *world) jump(d time.Duration) {
	w.setClock()
	w.now += core.Time(d)
}
