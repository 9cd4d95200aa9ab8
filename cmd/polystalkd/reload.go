package main

import (
	"strings"
	"sync"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	wire "polystalk/codec/admin"
	"polystalk/router"
)

// A reloader reads the configuration of a running server again. It applies all live settings,
// or nothing if there is a fault. Its methods may be called concurrently.
type reloader struct {
	read  func() (*config.Config, error) // parses and validates the same command line again
	log   *logger
	parts []reloadable

	mu      sync.Mutex
	running []config.Setting // settings in effect
	closed  int              // connections that the last change of the access file has closed
}

// A reloadable is a part of the server that checks a valid configuration. It returns a function
// that applies it, which is called only if no part returns an error. Errors are like Validate's.
type reloadable func(next *config.Config) (apply func(), err error)

// newReloader returns the reloader of a server that runs with c. The caller adds further
// parts before the first use. A reload is refused until srv has been started.
func newReloader(c *config.Config, read func() (*config.Config, error), srv *router.Server, log *logger) *reloader {
	r := &reloader{read: read, log: log, running: c.Settings()}
	r.parts = []reloadable{
		func(next *config.Config) (func(), error) { return func() { log.Set(next) }, nil },
		func(next *config.Config) (func(), error) {
			rc := next.Router()
			apply, err := srv.Prepare(rc.Settings())
			if err != nil {
				err = fault.New(fault.Usage, "%v: correct the value", err) // Validate did not find it
			}
			return apply, err
		},
	}
	return r
}

// reload reads the configuration, applies it and logs the result. If it returns an error, the
// error has all faults, and nothing has changed.
func (r *reloader) reload() (*wire.Reloaded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.read()
	if next != nil {
		err = next.Explain(err)
	}
	var apply []func()
	if err == nil {
		apply, err = r.prepare(next)
	}
	if err != nil {
		r.refuse(err)
		return nil, err
	}
	for _, w := range next.Warnings {
		r.log.Warn(w)
	}
	var did *wire.Reloaded
	r.running, did = config.Changes(r.running, next)
	r.closed = 0
	for _, f := range apply {
		f()
	}
	did.Closed = r.closed
	r.tell(next, did)
	return did, nil
}

// settings returns the settings in effect in the form of the API. A reload replaces all of them at
// once.
func (r *reloader) settings() (list []wire.Setting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.running {
		shown := wire.Setting{Name: s.Name, Origin: s.Origin}
		if s.Value != nil {
			shown.Value = s.Text()
		}
		list = append(list, shown)
	}
	return list
}

// prepare calls all parts.
func (r *reloader) prepare(next *config.Config) (apply []func(), err error) {
	var all fault.Faults
	for _, part := range r.parts {
		f, err := part(next)
		all = append(all, fault.All(err)...)
		apply = append(apply, f)
	}
	return apply, next.Explain(all.Err())
}

// refuse logs the faults of err.
func (r *reloader) refuse(err error) {
	all := fault.All(err)
	for _, f := range all {
		if f.Excerpt != "" {
			r.log.Error("the configuration cannot be used", "err", f, "line", f.Excerpt)
		} else {
			r.log.Error("the configuration cannot be used", "err", f)
		}
	}
	r.log.Error("nothing was changed: the old configuration stays in effect", "errors", len(all))
}

// tell logs the settings that were applied and the ones that need a restart.
func (r *reloader) tell(next *config.Config, did *wire.Reloaded) {
	for _, ch := range did.Applied {
		r.log.Info("setting applied", "key", ch.Name, "from", ch.From, "to", ch.To, "origin", ch.Origin)
	}
	for _, ch := range did.Restart {
		r.log.Warn("setting needs a restart", "key", ch.Name, "running", ch.From, "wanted", ch.To, "origin", ch.Origin)
	}
	r.log.Info("the configuration was read again", "file", next.File, "applied", len(did.Applied), "need-restart", len(did.Restart))
}

// reloadForOperators is reload with an error for the API.
func (r *reloader) reloadForOperators() (*wire.Reloaded, error) {
	did, err := r.reload()
	var lines []string
	for _, f := range fault.All(err) {
		lines = append(lines, strings.TrimSuffix(f.Error()+"; the line: "+f.Excerpt, "; the line: "))
	}
	if lines != nil {
		return nil, wire.BadConfiguration.Problem(strings.Join(lines, "\n"))
	}
	return did, nil
}
