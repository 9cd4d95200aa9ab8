package core

import (
	"math"
	"slices"
	"testing"

	"polystalk/shard/record"
)

// policies gives all tubes of w a set.
func (w *world) policies(list ...record.Policy) {
	w.t.Helper()
	op := new(Op)
	op.SetPolicies(NewPolicies(list), false)
	w.do(*op, StatusOK)
	for from := w.core.Classify(0); from > 0; {
		from = w.core.Classify(from)
	}
	w.check()
}

// did compares what the policy of a tube has done: dead, delayed, expired, dropped, refused.
func (w *world) did(tube string, want ...uint64) {
	w.t.Helper()
	got := w.core.tubeRow(w.core.names[tube]).Policed
	for e := range got {
		if e < len(want) && got[e] != want[e] || e >= len(want) && got[e] != 0 {
			w.t.Fatalf("the policy of %q has done %v, want %v", tube, got, want)
		}
	}
}

func (w *world) heldBy(tube string, want Held) {
	w.t.Helper()
	if got := w.core.tubeRow(w.core.names[tube]).Held; got != want {
		w.t.Fatalf("tube %q is held by %d, want %d", tube, got, want)
	}
}

func TestTheLongestMatchApplies(t *testing.T) {
	set := NewPolicies([]record.Policy{{Match: "*"}, {Match: "mail*"}, {Match: "mail.de"}, {Match: "mail.de*"}})
	for tube, want := range map[string]string{
		"": "*", "mai": "*", "mail": "mail*", "mail.d": "mail*", "mail.de": "mail.de", "mail.de.x": "mail.de*", "xmail": "*",
	} {
		if got := set.Of(tube); got == nil || got.Match != want {
			t.Errorf("%q gets %v, want %q", tube, got, want)
		}
	}
	if got := NewPolicies([]record.Policy{{Match: "a"}}).Of("ab"); got != nil {
		t.Errorf("a name that is no prefix matches: %v", got)
	}
	if got := (*Policies)(nil).Of("a"); got != nil {
		t.Errorf("no set has a policy: %v", got)
	}
}

// TestTheLastAttemptBuries: whether the worker releases the job, exceeds its time, or is lost.
func TestTheLastAttemptBuries(t *testing.T) {
	w := newWorld(t)
	w.policies(record.Policy{Match: "a", Attempts: 3})
	p := w.join("a")
	id := p.put(1, 0, 1)
	p.reserve(id)
	p.release(id, 1, 0)
	p.reserve(id)
	p.pass(Second)
	p.reserve(id)
	p.on(OpReturn, 0, StatusOK)
	p.isIn(id, Buried)
	w.did("a", 1)
	if p.kick(1); true { // a kick begins a new series
		p.reserve(id)
		p.release(id, 1, 0)
		p.isIn(id, Ready)
	}
}

// TestReserveWaitsForTheAttemptBefore: a crash forgets the attempt in progress, and none before it.
// So the reply to a reserve waits until the attempt before is durable, if the policy counts them.
func TestReserveWaitsForTheAttemptBefore(t *testing.T) {
	for _, attempts := range []uint64{0, 3} {
		w, buf := newWorld(t), new(record.Buffer)
		w.core.RecordTo(buf)
		w.policies(record.Policy{Match: "a", Attempts: attempts, MaxJobs: 9})
		p, next := w.join("a"), w.join("a")
		buf.Commit = 1
		id := p.put(1, 0, 1)
		wait := func(by *peer) uint64 {
			return by.do(Op{Kind: OpReserve, Client: by.id, Bound: MaxKey}, StatusReserved).Commit
		}
		got := []uint64{wait(p)}
		buf.Commit = 2
		p.release(id, 1, 0)
		buf.Commit = 3
		got = append(got, wait(p))
		next.do(Op{Kind: OpReserve, Client: next.id, Bound: MaxKey, Wait: true, Until: Never}, StatusWaiting)
		p.pass(Second) // its time to run ends
		got = append(got, next.waiter.Msg.Reply.Commit)
		want := []uint64{1, 2, 3}
		if attempts == 0 {
			want = []uint64{1, 1, 1} // the commit of the put
		}
		if !slices.Equal(got, want) {
			t.Errorf("attempts %d: reserves wait for the commits %v, want %v", attempts, got, want)
		}
	}
}

// TestARestartForgetsTheAttemptInProgress: also if compaction copies the job meanwhile. Otherwise the
// attempts of a job could skip the last of a series, and the job would have N more.
func TestARestartForgetsTheAttemptInProgress(t *testing.T) {
	w, buf := newWorld(t), new(record.Buffer)
	w.core.RecordTo(buf)
	w.policies(record.Policy{Match: "a", Attempts: 2})
	p := w.join("a")
	id := p.put(1, 0, 100)
	for _, want := range []uint32{0, 1} {
		p.reserve(id)
		buf.Data, buf.Refs = nil, nil
		w.core.CopyJob(id, math.MaxUint64)
		var r record.Record
		if _, err := record.Parse(&r, buf.Data); err != nil || r.Counts.Reserves != want {
			t.Errorf("attempt %d: the copy has %d attempts, %v", want+1, r.Counts.Reserves, err)
		}
		p.release(id, 1, 0)
	}
	p.isIn(id, Buried)
}

func TestFailedAttemptsAreDelayedLongerEachTime(t *testing.T) {
	w := newWorld(t)
	w.policies(record.Policy{Match: "a", Attempts: 5, Backoff: 4, BackoffMax: 10})
	p := w.join("a")
	id := p.put(1, 0, 100)
	for _, seconds := range []Time{4, 8, 10, 10} {
		p.reserve(id)
		p.release(id, 1, 0)
		if left := p.stats(id).TimeLeft; left < seconds*Second || left > seconds*Second*5/4 {
			t.Errorf("the delay is %d ns, want %d s and up to a quarter", left, seconds)
		}
		p.pass(seconds*Second*5/4 + 1)
	}
	p.reserve(id)
	p.release(id, 1, 100) // the last attempt ignores the worker's delay
	p.isIn(id, Buried)
	w.did("a", 1, 4)
	other := p.put(1, 0, 100)
	p.reserve(other)
	p.release(other, 1, 1) // others keep it
	if left := p.stats(other).TimeLeft; left != Second {
		t.Errorf("the worker's delay became %d ns", left)
	}
}

// TestAFreeSlotServesTheClientThatWaits, however the reservation has ended.
func TestAFreeSlotServesTheClientThatWaits(t *testing.T) {
	for name, end := range map[string]func(p *peer, id JobID){
		"delete": func(p *peer, id JobID) { p.on(OpDelete, id, StatusOK) },
		"bury":   func(p *peer, id JobID) { p.do(Op{Kind: OpBury, Client: p.id, ID: id}, StatusOK) },
		"delay":  func(p *peer, id JobID) { p.release(id, 1, 100) },
		"time":   func(p *peer, id JobID) { p.pass(10 * Second) },
		"close":  func(p *peer, id JobID) { p.do(Op{Kind: OpClose, Client: p.id, Tube: p.tube}, StatusOK) },
		"operator": func(p *peer, id JobID) {
			p.do(Op{Kind: opMany, Operator: &OperatorOp{ids: []JobID{id}, Act: Action{Verb: VerbBury, Force: true}}}, StatusOK)
		},
	} {
		w := newWorld(t)
		w.policies(record.Policy{Match: "a", RunningPlus: 2})
		p, q := w.join("a"), w.join("a")
		first := p.put(1, 0, 10)
		second := p.put(0, 0, 1<<20)
		p.on(OpDelete, second, StatusOK)
		p.reserve(first)
		p.put(1, 0, 1<<20)
		w.heldBy("a", HeldByRunning)
		p.nothing()
		q.wait(Never)
		if w.core.HasWoken() {
			t.Fatalf("%s: the client is served above the limit", name)
		}
		end(p, first)
		if !w.core.HasWoken() {
			t.Errorf("%s: the client still waits", name)
		}
		w.check()
	}
}

// TestATubeIsHeldUntilTheNextToken: the bucket begins full, and a tube without jobs and clients
// stays until it is full again.
func TestATubeIsHeldUntilTheNextToken(t *testing.T) {
	w := newWorld(t)
	w.policies(record.Policy{Match: "a", ThousandthsASecond: 2000, Burst: 2})
	p := w.join("a")
	for range 4 {
		p.put(1, 0, 100)
	}
	p.reserve(1)
	p.reserve(2)
	w.heldBy("a", HeldByRate)
	p.nothing()
	p.pass(Second/2 - 1)
	p.nothing()
	p.pass(1)
	p.reserve(3)
	p.nothing()
	p.pass(10 * Second)
	p.reserve(4)
	for id := range JobID(4) {
		p.on(OpDelete, id+1, StatusOK)
	}
	p.do(Op{Kind: OpClose, Client: p.id, Tube: p.tube}, StatusOK)
	if w.core.names["a"] == nil {
		t.Fatal("the tube has forgotten its spent token")
	}
	w.pass(Second / 2)
	if w.core.names["a"] != nil {
		t.Error("a tube with a full bucket stays")
	}
}

// TestARateIsExactAlthoughTimersAreLate: with the default bucket, a reserve that comes up to 99 ms
// late costs none.
func TestARateIsExactAlthoughTimersAreLate(t *testing.T) {
	w := newWorld(t)
	w.policies(record.Policy{Match: "a", ThousandthsASecond: 1_000_000})
	p := w.join("a")
	p.fill(3000, 1, 0)
	served := 0
	for range 20 {
		var r Reply
		for w.core.Apply(w.now, &Op{Kind: OpReserve, Client: p.id, Bound: MaxKey}, &r); r.Status == StatusReserved; served++ {
			w.core.Apply(w.now, &Op{Kind: OpReserve, Client: p.id, Bound: MaxKey}, &r)
		}
		w.now += 99 * Second / 1000
	}
	if served != 100+19*99 {
		t.Errorf("%d reserves in 1.881 s, want 1,000 a second after the first 100", served)
	}
}

func TestAFullTubeRefusesOrDropsTheOldest(t *testing.T) {
	w := newWorld(t)
	w.policies(record.Policy{Match: "a", MaxJobs: 2}, record.Policy{Match: "b", MaxJobs: 2, MaxBytes: 14, Full: record.PolicyDropOldest})
	p, q := w.join("a"), w.join("b")
	full := func(p *peer, body int, want Status) {
		t.Helper()
		p.last++
		p.do(Op{Kind: OpPut, Client: p.id, Tube: p.tube, ID: p.last, TTR: 1, Body: make([]byte, body)}, want)
	}
	p.put(1, 0, 1)
	p.put(1, 100, 1)
	full(p, 1, StatusFull)
	w.did("a", 0, 0, 0, 0, 1)

	oldest := q.put(5, 0, 1) // 5 bytes
	second := q.put(1, 0, 1)
	third := q.put(9, 0, 1)
	w.do(Op{Kind: OpPeek, ID: oldest}, StatusNotFound)
	full(q, 15, StatusFull) // it would never fit, so nothing is dropped
	w.isIn(second, Ready)
	full(q, 9, StatusOK) // by bytes
	w.do(Op{Kind: OpPeek, ID: second}, StatusNotFound)
	w.isIn(third, Ready)
	w.did("b", 0, 0, 0, 2, 1)
}

// TestATubeFarAboveItsLimitTakesPutsAgain: each put drops boundedMax jobs, until one fits. A body that
// can never fit drops none.
func TestATubeFarAboveItsLimitTakesPutsAgain(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	for range 2*boundedMax + 5 {
		p.put(5, 0, 1)
	}
	w.policies(record.Policy{Match: "a", MaxJobs: 5000, MaxBytes: w.core.names["a"].bytes, Full: record.PolicyDropOldest})
	most := int(w.core.names["a"].bytes)
	put := func(size int, want Status) {
		t.Helper()
		p.last++
		p.do(Op{Kind: OpPut, Client: p.id, Tube: p.tube, ID: p.last, TTR: 1, Body: make([]byte, size)}, want)
	}
	put(most+1, StatusFull)
	w.did("a", 0, 0, 0, 0, 1)
	put(most-1, StatusFull)
	put(most-1, StatusFull)
	w.did("a", 0, 0, 0, 2*boundedMax, 3)
	put(most-1, StatusOK)
	w.check()
}

// TestFlushedJobsDropNoNewerOnes: a tube has the bytes of flushed jobs until they are collected.
func TestFlushedJobsDropNoNewerOnes(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	for range 300 {
		p.put(5, 0, 1)
	}
	w.policies(record.Policy{Match: "a", MaxBytes: w.core.names["a"].bytes, Full: record.PolicyDropOldest})
	w.core.ensureCollection().most = 1
	w.flush("a", StatesOf(Ready), 300)
	first := p.put(5, 0, 1)
	p.put(5, 0, 1)
	p.isIn(first, Ready)
	w.did("a")
}

// TestReadyJobsExpire: in steps of at most expireMax jobs, so that no client waits for long.
func TestReadyJobsExpire(t *testing.T) {
	for _, buries := range []bool{false, true} {
		w := newWorld(t)
		policy := record.Policy{Match: "a", TTL: 10, BuriedTTL: 100}
		if buries {
			policy.Expired = record.PolicyBury
		}
		w.policies(policy)
		p := w.join("a")
		p.fill(3000, 1, 0)
		delayed := p.put(1, 5, 1)
		reserved := p.put(0, 0, 1000)
		p.reserve(reserved)
		p.now += 10 * Second
		steps := 0
		for ; w.core.Next() <= w.now; steps++ {
			w.core.Expire(w.now)
		}
		w.check()
		if steps < 3 {
			t.Errorf("3000 jobs expire in %d steps", steps)
		}
		p.isIn(delayed, Ready) // for 5 s only
		p.isIn(reserved, Reserved)
		w.did("a", 0, 0, 3000)
		buried := w.core.tubeRow(w.core.names["a"]).Buried
		if buries != (buried == 3000) {
			t.Errorf("%d jobs are buried", buried)
		}
		p.pass(5 * Second)
		w.did("a", 0, 0, 3001)
	}
}

// TestAChangedPolicyAppliesAtOnce, in steps, also to the jobs that a tube has already.
func TestAChangedPolicyAppliesAtOnce(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	p.fill(5000, 1, 0)
	w.policies(record.Policy{Match: "*", MaxJobs: 10, Full: record.PolicyDropOldest})
	w.core.Expire(w.now)
	if ready := w.core.tubeRow(w.core.names["a"]).Ready; ready == 10 || ready == 5000 {
		t.Errorf("%d jobs are left after one step", ready)
	}
	for w.core.Next() <= w.now {
		w.core.Expire(w.now)
	}
	w.did("a", 0, 0, 0, 4990)
	w.policies(record.Policy{Match: "a", RunningPlus: 1})
	w.heldBy("a", HeldByRunning)
	p.nothing()
	p.wait(Never)
	w.policies()
	if !w.core.HasWoken() {
		t.Error("the client still waits after the policy is removed")
	}
}

// TestTheRecordedSetHasRoom: a full disk keeps room for the record of a set as long as it holds, and
// so for the record that removes it.
func TestTheRecordedSetHasRoom(t *testing.T) {
	w := newWorld(t)
	buf := new(record.Buffer)
	w.core.RecordTo(buf)
	for _, list := range [][]record.Policy{{{Match: "a", TTL: 1}, {Match: "b", Note: "long"}}, {{Match: "b"}}, nil} {
		op := new(Op)
		op.SetPolicies(NewPolicies(list), true)
		w.do(*op, StatusOK)
		want := int64(0)
		if len(list) > 0 {
			want = int64(len(record.AppendPolicies(nil, list)))
		}
		if buf.Pauses != want {
			t.Errorf("%d bytes are kept for %d policies, want %d", buf.Pauses, len(list), want)
		}
	}
}
