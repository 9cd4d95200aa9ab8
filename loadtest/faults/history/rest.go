package history

import "slices"

// A Sight is a job as the server describes it when nobody else is there.
type Sight struct {
	Tube     string
	State    string // ready, delayed, buried or reserved
	Pri, TTR uint32
}

// Rest tells that the run is over: all connections have ended, no fault lasts, and
// from now on one client looks at what is there and takes it out.
func (h *History) Rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rest = true
}

// Lasting calls yield with the jobs that may be there and whose ids are known, until
// it returns false. yield must not call the History.
func (h *History) Lasting(yield func(t Token, id uint64) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := Token(1); t <= h.next; t++ {
		if j := h.jobs.at(t); j.id != 0 && j.gone == 0 && !yield(t, j.id) {
			return
		}
	}
}

// Look judges a job as it was found at rest.
func (h *History) Look(t Token, s Sight, c Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.jobs.at(t)
	h.mayBe(t, j, j.id, c)
	if want := h.tubeName(int(j.tube)); s.Tube != want {
		h.found(Changed, t, j.id, c, "it is in the tube %s", s.Tube)
	}
	l := h.lives[t]
	if j.is&isForeign == 0 {
		if s.TTR != j.ttr {
			h.found(Changed, t, j.id, c, "its TTR is %d", s.TTR)
		}
		if s.Pri != j.pri && (l == nil || !slices.Contains(l.otherPris, s.Pri)) {
			h.found(Changed, t, j.id, c, "its priority is %d", s.Pri)
		}
	}
	// A reserve that was sent and not answered may have taken the job; the server has not
	// heard yet that the connection is gone.
	if want := h.state(j, l, c); want != "" && s.State != want && (want != "ready" || s.State != "reserved") {
		h.found(Changed, t, j.id, c, "it is %s, and should be %s", s.State, want)
	}
}

// state is the only one in which a job can be at rest; empty: there are several.
func (h *History) state(j *job, l *life, c Call) string {
	if l == nil {
		return "ready" // nobody ever changed it
	}
	kicked := func(since int64) bool { return l.kicks.since(since) || h.tubes[j.tube].kicks.since(since) }
	switch {
	case l.buried.Answered != 0 && !kicked(l.buried.Invoked):
		return "buried"
	case c.Answered < l.due-int64(h.o.Slack) && !kicked(l.delayed.Invoked):
		return "delayed"
	}
	return ""
}

// A Verdict is what a run has shown.
type Verdict struct {
	Sums
	PutInDoubt int64        `json:"putInDoubt"`
	Appeared   int64        `json:"appeared"` // puts in doubt whose jobs were there at some time
	Seen       int64        `json:"seen"`     // jobs that were there at the end
	Violations map[Rule]int `json:"violations"`
}

// Close ends the run: what must be there and was not seen since Rest is lost.
func (h *History) Close() Verdict {
	h.mu.Lock()
	v := Verdict{Sums: h.sums, PutInDoubt: h.sums.PutInDoubt()}
	for t := Token(1); t <= h.next; t++ {
		j := h.jobs.at(t)
		if j.counts() && j.is&isSeen == 0 {
			h.found(Lost, t, j.id, Call{}, "it is not there")
		}
		if j.is&(isAcknowledged|isRefused) == 0 && j.id != 0 {
			v.Appeared++
		}
		if j.is&isSeen != 0 {
			v.Seen++
		}
	}
	h.mu.Unlock()
	v.Violations = h.Violations()
	return v
}
