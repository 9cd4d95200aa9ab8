package history

import "maps"

import "strings"

import "fmt"

// A Rule is one that a correct server cannot break.
type Rule string

// The rules; the package comment says what each means.
const (
	Lost     Rule = "lost"
	Late     Rule = "late"
	Back     Rule = "back"
	Unwanted Rule = "unwanted"
	Altered  Rule = "altered"
	Changed  Rule = "changed"
	IDTwice  Rule = "id twice"
	Overlap  Rule = "overlap"
	Disowned Rule = "disowned"
	Early    Rule = "early"
	Unburied Rule = "unburied"
	Stranger Rule = "stranger"
)

// Rules are all of them, in the order of reports.
var Rules = []Rule{Lost, Back, Late, Altered, IDTwice, Overlap, Disowned, Changed, Early, Unburied, Unwanted, Stranger}

// A Violation is an answer, or the lack of one, that no correct server gives.
type Violation struct {
	Rule  Rule   `json:"rule"`
	Token Token  `json:"token"`
	ID    uint64 `json:"id"`
	At    Call   `json:"at"` // of the answer that shows it; zero: the end of the run
	Why   string `json:"why"`
	Known string `json:"known"` // of the job
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: put %d, job %d: %s (%d to %d ns; known: %s)", v.Rule, v.Token, v.ID, v.Why, v.At.Invoked, v.At.Answered, v.Known)
}

// found tells of a violation.
func (h *History) found(r Rule, t Token, id uint64, c Call, format string, args ...any) {
	h.rules[r]++
	if h.o.Found == nil {
		return
	}
	h.o.Found(Violation{r, t, id, c, fmt.Sprintf(format, args...), h.known(t)})
}

// known is what there is to say of a job, for who has to find out.
func (h *History) known(t Token) string {
	if t == 0 {
		return "nothing"
	}
	j := h.jobs.at(t)
	var s strings.Builder
	s.WriteString(fmt.Sprintf("id %d, tube %s, pri %d, ttr %d, %d bytes", j.id, h.tubeName(int(j.tube)), j.pri, j.ttr, j.size))
	for _, m := range []struct {
		is   mark
		says string
	}{{isAcknowledged, "put acknowledged"}, {isRefused, "put refused"}, {isForeign, "of Gearman"}, {isDoubtful, "delete in doubt"}} {
		if j.is&m.is != 0 {
			s.WriteString(", " + m.says)
		}
	}
	if j.reserved != 0 {
		s.WriteString(fmt.Sprintf(", last reserved at %d", j.reserved))
	}
	if j.gone != 0 {
		s.WriteString(fmt.Sprintf(", deleted by %d", j.gone))
	}
	if l := h.lives[t]; l != nil {
		s.WriteString(fmt.Sprintf(", %d holds, buried %v, delayed %v to %d, kicks %+v", len(l.holds), l.buried, l.delayed, l.due, l.kicks))
	}
	return s.String()
}

// Violations counts them by rule.
func (h *History) Violations() map[Rule]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[Rule]int, len(h.rules))
	maps.Copy(all, h.rules)
	return all
}
