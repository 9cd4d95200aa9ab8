package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/router"
)

// A reloader reads the configuration of a running server anew, and applies what can be
// applied: all of it, or nothing if anything is wrong. Its methods may be called by
// anyone, by several at a time.
type reloader struct {
	read  func() (*config.Config, error) // parses and validates the same command line again
	log   *logger
	parts []reloadable

	mu      sync.Mutex
	running []config.Setting // what is in effect
}

// A reloadable part of the server looks at a valid configuration, and returns what it does
// when every other part agrees. That cannot fail any more. errors are as of Validate.
type reloadable func(next *config.Config) (apply func(), err error)

// A reloaded is what came of reading a configuration anew.
type reloaded struct {
	Applied []config.Change // what holds from now on
	Restart []config.Change // what will hold after a restart
}

// newReloader is for a server that runs with c. What else is to be changed is added to its
// parts before it is used. Before srv has been started a reload is refused.
func newReloader(c *config.Config, read func() (*config.Config, error), srv *router.Server, log *logger) *reloader {
	r := &reloader{read: read, log: log, running: c.Settings()}
	r.parts = []reloadable{
		func(next *config.Config) (func(), error) { return func() { log.Set(next) }, nil },
		func(next *config.Config) (func(), error) {
			rc := next.Router()
			apply, err := srv.Prepare(rc.Settings())
			if err != nil {
				err = fault.New(fault.Usage, "%v: correct the value", err) // Validate has let it through
			}
			return apply, err
		},
	}
	return r
}

// reload reads anew, applies, and says both in the log. An error is all that is wrong: then
// nothing has changed.
func (r *reloader) reload() (*reloaded, error) {
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
	did := &reloaded{}
	r.running, did.Applied, did.Restart = config.Changes(r.running, next)
	for _, f := range apply {
		f()
	}
	r.tell(next, did)
	return did, nil
}

// settings are those in effect, which a reload changes as a whole.
func (r *reloader) settings() []config.Setting {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.running)
}

// prepare asks all parts.
func (r *reloader) prepare(next *config.Config) (apply []func(), err error) {
	var all fault.Faults
	for _, part := range r.parts {
		f, err := part(next)
		all = append(all, fault.All(err)...)
		apply = append(apply, f)
	}
	return apply, next.Explain(all.Err())
}

// refuse tells what is wrong.
func (r *reloader) refuse(err error) {
	all := fault.All(err)
	for _, f := range all {
		if f.Excerpt != "" {
			r.log.Error("the configuration cannot be used", "err", f, "line", f.Excerpt)
		} else {
			r.log.Error("the configuration cannot be used", "err", f)
		}
	}
	r.log.Error("nothing was changed: the server goes on with what it had", "errors", len(all))
}

// tell tells what has changed and what has not.
func (r *reloader) tell(next *config.Config, did *reloaded) {
	for _, ch := range did.Applied {
		r.log.Info("setting applied", "key", ch.Name, "from", shown(ch.From), "to", shown(ch.To), "origin", ch.Origin)
	}
	for _, ch := range did.Restart {
		r.log.Warn("setting needs a restart", "key", ch.Name, "running", shown(ch.From), "wanted", shown(ch.To), "origin", ch.Origin)
	}
	r.log.Info("the configuration was read again", "file", next.File, "applied", len(did.Applied), "need-restart", len(did.Restart))
}

// shown is a value for people.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "not set"
	case []string:
		return strings.Join(v, ", ")
	}
	return fmt.Sprint(v)
}
