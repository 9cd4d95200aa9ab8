package operator

import (
	"fmt"
	"net/http"
	"net/url"

	wire "polystalk/codec/admin"
)

// transfer moves or copies a job of his own to a tube of his own.
func (o *Operator) transfer(verb string) func() error {
	return func() error {
		id := o.mine()
		j := o.own[id]
		if j == nil {
			return nil
		}
		to := o.pick(Tubes...)
		var is wire.Transfer
		code, _, err := o.ask("POST", jobPath(id)+"/"+verb, map[string]any{"to": to}, &is, http.StatusUnprocessableEntity)
		switch stays := verb == "move" && to == j.tube; {
		case err != nil:
			return err
		case stays != (code == http.StatusUnprocessableEntity):
			return fmt.Errorf("%s of job %d from %s to %s: %d", verb, id, j.tube, to, code)
		case stays:
			return nil
		}
		if is.From != id || o.own[is.ID] != nil || is.Tube != to {
			return fmt.Errorf("%s of job %d to %s: %+v", verb, id, to, is)
		}
		if verb == "copy" { // a move counts as no put
			o.put++
		}
		o.own[is.ID] = &job{to, j.state, j.pri}
		if verb == "move" {
			delete(o.own, id)
		}
		return nil
	}
}

// moveMany moves all jobs of one of his tubes to another.
func (o *Operator) moveMany() error {
	from, to := Tubes[0], o.pick(Tubes[1:]...)
	moved := uint64(0)
	for id, j := range o.own {
		if j.tube == from {
			delete(o.own, id)
			moved++
		}
	}
	op, err := o.operate(map[string]any{"action": "move", "select": map[string]any{"tube": from}, "to": to})
	if err != nil {
		return err
	}
	if op.Done != moved || op.Matched != moved {
		return fmt.Errorf("%d jobs from %s to %s: %+v", moved, from, to, op)
	}
	return o.learn(to)
}

// learn looks which jobs of his there are in a tube.
func (o *Operator) learn(tube string) error {
	q := url.Values{"order": {"scan"}, "limit": {"1000"}}
	for id, j := range o.own {
		if j.tube == tube {
			delete(o.own, id)
		}
	}
	for {
		var page wire.Jobs
		if _, _, err := o.ask("GET", tubePath(tube)+"/jobs?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			o.own[j.ID] = &job{tube, j.State, j.Pri}
		}
		if page.Next == "" {
			return nil
		}
		q.Set("after", page.Next)
	}
}

// flush ends all jobs of one of his tubes that are in a state.
func (o *Operator) flush() error {
	tube, state := o.pick(Tubes...), o.pick("ready", "delayed", "buried")
	var f wire.Flushed
	if _, _, err := o.ask("DELETE", tubePath(tube)+"/jobs?state="+state, nil, &f); err != nil {
		return err
	}
	n := uint64(0)
	for id, j := range o.own {
		if j.tube == tube && j.state == state {
			delete(o.own, id)
			n++
		}
	}
	if f.Jobs != n {
		return fmt.Errorf("%s of %s: %+v, want %d", state, tube, f, n)
	}
	return nil
}
