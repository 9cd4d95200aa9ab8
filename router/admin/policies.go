package admin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard"
	"polystalk/shard/core"
	"polystalk/shard/record"
)

// matchPath returns the match of a policy in the form of the API.
func matchPath(match string) string {
	if prefix, ok := strings.CutSuffix(match, "*"); ok {
		return wire.PathName(prefix) + "*"
	}
	return wire.PathName(match)
}

// checkMatch refuses a match that is invalid.
func checkMatch(match string) error {
	switch {
	case match == "" || len(match) > record.MatchMax:
		return wire.Invalid.With("match", fmt.Sprintf("it has %d bytes", len(match)), fmt.Sprintf("give 1 to %d bytes", record.MatchMax))
	case strings.Contains(match[:len(match)-1], "*"):
		return wire.Invalid.With("match", "it has a * that is not its last character", "give the name of a tube, or the beginning of names and one *")
	}
	return nil
}

// matchOf reads a match in the form of the API.
func matchOf(text string) (string, error) {
	match, err := url.PathUnescape(text)
	if err != nil || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", wire.Invalid.With("match", fmt.Sprintf("%q has a character that is not percent-encoded", text), "write bytes other than visible ASCII, and the %, as %XX")
	}
	return match, checkMatch(match)
}

// A policyOption is an option with a number in both forms of a policy.
type policyOption struct {
	name string
	api  *uint64
	is   *uint64
	most uint64
}

func policyOptions(p *wire.Policy, r *record.Policy) []policyOption {
	const seconds, number = 1 << 31, 1 << 53 // JSON keeps whole numbers up to 1<<53
	return []policyOption{
		{"attempts", &p.Attempts, &r.Attempts, 1e6},
		{"backoff_seconds", &p.BackoffSeconds, &r.Backoff, seconds},
		{"backoff_max_seconds", &p.BackoffMaxSeconds, &r.BackoffMax, seconds},
		{"ttl_seconds", &p.TTLSeconds, &r.TTL, seconds},
		{"max_jobs", &p.MaxJobs, &r.MaxJobs, number},
		{"max_bytes", &p.MaxBytes, &r.MaxBytes, number},
		{"burst", &p.Burst, &r.Burst, 1e6},
		{"buried_ttl_seconds", &p.BuriedTTLSeconds, &r.BuriedTTL, seconds},
		{"max_buried", &p.MaxBuried, &r.MaxBuried, number},
	}
}

// policyView returns a policy in the form of the API.
func policyView(r *record.Policy) (v wire.PolicyView) {
	for _, o := range policyOptions(&v.Policy, r) {
		*o.api = *o.is
	}
	v.Match, v.Note, v.PerSecond = matchPath(r.Match), r.Note, float64(r.ThousandthsASecond)/1000
	if r.Expired == record.PolicyBury {
		v.Expired = "bury"
	}
	if r.Full == record.PolicyDropOldest {
		v.Full = "drop-oldest"
	}
	if r.RunningPlus > 0 {
		v.Running = new(r.RunningPlus - 1)
	}
	if r.RunningPlus == 1 && r.Note == "" {
		v.Warning = "running is 0, so workers get no job until the policy changes, and no note says why"
	}
	return v
}

// policyOf checks a policy in the form of the API. The caller has checked the match.
func policyOf(match string, p *wire.Policy) (r record.Policy, err error) {
	r = record.Policy{Match: match, Note: p.Note}
	for _, o := range policyOptions(p, &r) {
		if *o.is = *o.api; *o.is > o.most {
			return r, wire.Invalid.With(o.name, fmt.Sprintf("%d is too large", *o.is), fmt.Sprintf("give at most %d", o.most))
		}
	}
	expired := slices.Index([]string{record.PolicyDelete: "delete", record.PolicyBury: "bury"}, cmp.Or(p.Expired, "delete"))
	full := slices.Index([]string{record.PolicyRefuse: "refuse", record.PolicyDropOldest: "drop-oldest"}, cmp.Or(p.Full, "refuse"))
	rate := p.PerSecond * 1000
	switch {
	case r.BackoffMax > 0 && (r.Backoff == 0 || r.BackoffMax < r.Backoff):
		return r, wire.Invalid.With("backoff_max_seconds", fmt.Sprintf("it is %d, and backoff_seconds %d", r.BackoffMax, r.Backoff), "give at least backoff_seconds")
	case expired < 0:
		return r, wire.Invalid.With("expired", fmt.Sprintf("%q is unknown", p.Expired), "give delete or bury")
	case full < 0:
		return r, wire.Invalid.With("full", fmt.Sprintf("%q is unknown", p.Full), "give refuse or drop-oldest")
	case p.Running != nil && *p.Running > 1e6:
		return r, wire.Invalid.With("running", fmt.Sprintf("%d is too large", *p.Running), "give at most 1000000")
	case rate < 0 || rate > 0 && rate < 0.5 || rate > 1e9 || math.Abs(rate-math.Round(rate)) > 1e-6:
		return r, wire.Invalid.With("per_second", fmt.Sprintf("%v cannot be used", p.PerSecond), "give 0.001 to 1000000, with at most 3 decimals")
	case r.Burst > 0 && rate == 0:
		return r, wire.Invalid.With("burst", "there is no per_second", "give per_second too")
	case len(p.Note) > record.NoteMax:
		return r, wire.Invalid.With("note", fmt.Sprintf("it has %d bytes", len(p.Note)), fmt.Sprintf("give at most %d bytes", record.NoteMax))
	}
	r.Expired, r.Full, r.ThousandthsASecond = uint64(expired), uint64(full), uint64(math.Round(rate))
	if p.Running != nil {
		r.RunningPlus = *p.Running + 1
	}
	return r, nil
}

// policyChanges is the part of an Operator for policies.
type policyChanges struct {
	sync.Mutex // held during a change

	recorded sync.RWMutex // held while the shard of slot 0 takes a set
	commit   uint64       // of the last one
}

// A PolicySet is the set of all policies.
type PolicySet struct {
	Policies []wire.PolicyView // sorted by match
	Tag      string            // a hash of the set; of a dry run: of the current set
}

// A PolicyEdit says how to change policies.
type PolicyEdit struct {
	IfMatch string // the tag that the set must have; empty: any
	DryRun  bool   // change nothing, and count the jobs that the change would end at once
}

// policies returns the current set and its commit. The shard of slot 0 has it, also after a restart.
func (o *Operator) policies(ctx context.Context) (set *core.Policies, commit uint64, err error) {
	err = o.read(ctx, func(c *direct.Caller) error {
		m, p := o.opts.Host.Map, &o.changedPolicies
		p.recorded.RLock()
		defer p.recorded.RUnlock()
		commit = p.commit
		if !c.Visit(ctx, m.OfSlot(0), func(sh *shard.Shard) { set = sh.RecordedPolicies() }) {
			return wire.Busy.Problem("the shard with the policies is busy")
		}
		return nil
	})
	return set, commit, err
}

// Policies returns the current set, once it is durable.
func (o *Operator) Policies(ctx context.Context) (*PolicySet, error) {
	set, commit, err := o.policies(ctx)
	if err == nil {
		err = o.committed(ctx, commit)
	}
	if err != nil {
		return nil, err
	}
	all, err := o.Tubes(ctx, TubesFor)
	if err != nil {
		return nil, err
	}
	return policySet(set, all), nil
}

// policySet returns a set with the number of tubes of each policy.
func policySet(set *core.Policies, all *TubeSample) *PolicySet {
	tubes := make(map[string]uint64)
	for i := range all.Rows {
		if p := set.Of(all.Rows[i].Name); p != nil {
			tubes[p.Match]++
		}
	}
	v := &PolicySet{Policies: []wire.PolicyView{}, Tag: tagOf(record.AppendPolicies(nil, set.List()))}
	for i := range set.List() {
		p := &set.List()[i]
		v.Policies = append(v.Policies, policyView(p))
		v.Policies[i].Tubes = tubes[p.Match]
	}
	return v
}

func tagOf(set []byte) string { return fmt.Sprintf("%016x", xxhash.Sum64(set)) }

// SetPolicies replaces the set.
func (o *Operator) SetPolicies(ctx context.Context, list []wire.PolicyView, e PolicyEdit) (*PolicySet, error) {
	next := make([]record.Policy, len(list))
	for i := range list {
		p := &list[i].Policy
		match, err := matchOf(p.Match)
		if err == nil {
			next[i], err = policyOf(match, p)
		}
		if err != nil {
			about := err.(*wire.Problem)
			about.Field, about.Detail = "policies."+about.Field, fmt.Sprintf("the policy %q: %s", p.Match, about.Detail)
			return nil, about
		}
	}
	return o.changePolicies(ctx, e, func([]record.Policy) ([]record.Policy, error) { return next, nil })
}

// SetPolicy sets the policy for a match. made says that there was none.
func (o *Operator) SetPolicy(ctx context.Context, match string, p *wire.Policy, e PolicyEdit) (v wire.PolicyView, tag string, made bool, err error) {
	var r record.Policy
	if err = checkMatch(match); err == nil {
		r, err = policyOf(match, p)
	}
	if err == nil && p.Match != "" && p.Match != matchPath(match) {
		err = wire.Invalid.With("match", "it is not the match in the path", "omit it")
	}
	if err != nil {
		return v, "", false, err
	}
	set, err := o.changePolicies(ctx, e, func(list []record.Policy) ([]record.Policy, error) {
		others := slices.DeleteFunc(list, func(p record.Policy) bool { return p.Match == match })
		made = len(others) == len(list)
		return append(others, r), nil
	})
	if err != nil {
		return v, "", false, err
	}
	i := slices.IndexFunc(set.Policies, func(p wire.PolicyView) bool { return p.Match == matchPath(match) })
	return set.Policies[i], set.Tag, made, nil
}

// RemovePolicy removes the policy for a match.
func (o *Operator) RemovePolicy(ctx context.Context, match string, e PolicyEdit) error {
	_, err := o.changePolicies(ctx, e, func(list []record.Policy) ([]record.Policy, error) {
		others := slices.DeleteFunc(list, func(p record.Policy) bool { return p.Match == match })
		if len(others) == len(list) {
			return nil, wire.NotFound.With("", fmt.Sprintf("there is no policy for %q", matchPath(match)), "GET /api/v1/policies lists them")
		}
		return others, nil
	})
	return err
}

// changePolicies changes the set to the one that edit makes from a copy of it. It waits until the
// change is durable and all tubes have their policies.
func (o *Operator) changePolicies(ctx context.Context, e PolicyEdit, edit func([]record.Policy) ([]record.Policy, error)) (v *PolicySet, err error) {
	if !e.DryRun { // a dry run may take seconds, and no change waits for it
		defer func() { o.counts.add("policies", 0, 0, err) }()
		o.changedPolicies.Lock()
		defer o.changedPolicies.Unlock()
	}
	was, commit, err := o.policies(ctx)
	if err != nil {
		return nil, err
	}
	before := record.AppendPolicies(nil, was.List())
	if e.IfMatch != "" && e.IfMatch != tagOf(before) {
		return nil, wire.Changed.With("If-Match", "the policies have another tag", "read the policies again, and send the request with their new ETag")
	}
	list, err := edit(slices.Clone(was.List()))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b record.Policy) int { return cmp.Compare(a.Match, b.Match) })
	for i := range list[min(1, len(list)):] {
		if list[i].Match == list[i+1].Match {
			return nil, wire.Invalid.With("policies.match", fmt.Sprintf("there are two policies for %q", matchPath(list[i].Match)), "give one")
		}
	}
	after := record.AppendPolicies(nil, list)
	if len(list) > record.PoliciesMax || len(after) > record.PoliciesSizeMax {
		return nil, wire.Invalid.With("policies", fmt.Sprintf("there would be %d policies of %d bytes", len(list), len(after)),
			fmt.Sprintf("keep at most %d policies of %d bytes: a prefix can match many tubes, and notes can be shorter", record.PoliciesMax, record.PoliciesSizeMax))
	}
	next := core.NewPolicies(list)
	age := TubesFor
	if e.DryRun {
		age = 0
	}
	all, err := o.Tubes(ctx, age) // before the change, which is reported even if this fails
	if err != nil {
		return nil, err
	}
	v = policySet(next, all)
	install := func(c *direct.Caller) (uint64, error) { return o.install(c, next), nil }
	switch {
	case e.DryRun:
		v.Tag = tagOf(before) // for the If-Match of the change
		err = o.countEffects(ctx, all, was, next, v)
	case bytes.Equal(before, after):
		err = o.committed(ctx, commit)
	case len(list) == 0:
		err = o.durably(ctx, install) // there is room: see core.keepPolicies
	default:
		if len(was.List()) == 0 { // else all members have read a set, also those that are away now
			err = o.opts.Cluster.CheckPolicies(ctx)
		}
		if err == nil {
			err = o.change(ctx, len(after), install)
		}
	}
	return v, err
}

// install gives all shards and tubes a set. It ends with the server only.
func (o *Operator) install(c *direct.Caller, set *core.Policies) (commit uint64) {
	m := o.opts.Host.Map
	p, recording := &o.changedPolicies, m.OfSlot(0)
	p.recorded.Lock()
	c.Op().SetPolicies(set, true)
	commit = c.Do(recording).Commit
	p.commit = commit
	p.recorded.Unlock()
	for i := range m.Shards() {
		if i != recording {
			c.Op().SetPolicies(set, false)
			c.Do(i)
		}
		for from, more := 0, true; more; more = from > 0 {
			start := time.Now()
			c.Visit(context.Background(), i, func(sh *shard.Shard) { from = sh.Classify(from) })
			o.rest(start)
		}
	}
	return commit
}

// effectsWithin is how long a dry run counts jobs.
const effectsWithin = 5 * time.Second

// countEffects counts the jobs that each policy of next would end at once in tubes that have another
// one now.
func (o *Operator) countEffects(ctx context.Context, all *TubeSample, was, next *core.Policies, v *PolicySet) error {
	until := time.Now().Add(effectsWithin)
	effects := make(map[string]*wire.Effects)
	for i := range v.Policies {
		v.Policies[i].Effect = new(wire.Effects)
		effects[v.Policies[i].Match] = v.Policies[i].Effect
	}
	for i := range all.Rows {
		t := &all.Rows[i]
		p, old := next.Of(t.Name), was.Of(t.Name)
		if p == nil || old != nil && *old == *p {
			continue
		}
		if err := o.countEffect(ctx, all, t, p, until, effects[matchPath(p.Match)]); err != nil {
			return err
		}
	}
	return nil
}

// countEffect adds the effects of a policy on a tube. Package core states them.
func (o *Operator) countEffect(ctx context.Context, all *TubeSample, t *core.TubeRow, p *record.Policy, until time.Time, e *wire.Effects) error {
	waiting, size, buried := t.Ready+t.Delayed, t.Bytes, t.Buried
	isOld := func(age core.Time, ttl uint64) bool { return ttl > 0 && age >= core.Time(ttl)*core.Second }
	// endOf returns the counter for the oldest job in a state, which has its age; nil: it stays.
	endOf := func(s core.State, age core.Time) *uint64 {
		switch {
		case s == core.Ready && isOld(age, p.TTL), s == core.Buried && isOld(age, p.BuriedTTL):
			return &e.Expired
		case s == core.Ready && p.Full == record.PolicyDropOldest && (p.MaxJobs > 0 && waiting > p.MaxJobs || p.MaxBytes > 0 && size > p.MaxBytes):
			return &e.Dropped
		}
		return nil
	}
	for _, s := range []core.State{core.Ready, core.Buried} {
		oldest := core.Time(math.MaxInt64) // it is not known of buried jobs
		if s == core.Ready {
			oldest = t.Oldest + core.Time(time.Since(all.At))
		}
		if endOf(s, oldest) == nil {
			continue
		}
		err := o.eachOldest(ctx, t.Name, s, until, e, func(j *JobRow) bool {
			n := endOf(s, j.InState)
			switch {
			case n == nil:
				return false
			case s == core.Buried:
				buried--
			case n == &e.Expired && p.Expired == record.PolicyBury:
				waiting, buried = waiting-1, buried+1
			default:
				waiting, size = waiting-1, size-uint64(j.Size)
			}
			*n++
			return true
		})
		if err != nil {
			return err
		}
	}
	if p.MaxBuried > 0 && buried > p.MaxBuried {
		e.Dropped += buried - p.MaxBuried
	}
	return nil
}

// eachOldest calls f with the jobs of a tube in a state, the oldest first, until f returns false. If
// it is until before that, e is a part.
func (o *Operator) eachOldest(ctx context.Context, tube string, s core.State, until time.Time, e *wire.Effects, f func(*JobRow) bool) error {
	q := JobQuery{Tube: tube, Order: Oldest, State: s, Limit: 1000}
	var from *Place
	for time.Now().Before(until) {
		start := time.Now()
		part, err := o.Jobs(ctx, &q, from)
		if wire.NotFound.Is(err) {
			return nil
		} else if err != nil {
			return err
		}
		for i := range part.Rows {
			if !f(&part.Rows[i]) {
				return nil
			}
		}
		if from = part.Next; from == nil {
			return nil
		}
		o.rest(start)
	}
	e.Partial = true
	return nil
}
