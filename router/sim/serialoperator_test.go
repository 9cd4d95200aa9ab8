package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

// TestManyShardsAnswerAnOperatorAsOne is TestManyShardsAnswerAsOne with an operator. Operator and
// clients act one after the other. All replies are the replies of one shard.
func TestManyShardsAnswerAnOperatorAsOne(t *testing.T) {
	did := map[string]int{}
	seeds(t, 200, func(seed uint64) error {
		s := newSerial(seed)
		for _, w := range s.worlds {
			s.operators = append(s.operators, w.newOperator())
		}
		s.cmds = did
		return s.run(150)
	})
	all := []string{"operator: lists", "operator: flushed", "operator: delete: job-reserved", "operator: set: job-moved"}
	for _, what := range []string{"delete", "kick", "bury", "release", "touch", "set"} {
		all = append(all, "operator: "+what+": ", "operator: "+what+": not-found")
	}
	wantSeen(t, did, all...)
}

// ask lets the operators of both worlds do the same, and compares their results.
func (s *serial) ask(what string, do func(o *operator, c *direct.Caller) (string, error)) (string, error) {
	s.note("operator> %s", what)
	var got [2]string
	for i, o := range s.operators {
		o.Begin(func(c *direct.Caller) (err error) {
			got[i], err = do(o, c)
			return err
		})
	}
	err := s.settle()
	if err == nil && got[0] != got[1] {
		err = fmt.Errorf("operator: %s: %q, want %q", what, got[0], got[1])
	}
	return got[0], err
}

// operate lets the operator read everything in a tube, flush it, or change a job.
func (s *serial) operate() error {
	switch s.rng.IntN(12) {
	case 0, 1, 2:
		return s.lookAt(s.name(), 1+s.rng.IntN(5))
	case 3:
		return s.flush()
	case 4:
		if s.polices {
			return s.policies()
		}
	case 5:
		if s.polices {
			return s.comparePolicies()
		}
	}
	id := uint64(s.rng.IntN(s.puts + 2))
	if list := slices.Sorted(maps.Keys(s.worlds[1].jobs())); len(list) > 0 && s.rng.IntN(4) > 0 {
		id = list[s.rng.IntN(len(list))]
	}
	if id == 0 {
		return nil
	}
	a := core.Action{
		Verb: core.Verb(1 + s.rng.IntN(6)), Force: s.rng.IntN(2) == 0, Changes: core.Changes(1 + s.rng.IntN(7)),
		Pri: uint32([]int{0, 1, 1023, 1024}[s.rng.IntN(4)]), Delay: uint32(s.rng.IntN(4)), TTR: uint32(1 + s.rng.IntN(20)),
	}
	switch a.Verb {
	case core.VerbRelease:
		a.Force = true // needed for reserved jobs
	case core.VerbKick:
		a.Force = false // not needed
	}
	word := [...]string{"", "delete", "kick", "bury", "release", "touch", "set"}[a.Verb]
	got, err := s.ask(fmt.Sprintf("%s %d %+v", word, id, a), func(o *operator, c *direct.Caller) (string, error) {
		return act(o, c, core.JobID(id), &a)
	})
	s.cmds["operator: "+word+": "+got]++
	return err
}

// flush deletes the jobs of a tube in some states.
func (s *serial) flush() error {
	f := &admin.Flush{Tube: s.name(), States: core.States(s.rng.IntN(32)) & core.StatesOf(core.Ready, core.Delayed, core.Buried)}
	got, err := s.ask(fmt.Sprintf("flush %s %b", f.Tube, f.States), func(o *operator, _ *direct.Caller) (string, error) {
		n, err := o.Admin.Flush(context.Background(), f)
		return fmt.Sprint(n.All(), err == nil), refusal(err, "not-found")
	})
	if got != "0 true" && got != "0 false" {
		s.cmds["operator: flushed"]++
	}
	return err
}

// act runs an action on a job, in one of several ways. It returns the reason of a refusal.
func act(op *operator, c *direct.Caller, id core.JobID, a *core.Action) (why string, err error) {
	ctx, o := context.Background(), op.Admin
	switch a.Verb {
	case core.VerbDelete, core.VerbKick, core.VerbBury, core.VerbRelease:
		err = o.Act(ctx, id, a.Verb, a.Force && a.Verb != core.VerbKick)
	case core.VerbSet:
		_, err = o.Edit(ctx, id, &admin.Edit{Action: *a})
	default:
		x := core.OperatorOp{Act: *a}
		c.Op().ActOnMany([]core.JobID{id}, &x)
		status := core.StatusNotFound
		if c.DoJob(id); len(x.Results) > 0 {
			status = x.Results[0]
		}
		reasons := map[core.Status]string{
			core.StatusOK: "", core.StatusNotFound: "not-found", core.StatusInUse: "job-reserved", core.StatusUnfit: "job-moved",
		}
		why, ok := reasons[status]
		if !ok {
			err = fmt.Errorf("status %d", status)
		}
		return why, err
	}
	if p, ok := errors.AsType[*wire.Problem](err); ok {
		return strings.TrimPrefix(p.Type, wire.ProblemPath), nil
	}
	return "", err
}

// lookAt compares an operator's views of a tube, in lists of at most limit jobs.
func (s *serial) lookAt(name string, limit int) error {
	show := func(o *operator, q *admin.JobQuery) (ids []uint64, err error) {
		q.Tube, q.Limit = name, limit
		if q.Order == admin.Next {
			q.Limit = 1000
		}
		at := (*admin.Place)(nil)
		for first := true; first || at != nil; first = false {
			p, err := o.Admin.Jobs(context.Background(), q, at)
			if err != nil {
				return nil, refusal(err, "not-found")
			}
			for i := range p.Rows {
				ids = append(ids, uint64(p.Rows[i].ID))
			}
			at = p.Next
		}
		return ids, nil
	}
	_, err := s.ask("lists of "+name, func(o *operator, _ *direct.Caller) (string, error) {
		ids, err := show(o, &admin.JobQuery{Order: admin.Scan})
		slices.Sort(ids)
		text := fmt.Sprint("all ", ids)
		for _, state := range []core.State{core.Ready, core.Delayed, core.Buried} {
			for _, order := range []admin.Order{admin.Next, admin.Oldest, admin.Newest} {
				list, err2 := show(o, &admin.JobQuery{Order: order, State: state})
				text, err = text+fmt.Sprint(", ", state, order, list), errors.Join(err, err2)
			}
		}
		return text, err
	})
	s.cmds["operator: lists"]++
	return err
}
