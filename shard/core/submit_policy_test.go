package core

import (
	"fmt"
	"testing"

	"polystalk/shard/record"
)

// police gives the function f a policy; nil removes it.
func (w *functionWorld) police(p *record.Policy) {
	w.t.Helper()
	var list []record.Policy
	if p != nil {
		p.Match = "f"
		list = append(list, *p)
	}
	op := new(Op)
	op.SetPolicies(NewPolicies(list), false)
	w.core.Apply(w.now, op, new(Reply))
	w.core.Classify(0)
	w.check()
}

// done counts what the policy of f did.
func (w *functionWorld) done(e PolicyEvent, want uint64) {
	w.t.Helper()
	if n := w.core.findTube([]byte("f")).policy.events[e]; n != want {
		w.t.Fatalf("event %d: %d times, want %d", e, n, want)
	}
}

// failures are the ways in which an attempt of a Gearman worker fails: it reports a failure, or it
// is lost. Each ends the attempt of p at the only job of f that it runs.
var failures = []struct {
	name     string
	reported bool // by the worker
	fail     func(w *functionWorld, p *functionPeer, f TubeID, id JobID)
}{
	{"WORK_FAIL", true, func(_ *functionWorld, p *functionPeer, _ TubeID, id JobID) { p.report(id, RelayFailed, "", StatusOK) }},
	{"WORK_EXCEPTION", true, func(_ *functionWorld, p *functionPeer, _ TubeID, id JobID) {
		p.report(id, RelayException, "boom", StatusOK)
	}},
	{"timeout", false, func(w *functionWorld, p *functionPeer, f TubeID, id JobID) {
		w.pass(5 * Second)
		p.report(id, RelayDone, "late", StatusNotFound)
	}},
	{"CANT_DO", false, func(_ *functionWorld, p *functionPeer, f TubeID, id JobID) {
		p.op(Op{Kind: opUnregister, Tube: f}, StatusOK)
		p.report(id, RelayDone, "late", StatusNotFound)
		p.able("f", 5*Second)
	}},
	{"hang up", false, func(_ *functionWorld, p *functionPeer, _ TubeID, _ JobID) {
		p.close()
		p.id = 0
		p.able("f", 5*Second)
	}},
}

// TestBackgroundJobHasAttempts: each failure of a background job is an attempt. Its followers hear of
// the last one only, then the job is buried, and its unique id is free. A kick gives it a new series.
func TestBackgroundJobHasAttempts(t *testing.T) {
	for _, by := range failures {
		for _, o := range []SubmitOptions{{}, {BuryFailed: true}, {Retries: 1}} {
			for _, backoff := range []uint64{0, 2} {
				t.Run(fmt.Sprintf("%s %+v %d", by.name, o, backoff), func(t *testing.T) {
					w := newFunctionWorld(t, o)
					c, p := w.session(), w.session()
					f := p.able("f", 5*Second)
					w.police(&record.Policy{Attempts: 3, Backoff: backoff})
					c.submit("f", "u", "x", 1024, true, 1)
					c.submit("f", "u", "x", 1024, false, 1)
					p.grab(f, 1)
					p.function.Numerator, p.function.Denominator = 1, 2
					p.report(1, RelayStatus, "12", StatusOK)
					c.hears(fmt.Sprintf("%d*1:1:12", RelayStatus))
					for n := 1; n < 3; n++ {
						by.fail(w, p, f, 1)
						c.hears()
						c.submit("f", "u", "x", 1024, true, 1) // joins it meanwhile
						c.op(Op{Kind: opJobStatus, ID: 1}, StatusOK)
						if c.function.Numerator+c.function.Denominator != 0 {
							t.Errorf("attempt %d begins at %d/%d", n+1, c.function.Numerator, c.function.Denominator)
						}
						if lost := w.core.submissions.progressOf(w.job(1).submission()).lost; !by.reported && lost != uint32(n) || by.reported && lost != 0 {
							t.Errorf("it has lost %d workers", lost)
						}
						if backoff > 0 {
							w.isIn(1, Delayed)
							p.grab(f, 0)
							w.pass(2*2*2*Second - 1)
						}
						p.grab(f, 1)
					}
					by.fail(w, p, f, 1)
					switch by.name {
					case "WORK_EXCEPTION":
						c.hears(fmt.Sprintf("%d*1:1:boom", RelayException))
					default:
						c.hears(fmt.Sprintf("%d*1:1:", RelayFailed))
					}
					w.isIn(1, Buried)
					w.done(PolicyDead, 1)
					if by := w.job(1).buriedBy(); by != BuriedByAttempts {
						t.Errorf("buried by %d", by)
					}
					c.submit("f", "u", "x", 1024, true, 2)
					p.grab(f, 2)
					p.report(2, RelayDone, "", StatusOK)
					w.isOver(2)
					w.do(Op{Kind: OpKickJob, ID: 1}, StatusOK)
					p.grab(f, 1)
					by.fail(w, p, f, 1)
					if s := w.stats(1); s.State == Buried {
						t.Error("the second series has one attempt")
					}
				})
			}
		}
	}
}

func (w *functionWorld) job(id JobID) *Job {
	w.t.Helper()
	_, j, _ := w.core.find(id)
	if j == nil {
		w.t.Fatalf("there is no job %d", id)
	}
	return j
}

// TestForegroundJobFailsAtOnce: its client learns of a reported failure. A lost worker is an attempt.
func TestForegroundJobFailsAtOnce(t *testing.T) {
	for _, by := range failures {
		t.Run(by.name, func(t *testing.T) {
			w := newFunctionWorld(t, SubmitOptions{BuryFailed: true, Retries: 1})
			c, p := w.session(), w.session()
			f := p.able("f", 5*Second)
			w.police(&record.Policy{Attempts: 2, Backoff: 1, BackoffMax: 1})
			c.submit("f", "u", "x", 1024, false, 1)
			p.grab(f, 1)
			by.fail(w, p, f, 1)
			if !by.reported {
				c.hears()
				w.pass(2 * Second)
				p.grab(f, 1)
				by.fail(w, p, f, 1)
				w.done(PolicyDead, 1)
			}
			want := fmt.Sprintf("%d*1:1:", RelayFailed)
			if by.name == "WORK_EXCEPTION" {
				want = fmt.Sprintf("%d*1:1:boom", RelayException)
			}
			c.hears(want)
			w.isOver(1)
			c.submit("f", "u", "x", 1024, false, 2)
		})
	}
}

// TestPutJobOfAGearmanWorkerHasAttempts: a job that was put has them too.
func TestPutJobOfAGearmanWorkerHasAttempts(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	b, p := w.join("f"), w.session()
	f := p.able("f", 0)
	w.police(&record.Policy{Attempts: 2})
	b.put(1024, 0, 9)
	p.grab(f, 1)
	p.report(1, RelayFailed, "", StatusOK)
	w.isIn(1, Ready)
	p.grab(f, 1)
	p.report(1, RelayException, "e", StatusOK)
	w.isIn(1, Buried)
	w.done(PolicyDead, 1)
}

// TestBackoffAloneKeepsRetries: without attempts a reported failure ends the job, as ever, and
// --gearman-retries counts lost workers, which wait for the back-off.
func TestBackoffAloneKeepsRetries(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{Retries: 2})
	c, p := w.session(), w.session()
	f := p.able("f", 5*Second)
	w.police(&record.Policy{Backoff: 1, BackoffMax: 1})
	c.submit("f", "", "x", 1024, true, 1)
	c.submit("f", "", "x", 1024, true, 2)
	p.grab(f, 1)
	p.report(1, RelayFailed, "", StatusOK)
	w.isOver(1)
	p.grab(f, 2)
	w.pass(5 * Second)
	w.isIn(2, Delayed)
	w.pass(2 * Second)
	p.grab(f, 2)
	w.pass(5 * Second)
	w.isOver(2)
}

// TestFailedJobGoesToTheTail: a job without a back-off lets the others go first.
func TestFailedJobGoesToTheTail(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	c, p := w.session(), w.session()
	f := p.able("f", 0)
	w.police(&record.Policy{Attempts: 3})
	for id := range JobID(3) {
		c.submit("f", "", "x", 1024, true, id+1)
	}
	p.grab(f, 1)
	p.report(1, RelayFailed, "", StatusOK)
	p.grab(f, 2, 3, 1, 0)
}

// TestJobEndsDuringItsBackoff: cancel and a client that leaves end it as at any other time.
func TestJobEndsDuringItsBackoff(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	c, q, p := w.session(), w.session(), w.session()
	f := p.able("f", 1*Second)
	w.police(&record.Policy{Attempts: 5, Backoff: 60})
	c.submit("f", "u", "x", 1024, true, 1)
	c.submit("f", "u", "x", 1024, false, 1)
	q.submit("f", "v", "x", 1024, false, 2)
	p.grab(f, 1, 2)
	w.pass(1 * Second)
	w.isIn(1, Delayed)
	w.isIn(2, Delayed)
	c.op(Op{Kind: opCancelJob, ID: 1}, StatusOK)
	c.hears(fmt.Sprintf("%d*1:1:", RelayFailed))
	c.op(Op{Kind: opCancelJob, ID: 1}, StatusNotFound)
	q.close()
	w.isOver(1, 2)
	c.submit("f", "u", "x", 1024, true, 3)
	p.grab(f, 3, 0)
	// A job that is cancelled while it runs has no further attempt.
	c.op(Op{Kind: opCancelJob, ID: 3}, StatusOK)
	p.report(3, RelayFailed, "", StatusOK)
	w.isOver(3)
	w.done(PolicyDelayed, 2)
}

// TestReduceJobKeepsItsReducer through its attempts.
func TestReduceJobKeepsItsReducer(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{})
	c, p := w.session(), w.session()
	f := p.able("f", 0)
	w.police(&record.Policy{Attempts: 2})
	c.function.setReducer([]byte("sum"))
	c.submit("f", "u", "x", 1024, true, 1)
	for range 2 {
		p.grab(f, 1)
		if got := string(p.function.Reducer()) + " " + string(p.function.Unique()); got != "sum u" {
			t.Errorf("%q", got)
		}
		p.report(1, RelayFailed, "", StatusOK)
	}
	w.isIn(1, Buried)
}

// TestSleepersWakeWhenATubeIsNoLongerHeld: for each slot and token, and for all jobs once the policy
// is gone.
func TestSleepersWakeWhenATubeIsNoLongerHeld(t *testing.T) {
	for _, wakeup := range []int{0, 1} {
		for _, tt := range []struct {
			name   string
			policy record.Policy
			free   func(w *functionWorld, p *functionPeer) (wokenByOne int)
		}{
			{"slot", record.Policy{RunningPlus: 2}, func(_ *functionWorld, p *functionPeer) int {
				p.report(1, RelayDone, "", StatusOK)
				return 1
			}},
			{"slot of a lost worker", record.Policy{RunningPlus: 2}, func(_ *functionWorld, p *functionPeer) int {
				p.close()
				return 3 // one for the slot, one for the job, one since a worker has left
			}},
			{"slot of a cancelled job", record.Policy{RunningPlus: 2}, func(w *functionWorld, p *functionPeer) int {
				w.do(Op{Kind: opCancelJob, ID: 1, Function: &FunctionOp{}}, StatusOK)
				p.report(1, RelayFailed, "", StatusOK)
				return 1
			}},
			{"token", record.Policy{ThousandthsASecond: 1000}, func(w *functionWorld, _ *functionPeer) int {
				w.pass(1 * Second)
				return 1
			}},
			{"no policy", record.Policy{RunningPlus: 1}, func(w *functionWorld, _ *functionPeer) int {
				w.police(nil)
				return 3
			}},
			{"another policy", record.Policy{RunningPlus: 1}, func(w *functionWorld, _ *functionPeer) int {
				w.police(&record.Policy{RunningPlus: 9})
				return 3
			}},
		} {
			t.Run(fmt.Sprint(tt.name, wakeup), func(t *testing.T) {
				w := newFunctionWorld(t, SubmitOptions{Wakeup: wakeup})
				c, p := w.session(), w.session()
				f := p.able("f", 0)
				c.submit("f", "", "x", 1024, true, 1)
				w.police(&tt.policy)
				if tt.policy.RunningPlus != 1 {
					p.grab(f, 1)
				}
				p.grab(f, 0)
				sleepers := []*functionPeer{w.sleeper(), w.sleeper(), w.sleeper(), w.sleeper()}
				for id := range JobID(2) {
					c.submit("f", "", "x", 1024, true, id+2)
				}
				for _, s := range sleepers {
					s.hears()
				}
				n := tt.free(w, p)
				if wakeup == 0 {
					n = len(sleepers)
				}
				for i, s := range sleepers {
					if i < n {
						s.hears("noop")
					} else {
						s.hears()
					}
				}
			})
		}
	}
}

// TestWokenWorkerWakesTheNext: with --gearman-wakeup, a worker that grabs late has slept through
// several tokens.
func TestWokenWorkerWakesTheNext(t *testing.T) {
	w := newFunctionWorld(t, SubmitOptions{Wakeup: 1})
	c, p := w.session(), w.session()
	f := p.able("f", 0)
	w.police(&record.Policy{ThousandthsASecond: 1000, Burst: 2})
	for id := range JobID(5) {
		c.submit("f", "", "x", 1024, true, id+1)
	}
	p.grab(f, 1, 2, 0)
	all := []*functionPeer{w.sleeper(), w.sleeper(), w.sleeper()}
	w.pass(5 * Second)
	all[0].hears("noop")
	all[1].hears()
	all[0].grab(f, 3)
	all[1].hears("noop")
	all[1].grab(f, 4, 0)
	all[2].hears()
}

// TestReserveJobUpdatesTheMirror: it may take the last slot or token. Workers that then still saw a
// job would ask for it again and again.
func TestReserveJobUpdatesTheMirror(t *testing.T) {
	for _, p := range []record.Policy{{RunningPlus: 2}, {ThousandthsASecond: 1000}} {
		for _, state := range []State{Ready, Delayed, Buried} {
			w := newFunctionWorld(t, SubmitOptions{})
			b, g := w.join("f"), w.session()
			f := g.able("f", 0)
			w.police(&p)
			switch state {
			case Delayed:
				b.put(0, 99, 9)
			default:
				b.put(0, 0, 9)
			}
			if state == Buried {
				b.reserve(1)
				b.on(OpBury, 1, StatusOK)
				w.pass(2 * Second)
			}
			b.put(0, 0, 9)
			b.on(OpReserveJob, 1, StatusReserved)
			if k, ok := w.core.findTube([]byte("f")).mirror.Load(); ok {
				t.Errorf("%+v, %s: the mirror shows job %d", p, state, k.ID)
			}
			g.grab(f, 0)
			b.on(OpDelete, 1, StatusOK)
			w.pass(2 * Second)
			g.grab(f, 2)
		}
	}
}

// TestSlotOfAClosedTube: the last job of a tube ends, and the core shrinks its table of tubes.
func TestSlotOfAClosedTube(t *testing.T) {
	w := newWorld(t)
	peers := make([]*peer, 2*shrinkMin)
	for i := range peers {
		peers[i] = w.join(fmt.Sprintf("t%d", i))
	}
	w.core.InstallPolicies(NewPolicies([]record.Policy{{Match: "t*", RunningPlus: 2}}))
	last := len(peers) - 1
	id := peers[last].put(0, 0, 9)
	peers[0].do(Op{Kind: OpReserveJob, Client: peers[0].id, ID: id}, StatusReserved)
	for _, p := range peers[len(peers)/shrinkPart-1:] { // one tube more than a table that shrinks
		w.core.Apply(w.now, made(&Op{Kind: OpClose, Client: p.id, Tube: p.tube}), new(Reply))
	}
	peers[0].on(OpDelete, id, StatusOK)
	if n := len(w.core.tubes); n > len(peers)/2 {
		t.Errorf("the table has still %d places", n)
	}
	w.check()
}

// TestBothLimitsOfAFunctionApply: the smaller one of maxqueue and max_jobs. A submission that
// maxqueue refuses drops no job.
func TestBothLimitsOfAFunctionApply(t *testing.T) {
	for _, tt := range []struct {
		most    uint32
		policy  record.Policy
		room    int // for jobs
		dropped bool
	}{
		{3, record.Policy{MaxJobs: 2}, 2, false},
		{2, record.Policy{MaxJobs: 3}, 2, false},
		{2, record.Policy{MaxJobs: 2, Full: record.PolicyDropOldest}, 2, false},
		{3, record.Policy{MaxJobs: 2, Full: record.PolicyDropOldest}, 2, true},
		{0, record.Policy{MaxBytes: 2}, 2, false},
		{0, record.Policy{MaxBytes: 2, Full: record.PolicyDropOldest}, 2, true},
	} {
		w := newFunctionWorld(t, SubmitOptions{})
		c, p := w.session(), w.session()
		p.able("f", 0)
		p.function.Limits = [NumClasses]uint32{tt.most, tt.most, tt.most}
		p.op(Op{Kind: opLimitFunction, Name: []byte("f")}, StatusOK)
		w.police(&tt.policy)
		for i := range tt.room {
			c.submit("f", fmt.Sprint(i), "x", 1024, false, JobID(i+1))
		}
		c.submit("f", "0", "x", 1024, false, 1) // it joins, although the function is full
		if tt.dropped {
			c.submit("f", "new", "x", 1024, true, JobID(tt.room+1))
			c.hears(fmt.Sprintf("%d*2:1:", RelayFailed))
			w.isOver(1)
			w.done(PolicyDropped, 1)
			c.submit("f", "0", "x", 1024, true, JobID(tt.room+2)) // its unique id is free
			continue
		}
		c.function.setUnique([]byte("new"))
		c.op(Op{Kind: opSubmit, Name: []byte("f"), Pri: 1024, Body: []byte("x")}, StatusFull)
		c.hears()
		w.isIn(1, Ready)
	}
}

// TestExpiredSubmissions: followers hear of a failure. Only a background job is worth burying.
func TestExpiredSubmissions(t *testing.T) {
	for _, expired := range []uint64{record.PolicyDelete, record.PolicyBury} {
		w := newFunctionWorld(t, SubmitOptions{})
		c := w.session()
		w.session().able("f", 0)
		w.police(&record.Policy{TTL: 5, Expired: expired})
		c.submit("f", "a", "x", 1024, false, 1)
		c.submit("f", "b", "x", 1024, true, 2)
		c.submit("f", "b", "x", 1024, false, 2)
		c.function.Due = w.now + 60*Second
		c.submit("f", "c", "x", 1024, true, 3)
		w.pass(5 * Second)
		c.hears(fmt.Sprintf("%d*1:1:", RelayFailed), fmt.Sprintf("%d*1:2:", RelayFailed))
		w.isOver(1)
		if expired == record.PolicyBury {
			w.isIn(2, Buried)
		} else {
			w.isOver(2)
		}
		w.isIn(3, Delayed)
		w.done(PolicyExpired, 2)
		c.submit("f", "b", "x", 1024, true, 4)
	}
}

// TestFailedAttemptIsRecordedIfThereIsRoom: reports of failures are let in on a full disk, since most
// of them free room.
func TestFailedAttemptIsRecordedIfThereIsRoom(t *testing.T) {
	for _, tight := range []bool{false, true} {
		for _, backoff := range []uint64{0, 1} {
			for _, by := range failures {
				w := newFunctionWorld(t, SubmitOptions{})
				buf := &record.Buffer{}
				w.core.RecordTo(buf)
				c, p := w.session(), w.session()
				f := p.able("f", 5*Second)
				w.police(&record.Policy{Attempts: 2, Backoff: backoff})
				c.submit("f", "u", "x", 1024, true, 1)
				was := buf.Records
				buf.Tight = tight
				p.grab(f, 1)
				by.fail(w, p, f, 1)
				if got := buf.Records - was; got != 1 && !tight || got != 0 && tight {
					t.Errorf("tight %v, back-off %d, %s: %d records", tight, backoff, by.name, got)
				}
				var last record.Record
				for data := buf.Data; len(data) > 0; {
					n, err := record.Parse(&last, data)
					if err != nil {
						t.Fatal(err)
					}
					data = data[n:]
				}
				if !tight && (last.Counts.Reserves != 1 || last.State == record.Delayed != (backoff > 0) || last.Submitted.Lost > 0 == by.reported) {
					t.Errorf("back-off %d, %s: recorded as %+v", backoff, by.name, last.Job)
				}
			}
		}
	}
}
