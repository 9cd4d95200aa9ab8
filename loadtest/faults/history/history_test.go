package history

import (
	"slices"
	"testing"
	"time"

	"polystalk/loadtest/bench"
)

// A play is a History with a clock of seconds, and what it found.
type play struct {
	t     *testing.T
	h     *History
	found []Violation
}

func newPlay(t *testing.T) *play {
	p := &play{t: t}
	p.h = New(Options{Tubes: []string{"a", "b"}, Slack: time.Second / 4, Found: func(v Violation) { p.found = append(p.found, v) }})
	return p
}

// at is a call of so many seconds.
func at(invoked, answered float64) Call {
	return Call{int64(invoked * float64(time.Second)), int64(answered * float64(time.Second))}
}

func bodyOf(t Token) []byte {
	b := make([]byte, 40)
	bench.PutStamp(b, uint64(t))
	return b
}

// sent is a put without an answer; given may change it.
func (p *play) sent(invoked float64, given ...func(*Put)) Token {
	k := p.h.Token()
	put := Put{Pri: 7, TTR: 60, Body: bodyOf(k)}
	for _, f := range given {
		f(&put)
	}
	p.h.Putting(k, put, at(invoked, 0).Invoked)
	return k
}

// put is one that was acknowledged within a second, with the token's number as its id.
func (p *play) put(invoked float64, given ...func(*Put)) Token {
	k := p.sent(invoked, given...)
	p.h.Inserted(k, uint64(k), at(invoked, invoked+1))
	return k
}

// reserve hands the job of k to a new session.
func (p *play) reserve(k Token, invoked, answered float64) *Session {
	s := p.h.Connect()
	p.again(s, k, invoked, answered)
	return s
}

func (p *play) again(s *Session, k Token, invoked, answered float64) {
	p.t.Helper()
	if got, ok := s.Reserved(uint64(k), bodyOf(k), at(invoked, answered)); !ok || got != k {
		p.t.Fatalf("the body of put %d is not recognised: %d", k, got)
	}
}

// drain sees the jobs of ks at the end.
func (p *play) drain(ks ...Token) {
	p.h.Rest()
	s := p.h.Connect()
	for _, k := range ks {
		p.again(s, k, 1000, 1001)
		s.Deleted(k, at(1001, 1002))
	}
}

func delayed(d time.Duration) func(*Put) { return func(p *Put) { p.Delay = d } }
func ttr(s uint32) func(*Put)            { return func(p *Put) { p.TTR = s } }

var histories = []struct {
	name string
	want Rule // empty: it is a correct server's
	play func(p *play)
}{
	{"a put that is there at the end", "", func(p *play) { p.drain(p.put(0)) }},
	{"a put that is not there at the end", Lost, func(p *play) { p.put(0); p.drain() }},
	{"a put in doubt that is not there", "", func(p *play) { p.sent(0); p.drain() }},
	{"a put in doubt that is there", "", func(p *play) { p.drain(p.sent(0)) }},
	{"a put that was refused and is there", Unwanted, func(p *play) { k := p.sent(0); p.h.Refused(k); p.drain(k) }},
	{"a delete in doubt that took effect", "", func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		s.DeleteInDoubt(k, 4)
		s.Broken()
		p.drain()
	}},
	{"a delete in doubt that did not", "", func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		s.DeleteInDoubt(k, 4)
		s.Broken()
		p.drain(k)
	}},
	{"a release in doubt, and the job is gone", Lost, func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		s.ChangeInDoubt(k, 1, 4)
		s.Broken()
		p.drain()
	}},
	{"deleted", "", func(p *play) { k := p.put(0); p.reserve(k, 2, 3).Deleted(k, at(4, 5)); p.drain() }},
	{"deleted, and there at the end", Back, func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Deleted(k, at(4, 5))
		p.drain(k)
	}},
	{"reserved after it was deleted", Late, func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Deleted(k, at(4, 5))
		p.reserve(k, 6, 7)
	}},
	{"the same, told in the other order", Late, func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		p.reserve(k, 6, 7)
		s.Deleted(k, at(4, 5))
	}},
	{"reserved by a call from before it was deleted", "", func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		s.Broken()
		p.reserve(k, 4, 5).Deleted(k, at(6, 8))
		p.reserve(k, 7, 9)
		p.drain()
	}},
	{"deleted twice", Late, func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		s.Deleted(k, at(4, 5))
		s.Deleted(k, at(6, 7))
	}},
	{"a byte is another", Altered, func(p *play) {
		k := p.put(0)
		b := bodyOf(k)
		b[len(b)-1]++
		p.h.Connect().Reserved(uint64(k), b, at(2, 3))
	}},
	{"a byte is missing", Altered, func(p *play) {
		k := p.put(0)
		b := bodyOf(k)
		p.h.Connect().Reserved(uint64(k), b[:len(b)-1], at(2, 3))
	}},
	{"a body without a token", Stranger, func(p *play) { p.h.Connect().Reserved(9, []byte("hello"), at(2, 3)) }},
	{"a body of a token that was never used", Stranger, func(p *play) { p.h.Connect().Reserved(9, bodyOf(12), at(2, 3)) }},
	{"two puts with the same id", IDTwice, func(p *play) {
		p.put(0)
		p.h.Inserted(p.sent(2), 1, at(2, 3))
	}},
	{"two puts with the same id, one of them in doubt", IDTwice, func(p *play) {
		p.put(0)
		k := p.sent(2)
		p.h.Connect().Reserved(1, bodyOf(k), at(3, 4))
	}},
	{"one put and two jobs", IDTwice, func(p *play) {
		k := p.put(0)
		p.h.Connect().Reserved(99, bodyOf(k), at(3, 4))
	}},
	{"reserved by another while it is held", Overlap, func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		p.reserve(k, 4, 5)
		s.Deleted(k, at(6, 7))
	}},
	{"the same, told in the other order", Overlap, func(p *play) {
		k := p.put(0)
		p.reserve(k, 4, 5)
		s := p.reserve(k, 2, 3)
		s.Released(k, 7, 0, at(6, 7))
	}},
	{"the same, and the first connection lives but breaks", Overlap, func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		p.reserve(k, 4, 5)
		s.Answered(at(6, 7).Invoked)
		s.Broken()
	}},
	{"reserved by another once the connection has broken", "", func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		s.Answered(at(3, 4).Invoked)
		p.reserve(k, 4, 5)
		s.Broken()
		p.drain(k)
	}},
	{"reserved by another once the connection has broken, before a delete in doubt", "", func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		p.reserve(k, 4, 5).Broken()
		s.DeleteInDoubt(k, 6)
		s.Broken()
		p.drain(k)
	}},
	{"reserved by another, and an answer came before a delete in doubt", Overlap, func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		p.reserve(k, 4, 5)
		s.Answered(at(6, 7).Invoked)
		s.DeleteInDoubt(k, 8)
		s.Broken()
	}},
	{"reserved by another while the first lets go", "", func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		p.reserve(k, 4, 7)
		s.Released(k, 7, 0, at(5, 6))
		p.drain(k)
	}},
	{"reserved by another before the TTR is over", Overlap, func(p *play) {
		k := p.put(0, ttr(10))
		s := p.reserve(k, 2, 3)
		p.reserve(k, 4, 5)
		s.Answered(at(100, 101).Invoked)
		s.Broken()
	}},
	{"reserved by another when the TTR is over", "", func(p *play) {
		k := p.put(0, ttr(10))
		s := p.reserve(k, 2, 3)
		p.reserve(k, 11, 13)
		s.Answered(at(20, 21).Invoked)
		s.Broken()
		p.drain(k)
	}},
	{"reserved by another before a touched TTR is over", Overlap, func(p *play) {
		k := p.put(0, ttr(10))
		s := p.reserve(k, 2, 3)
		s.Touched(k, at(9, 10))
		p.reserve(k, 14, 15)
		s.Deleted(k, at(16, 17))
	}},
	{"released by who holds it no longer", Overlap, func(p *play) {
		k := p.put(0, ttr(1))
		s := p.reserve(k, 2, 3)
		two := p.reserve(k, 4, 4.1)
		s.Released(k, 7, 0, at(4.2, 4.3))
		two.Deleted(k, at(4.4, 4.5))
	}},
	{"kicked while it is held", Overlap, func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		p.h.Kicking(k)
		p.h.Kicked(k, at(4, 5), true)
		s.Deleted(k, at(6, 7))
	}},
	{"told NOT_FOUND while it is held", Disowned, func(p *play) { k := p.put(0); p.reserve(k, 2, 3).NotFound(k, at(4, 5)) }},
	{"told NOT_FOUND when the TTR is over", "", func(p *play) {
		k := p.put(0, ttr(1))
		p.reserve(k, 2, 3).NotFound(k, at(4, 5))
		p.drain(k)
	}},
	{"delayed, and too early", Early, func(p *play) { p.reserve(p.put(0, delayed(10*time.Second)), 2, 3) }},
	{"delayed by a put in doubt, and too early", Early, func(p *play) { p.reserve(p.sent(0, delayed(10*time.Second)), 2, 3) }},
	{"delayed, and in time", "", func(p *play) { k := p.put(0, delayed(2*time.Second)); p.reserve(k, 2, 3).Broken(); p.drain(k) }},
	{"delayed and kicked", "", func(p *play) {
		k := p.put(0, delayed(10*time.Second))
		p.h.Kicking(k)
		p.reserve(k, 2, 3).Broken()
		p.h.Kicked(k, at(1, 4), true)
		p.drain(k)
	}},
	{"released with a delay, and too early", Early, func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Released(k, 1, 10*time.Second, at(4, 5))
		p.reserve(k, 6, 7)
	}},
	{"released with a delay in doubt", "", func(p *play) {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		s.ChangeInDoubt(k, 1, 4)
		s.Broken()
		p.reserve(k, 6, 7).Broken()
		p.drain(k)
	}},
	{"buried and handed out", Unburied, func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Buried(k, 1, at(4, 5))
		p.reserve(k, 6, 7)
	}},
	{"kicked, buried and handed out", Unburied, func(p *play) {
		k := p.put(0)
		p.h.Kicking(k)
		p.h.Kicked(k, at(2, 3), false)
		p.reserve(k, 4, 5).Buried(k, 1, at(6, 7))
		p.reserve(k, 8, 9)
	}},
	{"buried, kicked and handed out", "", func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Buried(k, 1, at(4, 5))
		p.h.Kicking(k)
		p.h.Kicked(k, at(6, 7), true)
		p.reserve(k, 8, 9).Broken()
		p.drain(k)
	}},
	{"buried, its tube kicked", "", func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Buried(k, 1, at(4, 5))
		p.h.KickingTube(0)
		p.reserve(k, 6, 7).Broken()
		p.h.KickedTube(0, at(0, 8).Answered)
		p.drain(k)
	}},
	{"buried, another tube kicked", Unburied, func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Buried(k, 1, at(4, 5))
		p.h.KickingTube(1)
		p.reserve(k, 6, 7)
	}},
	{"at rest as it was put", "", func(p *play) {
		k := p.put(0)
		p.h.Rest()
		p.h.Look(k, Sight{"a", "ready", 7, 60}, at(100, 101))
	}},
	{"at rest, reserved by nobody knows whom", "", func(p *play) {
		k := p.put(0)
		p.h.Rest()
		p.h.Look(k, Sight{"a", "reserved", 7, 60}, at(100, 101))
	}},
	{"at rest, buried and reserved", Changed, func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Buried(k, 1, at(4, 5))
		p.h.Look(k, Sight{"a", "reserved", 1, 60}, at(100, 101))
	}},
	{"at rest in another tube", Changed, func(p *play) {
		p.h.Look(p.put(0), Sight{"b", "ready", 7, 60}, at(100, 101))
	}},
	{"at rest with another priority", Changed, func(p *play) {
		p.h.Look(p.put(0), Sight{"a", "ready", 8, 60}, at(100, 101))
	}},
	{"at rest with another TTR", Changed, func(p *play) {
		p.h.Look(p.put(0), Sight{"a", "ready", 7, 61}, at(100, 101))
	}},
	{"at rest in another state", Changed, func(p *play) {
		p.h.Look(p.put(0), Sight{"a", "buried", 7, 60}, at(100, 101))
	}},
	{"at rest, buried and ready", Changed, func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Buried(k, 1, at(4, 5))
		p.h.Look(k, Sight{"a", "ready", 1, 60}, at(100, 101))
	}},
	{"at rest, delayed and ready", Changed, func(p *play) {
		p.h.Look(p.put(0, delayed(time.Hour)), Sight{"a", "ready", 7, 60}, at(100, 101))
	}},
	{"at rest with the priority of a release", "", func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Released(k, 1, 0, at(4, 5))
		p.h.Rest()
		p.h.Look(k, Sight{"a", "ready", 1, 60}, at(100, 101))
	}},
	{"at rest with the priority from before a release", Changed, func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Released(k, 1, 0, at(4, 5))
		p.h.Look(k, Sight{"a", "ready", 7, 60}, at(100, 101))
	}},
	{"at rest with the priority of a release in doubt, or that from before", "", func(p *play) {
		for _, pri := range []uint32{1, 7} {
			k := p.put(0)
			s := p.reserve(k, 2, 3)
			s.ChangeInDoubt(k, 1, 4)
			s.Broken()
			p.h.Rest()
			p.h.Look(k, Sight{"a", "ready", pri, 60}, at(100, 101))
		}
	}},
	{"at rest, deleted", Back, func(p *play) {
		k := p.put(0)
		p.reserve(k, 2, 3).Deleted(k, at(4, 5))
		p.h.Rest()
		p.h.Look(k, Sight{"a", "ready", 7, 60}, at(100, 101))
	}},
}

func TestEachRule(t *testing.T) {
	broken := make(map[Rule]bool)
	for _, tt := range histories {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlay(t)
			tt.play(p)
			v := p.h.Close()
			rules := make(map[Rule]bool)
			for _, f := range p.found {
				rules[f.Rule] = true
			}
			broken[tt.want] = true
			if tt.want == "" {
				if len(rules) > 0 {
					t.Errorf("a correct history is faulted: %v", p.found)
				}
				return
			}
			// What is wrong is often wrong in two ways; a job that the play leaves behind is lost.
			if !rules[tt.want] {
				t.Errorf("found %v, want %q", p.found, tt.want)
			}
			if v.Violations[tt.want] == 0 {
				t.Errorf("the verdict has %v, want %q", v.Violations, tt.want)
			}
		})
	}
	for _, r := range Rules {
		if !broken[r] {
			t.Errorf("no history breaks the rule %q", r)
		}
	}
	for r := range broken {
		if r != "" && !slices.Contains(Rules, r) {
			t.Errorf("reports do not show the rule %q", r)
		}
	}
}

func TestVerdictCounts(t *testing.T) {
	p := newPlay(t)
	one, two, three := p.put(0), p.put(0), p.sent(0)
	p.h.Refused(p.sent(0))
	p.sent(0)
	p.reserve(one, 2, 3).Deleted(one, at(4, 5))
	if s := p.h.Live(); s != (Stock{1, 40 + 1}) {
		t.Errorf("%+v is there, want one job", s)
	}
	s := p.reserve(two, 2, 3)
	s.DeleteInDoubt(two, 4)
	s.Broken()
	p.drain(three)
	v := p.h.Close()
	v.Violations = nil
	want := Verdict{Sums: Sums{Put: 5, Acknowledged: 2, Refused: 1, Reserved: 3, Deleted: 2, DeleteInDoubt: 1}, PutInDoubt: 2, Appeared: 1, Seen: 1}
	if v.Sums != want.Sums || v.PutInDoubt != want.PutInDoubt || v.Appeared != want.Appeared || v.Seen != want.Seen {
		t.Errorf("the verdict is %+v, want %+v", v, want)
	}
	if s := p.h.Live(); s != (Stock{}) {
		t.Errorf("%+v is there, want none", s)
	}
}

// What is known beyond the record is gone with the job: else a run of millions of jobs
// would not fit.
func TestDeletedJobsAreForgotten(t *testing.T) {
	p := newPlay(t)
	for range 1000 {
		k := p.put(0)
		s := p.reserve(k, 2, 3)
		s.Released(k, 1, time.Second, at(4, 5))
		p.again(s, k, 6, 7)
		p.h.Kicking(k)
		p.h.Kicked(k, at(7, 8), false)
		s.Deleted(k, at(8, 9))
	}
	if len(p.h.lives) > 0 || len(p.found) > 0 {
		t.Errorf("%d lives are kept, found %v", len(p.h.lives), p.found)
	}
}
