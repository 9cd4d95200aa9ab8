package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

// TestSerialHistoriesOfAnOperatorMatchTheTwin is TestSerialHistoriesMatchTheTwin with an
// operator among the clients, which act one after the other. The operator's replies, and all
// replies after them, are the replies of one big queue.
func TestSerialHistoriesOfAnOperatorMatchTheTwin(t *testing.T) {
	did := map[string]int{}
	seeds(t, 200, func(seed uint64) error {
		s := newSerial(seed)
		s.operatorClient = s.w.newOperator()
		s.cmds = did
		return s.run(150)
	})
	all := []string{"operator: lists", "operator: flushed", "operator: delete: job-reserved", "operator: set: job-moved"}
	for _, what := range []string{"delete", "kick", "bury", "release", "touch", "set"} {
		all = append(all, "operator: "+what+": ", "operator: "+what+": not-found")
	}
	wantSeen(t, did, all...)
}

// operate has the operator look at everything in a tube, or do something to a job.
func (s *serial) operate() error {
	switch s.rng.IntN(12) {
	case 0, 1, 2:
		return s.lookAt(s.name())
	case 3:
		return s.flush()
	}
	id := uint64(s.rng.IntN(int(s.twin.last) + 2))
	if n := len(s.twin.jobs); n > 0 && s.rng.IntN(4) > 0 {
		id = s.twin.jobs[s.rng.IntN(n)].id
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
		a.Force = true // it is for what workers have
	case core.VerbKick:
		a.Force = false // it is not
	}
	word := [...]string{"", "delete", "kick", "bury", "release", "touch", "set"}[a.Verb]
	s.note("operator> %s %d %+v", word, id, a)
	var got string
	var wrong error
	s.operatorClient.Begin(func(c *direct.Caller) error {
		got, wrong = s.act(c, core.JobID(id), &a)
		return nil
	})
	want := s.twin.operate(id, word, &a)
	if err := s.settle(); err != nil {
		return err
	}
	s.cmds["operator: "+word+": "+got]++
	if got != want || wrong != nil {
		return fmt.Errorf("operator: %s of job %d: %q, %v, want %q", word, id, got, wrong, want)
	}
	return nil
}

// flush deletes the jobs of a tube in some states.
func (s *serial) flush() error {
	f := &admin.Flush{Tube: s.name(), States: core.States(s.rng.IntN(32)) & core.StatesOf(core.Ready, core.Delayed, core.Buried)}
	s.note("operator> flush of %s, %b", f.Tube, f.States)
	var n core.Flushed
	var wrong error
	s.operatorClient.Begin(func(*direct.Caller) error {
		n, wrong = s.operatorClient.Admin.Flush(context.Background(), f)
		return nil
	})
	want, found := s.twin.flush(f)
	if err := s.settle(); err != nil {
		return err
	}
	if refusal(wrong, "not-found") != nil || found != (wrong == nil) || n.All() != uint64(want) {
		return fmt.Errorf("operator: flush of %q: %+v, %v, want %d, found %v", f.Tube, n, wrong, want, found)
	}
	s.cmds["operator: flushed"] += want
	return nil
}

// flush deletes jobs, and returns how many.
func (t *twin) flush(f *admin.Flush) (n int, found bool) {
	q := t.tube(f.Tube)
	before, list := len(t.jobs), []core.State{core.Ready, core.Delayed, core.Buried}
	t.jobs = slices.DeleteFunc(t.jobs, func(j *twinJob) bool {
		i := slices.IndexFunc(list, func(s core.State) bool { return s.String() == j.state })
		return j.tube == q && i >= 0 && f.States.Has(list[i])
	})
	if n = before - len(t.jobs); n > 0 {
		q.deletes += n
	}
	t.sweep()
	return n, q != nil
}

// act acts on a job, in one of the ways that there are for it. It returns the reason why not.
func (s *serial) act(c *direct.Caller, id core.JobID, a *core.Action) (why string, err error) {
	ctx, o := context.Background(), s.operatorClient.Admin
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

// operate does what an operator wants to a job, and says why not.
func (t *twin) operate(id uint64, verb string, a *core.Action) (why string) {
	j := t.find(id)
	switch {
	case j == nil:
		return "not-found"
	case j.state == "reserved" && !a.Force:
		return "job-reserved"
	}
	switch verb {
	case "delete":
		t.jobs = slices.DeleteFunc(t.jobs, func(o *twinJob) bool { return o == j })
		j.tube.deletes++
		t.sweep()
	case "kick":
		if j.state != "buried" && j.state != "delayed" {
			return "job-moved"
		}
		j.kicks++
		t.enter(j, "ready")
	case "bury":
		if j.state == "buried" {
			return "job-moved"
		}
		t.enter(j, "buried")
	case "release", "touch":
		if j.state != "reserved" {
			return "job-moved"
		}
		if verb == "release" {
			t.enter(j, "ready")
		} else {
			j.deadline = t.now + core.Time(j.ttr)*core.Second
		}
	case "set":
		if a.Changes&core.ChangeDelay != 0 && j.state != "ready" && j.state != "delayed" {
			return "job-moved"
		}
		if a.Changes&core.ChangePri != 0 {
			j.pri = int64(a.Pri)
		}
		if a.Changes&core.ChangeTTR != 0 {
			j.ttr = int64(a.TTR)
		}
		if a.Changes&core.ChangeDelay != 0 && (j.state == "delayed" || a.Delay > 0) {
			j.delay = int64(a.Delay)
			t.enterPut(j)
		}
	}
	return ""
}

// lookAt compares what an operator is shown of a tube with what is there.
func (s *serial) lookAt(name string) error {
	s.note("operator> lists of %s", name)
	show := func(q *admin.JobQuery) (ids []uint64, err error) {
		q.Tube, q.Limit = name, 1+s.rng.IntN(5)
		at := (*admin.Place)(nil)
		for first := true; first || at != nil; first = false {
			if q.Order == admin.Next {
				q.Limit = 1000
			}
			p, err := s.operatorClient.Admin.Jobs(context.Background(), q, at)
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
	var want []uint64
	q := s.twin.tube(name)
	for _, j := range s.twin.jobs {
		if j.tube == q {
			want = append(want, j.id)
		}
	}
	slices.Sort(want)
	s.operatorClient.Begin(func(*direct.Caller) error {
		got, err := show(&admin.JobQuery{Order: admin.Scan})
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("a scan of %s shows %v, %v, want %v", name, got, err, want)
		}
		for _, of := range []core.State{core.Ready, core.Delayed, core.Buried} {
			state := of.String()
			var want, arrived []uint64
			if q != nil {
				list := s.twin.in(q, state)
				for _, j := range list {
					want = append(want, j.id)
				}
				slices.SortFunc(list, func(a, b *twinJob) int { return a.seq - b.seq })
				for _, j := range list {
					arrived = append(arrived, j.id)
				}
			}
			if got, err := show(&admin.JobQuery{Order: admin.Next, State: of}); err != nil || !slices.Equal(got, want) {
				return fmt.Errorf("the head of %s in %s: %v, %v, want %v", state, name, got, err, want)
			}
			if got, err := show(&admin.JobQuery{Order: admin.Oldest, State: of}); err != nil || !slices.Equal(got, arrived) {
				return fmt.Errorf("the oldest of %s in %s: %v, %v, want %v", state, name, got, err, arrived)
			}
			slices.Reverse(arrived)
			if got, err := show(&admin.JobQuery{Order: admin.Newest, State: of}); err != nil || !slices.Equal(got, arrived) {
				return fmt.Errorf("the newest of %s in %s: %v, %v, want %v", state, name, got, err, arrived)
			}
		}
		s.cmds["operator: lists"]++
		return nil
	})
	return s.settle()
}
