package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
)

// TestOperatorBesideAllVerbs is TestChaosOfBothProtocols with an operator that runs every operation
// at random, in visits; clients continue between the visits. The operator's reads are compared with
// the existing jobs, and clients' replies with the operator's changes.
func TestOperatorBesideAllVerbs(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	seen := map[string]int{}
	seeds(t, 30, func(seed uint64) error {
		c := newGearChaos(seed, seen)
		c.flood = false // a viewing compares all jobs at each step
		c.operatorClient = newOperatorClient(c, seed)
		return c.run(1500)
	})
	var tasks []string
	for _, what := range operatorTasks {
		tasks = append(tasks, what.name)
	}
	wantSeen(t, seen, append(tasks, "scanned", "listed", "deleted", "kicked", "buried", "released", "set", "edited", "changed", "found nothing", "killed", "moved",
		"copied elsewhere", "moved or copied in bulk", "flushed as of")...)
}

// An operatorClient is an operator, with the data to check its reads and changes.
type operatorClient struct {
	c     *gearChaos
	o     *operator
	rng   *rand.Rand
	n     int
	acted map[uint64]int // number of begun and ended actions on a job
	views []*viewing

	bulks   int  // bulk operations under way
	flushed bool // a flush in steps is not complete
}

// operatorTasks has the operator's tasks and their weights.
var operatorTasks = []struct {
	name string
	do   func(*operatorClient, *direct.Caller) error
}{
	{"scan", (*operatorClient).scan}, {"scan again", (*operatorClient).scan}, {"list", (*operatorClient).list},
	{"act on one", (*operatorClient).actOnOne}, {"bulk", (*operatorClient).bulk},
	{"edit", (*operatorClient).edit}, {"put", (*operatorClient).put}, {"pause or kick of a tube", (*operatorClient).tube},
	{"kill", (*operatorClient).kill},
	{"move or copy", (*operatorClient).transfer}, {"move or copy of many", (*operatorClient).transferMany}, {"flush", (*operatorClient).flush},
}

func newOperatorClient(c *gearChaos, seed uint64) *operatorClient {
	b := &operatorClient{c: c, o: c.w.newOperator(), rng: rand.New(rand.NewPCG(seed, 9)), acted: map[uint64]int{}}
	c.w.watch = b.observe
	return b
}

// step sometimes begins a task.
func (b *operatorClient) step() error {
	if b.o.busy() < 3 && b.rng.IntN(8) == 0 {
		what := operatorTasks[b.rng.IntN(len(operatorTasks))]
		b.o.Begin(func(c *direct.Caller) error {
			if err := what.do(b, c); err != nil {
				return fmt.Errorf("%s: %w", what.name, err)
			}
			b.c.seen[what.name]++
			return nil
		})
	}
	return b.c.w.fault()
}

func (b *operatorClient) name() string { return b.c.names[b.rng.IntN(len(b.c.names))] }

// jobs returns all jobs.
func (b *operatorClient) jobs() (list []core.JobView) {
	for _, j := range b.c.w.jobs() {
		j.Body = bytes.Clone(j.Body)
		list = append(list, j)
	}
	slices.SortFunc(list, func(x, y core.JobView) int { return int(int64(x.ID) - int64(y.ID)) })
	return list
}

// job returns the id of a job, which usually exists.
func (b *operatorClient) job() uint64 {
	list := b.jobs()
	if len(list) == 0 || b.rng.IntN(20) == 0 {
		return uint64(1 + b.rng.IntN(b.c.puts+10))
	}
	return uint64(list[b.rng.IntN(len(list))].ID)
}

// moment returns a time at which no job enters a state.
func (b *operatorClient) moment() core.Time {
	b.c.w.now += 2
	return b.c.w.now - 1
}

// begins notes that an action may change jobs from now on.
func (b *operatorClient) begins(a *core.Action, ids ...uint64) {
	for _, id := range ids {
		b.acted[id]++
		if a.Verb == core.VerbDelete || a.Verb == core.VerbBury {
			b.c.fate(id).mayFail = true
		}
		if a.Force {
			b.c.shaky[id] = true
			for _, cn := range b.c.gears {
				if h, ok := cn.holds[id]; ok {
					cn.holds[id] = gearHold{fn: h.fn}
				}
			}
		}
		for _, v := range b.views {
			v.drop(core.JobID(id))
		}
	}
}

// ended notes the result of an action on a job.
func (b *operatorClient) ended(a *core.Action, id uint64, s core.Status) error {
	b.acted[id]++
	if s != core.StatusOK {
		b.c.seen["found nothing"]++
		return nil
	}
	b.c.seen[[...]string{"", "deleted", "kicked", "buried", "released", "touched", "set"}[a.Verb]]++
	if a.Verb != core.VerbDelete {
		return nil
	}
	return b.isGone(id)
}

// action returns a random action.
func (b *operatorClient) action() core.Action {
	return core.Action{
		Verb: core.Verb(1 + b.rng.IntN(6)), Force: b.rng.IntN(2) == 0,
		Changes: core.Changes(1 + b.rng.IntN(7)), Pri: uint32([]int{0, 5, 2000}[b.rng.IntN(3)]), Delay: uint32(b.rng.IntN(3)), TTR: uint32(1 + b.rng.IntN(60)),
	}
}

// refusal returns err, unless it is a problem of one of the kinds in may.
func refusal(err error, may ...string) error {
	if err == nil {
		return nil
	}
	p, ok := errors.AsType[*wire.Problem](err)
	if !ok || !slices.Contains(may, strings.TrimPrefix(p.Type, wire.ProblemPath)) {
		return err
	}
	return nil
}

func (b *operatorClient) actOnOne(*direct.Caller) error {
	id, a, ctx := b.job(), b.action(), context.Background()
	set := a.Verb != core.VerbDelete && a.Verb != core.VerbKick && a.Verb != core.VerbBury && a.Verb != core.VerbRelease
	if set {
		a.Verb = core.VerbSet
	}
	a.Force = a.Force || a.Verb == core.VerbRelease
	b.begins(&a, id)
	var err error
	if set {
		_, err = b.o.Admin.Edit(ctx, core.JobID(id), &admin.Edit{Action: a})
	} else {
		err = b.o.Admin.Act(ctx, core.JobID(id), a.Verb, a.Force && a.Verb != core.VerbKick)
	}
	s := core.StatusOK
	if err != nil {
		s = core.StatusNotFound
	}
	if err := b.ended(&a, id, s); err != nil {
		return err
	}
	return refusal(err, "not-found", "job-reserved", "job-moved", "changed", "awaited")
}

// doom notes that an action may change the wanted jobs, and returns them.
func (b *operatorClient) doom(a *core.Action, wanted func(*core.JobView) bool) map[core.JobID]core.JobView {
	would := map[core.JobID]core.JobView{}
	for _, j := range b.jobs() {
		if wanted(&j) {
			would[j.ID] = j
			b.begins(a, uint64(j.ID))
			if a.Verb == core.VerbDelete || a.Verb == core.VerbTake {
				b.c.fate(uint64(j.ID)).mayBeGone = true
			}
		}
	}
	return would
}

// bulk runs an action on all jobs that existed at a moment, and no others.
func (b *operatorClient) bulk(*direct.Caller) error {
	a := b.action()
	q := admin.JobQuery{Tube: b.name(), AllTubes: b.rng.IntN(2) == 0, Filter: core.Filter{States: core.States(b.rng.IntN(32))}}
	if b.rng.IntN(3) > 0 {
		q.Filter.MinID = core.JobID(b.job())
	}
	bulk := admin.Bulk{Jobs: q, Action: admin.Verb{Action: a}, AsOf: b.moment(), AtMost: math.MaxUint64, DryRun: b.rng.IntN(4) == 0}
	if b.rng.IntN(3) == 0 {
		bulk.Limit = uint64(1 + b.rng.IntN(10))
	}
	if b.rng.IntN(4) == 0 {
		bulk.AtMost = uint64(b.rng.IntN(100))
	}
	if b.rng.IntN(4) == 0 {
		for range 1 + b.rng.IntN(20) {
			bulk.IDs = append(bulk.IDs, core.JobID(b.job()))
		}
	}
	var would map[core.JobID]core.JobView
	if !bulk.DryRun {
		would = b.doom(&a, b.wantedBy(&bulk))
	}
	b.bulks++
	defer func() { b.bulks-- }()
	var p admin.Progress
	err := b.o.Admin.RunBulk(context.Background(), &bulk, &p)
	tally := p.Tally()
	if err != nil {
		if tally.Done > 0 {
			return fmt.Errorf("%d jobs were acted on, and then: %w", tally.Done, err)
		}
		return refusal(err, "not-found", "more-than-expected")
	}
	skipped := uint64(0)
	for _, n := range tally.Skipped {
		skipped += n
	}
	gone := uint64(len(bulk.IDs)) // at most: the number of listed jobs
	switch {
	case bulk.DryRun && (tally.Done > 0 || skipped > tally.Matched+gone),
		!bulk.DryRun && (tally.Matched > tally.Done+skipped || tally.Done+skipped > tally.Matched+gone),
		bulk.Limit > 0 && tally.Matched > bulk.Limit,
		!bulk.DryRun && tally.Done > uint64(len(would)):
		return fmt.Errorf("%+v of %d jobs, at most %d", tally, len(would), bulk.Limit)
	}
	if bulk.DryRun || bulk.Limit > 0 || a.Verb != core.VerbDelete && a.Verb != core.VerbKick && a.Verb != core.VerbBury {
		return nil
	}
	for _, j := range b.jobs() {
		was, ok := would[j.ID]
		if !ok || was.Since != j.Since || was.Moves != j.Moves || was.State != j.State || j.State == core.Reserved {
			continue
		}
		if a.Verb == core.VerbKick && j.State == core.Ready || a.Verb == core.VerbBury && j.State == core.Buried {
			continue
		}
		return fmt.Errorf("job %d, %v since %d, was left out of %+v", j.ID, j.State, j.Since, tally)
	}
	return nil
}

// edit changes a job that was read before.
func (b *operatorClient) edit(*direct.Caller) error {
	id, ctx := b.job(), context.Background()
	view := b.view(true, func(j *core.JobView) bool { return uint64(j.ID) == id })
	defer b.unview(view)
	acted, bulk := b.acted[id], b.bulks > 0 // which may set fields that a view does not compare
	row, version, err := b.o.Admin.Job(ctx, core.JobID(id), admin.ShownMost)
	if err != nil {
		return refusal(err, "not-found")
	}
	if int(row.Size) == len(row.Body) {
		if err := b.c.meet(string(row.Body), id); err != nil {
			return err
		}
	}
	e := &admin.Edit{Action: b.action(), Expect: version}
	e.Verb = core.VerbSet
	for range b.rng.IntN(6) {
		b.o.turn()
	}
	if acted != b.acted[id] {
		view.present = nil
	}
	b.n++
	body := fmt.Sprintf("edited-%d ", b.n)
	if b.rng.IntN(2) == 0 {
		e.Changes |= core.ChangeBody
		if b.rng.IntN(10) == 0 {
			body += strings.Repeat("z", 60_000+b.rng.IntN(100_000))
		}
		e.Body = []byte(body)
		b.c.bodies[body] = id
		b.c.alike[body] = true // it may be copied meanwhile
	}
	same := view.present[core.JobID(id)]
	b.begins(&e.Action, id)
	acted = b.acted[id]
	view.present = map[core.JobID]core.JobView{core.JobID(id): same}
	_, err = b.o.Admin.Edit(ctx, core.JobID(id), e)
	b.observe()
	_, still := view.present[core.JobID(id)]
	if acted != b.acted[id] || bulk {
		still = false
	}
	if p, ok := errors.AsType[*wire.Problem](err); ok && p.Type == wire.ProblemPath+wire.Changed.Slug {
		b.c.seen["changed"]++
		if still && same.ID != 0 {
			return fmt.Errorf("job %d is unchanged: %w", id, err)
		}
	}
	if err == nil {
		b.c.seen["edited"]++
		if _, put := b.c.inserted[id]; put && e.Body != nil {
			b.c.inserted[id] = body
		}
	}
	b.acted[id]++
	return refusal(err, "not-found", "job-reserved", "job-moved", "changed", "awaited")
}

func (b *operatorClient) put(*direct.Caller) error {
	b.n++
	body := fmt.Sprintf("an operator's %d ", b.n)
	if b.rng.IntN(20) == 0 {
		body += strings.Repeat("w", 60_000+b.rng.IntN(100_000))
	}
	b.c.bodies[body] = 0
	id, err := b.o.Admin.Put(context.Background(), admin.NewJob{Tube: b.name(), Pri: 5, Delay: uint32(b.rng.IntN(2)), TTR: 2, Body: []byte(body)})
	if err != nil {
		return err
	}
	b.c.inserted[uint64(id)] = body
	return b.c.meet(body, uint64(id))
}

func (b *operatorClient) tube(*direct.Caller) (err error) {
	if b.rng.IntN(2) == 0 {
		err = b.o.Admin.Pause(context.Background(), b.name(), uint32(b.rng.IntN(2)))
	} else {
		_, err = b.o.Admin.Kick(context.Background(), b.name(), uint32(1+b.rng.IntN(5)))
	}
	return refusal(err, "not-found")
}
