package sim

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"polystalk/codec/gearman"
	"polystalk/router/access"
)

// silent are the messages that have no reply but an error.
var silent = []gearman.Type{gearman.CanDo, gearman.ResetAbilities, gearman.PreSleep, gearman.WorkComplete}

// hear judges a message of the server.
func (a *gearAccess) hear(h *gearHolder, p *gearPacket) error {
	switch p.t {
	case gearman.Noop:
		return nil
	case gearman.WorkComplete, gearman.WorkFail:
		id, err := jobOf(p)
		if err == nil && !h.follows[id] {
			return errors.New("it does not wait for this job")
		}
		return err
	}
	if h.over {
		return errors.New("the server replies behind a refusal")
	}
	for p.t != gearman.Error && len(h.asked) > 0 && slices.Contains(silent, h.asked[0].t) {
		h.asked = h.asked[1:]
	}
	if len(h.asked) == 0 {
		return errors.New("nothing was asked")
	}
	q := h.asked[0]
	from := max(h.at, q.since)
	if q.t != gearman.Text || !isRow(p.args[0]) {
		h.asked, h.at = h.asked[1:], a.before
	}
	return a.judge(h, &q, p, from)
}

// isRow reports whether a line is not the last one of its reply.
func isRow(line string) bool { return line != "." && line != "OK" && !strings.HasPrefix(line, "ERR ") }

// judge checks the reply to a request by the files from one version on.
func (a *gearAccess) judge(h *gearHolder, q *gearRequest, p *gearPacket, from int) error {
	word := p.args0()
	if p.t == gearman.Text {
		if word = strings.Fields(p.args[0] + " ")[0]; word == "ERR" {
			word = strings.Fields(p.args[0])[1]
		}
	}
	valid, invalid := false, false
	for _, ids := range a.all[from:] {
		valid, invalid = valid || ids.Token(h.token) != nil, invalid || ids.Token(h.token) == nil
	}
	switch {
	case q.isAuth() && (word == "auth" || word == "OK") && valid:
		a.seen["authenticated"]++
		h.proven = len(a.all) - 1
		return nil
	case q.isAuth() && word == "UNAUTHORIZED" && invalid:
		a.seen[word]++
		h.refused, h.over = true, true
		return nil
	case q.isAuth():
		return fmt.Errorf("the token is valid: %v, invalid: %v", valid, invalid)
	case word == "NOT_PERMITTED" && h.token == "" && slices.ContainsFunc(a.all[from:], func(ids *access.Identities) bool { return ids.Client(0, false, netip.Addr{}).IsEmpty() }):
		a.seen["unproven"]++
		h.refused = true // if it was unproven
		return nil
	}
	_, _, submits := q.t.Submits()
	what, need := "", access.Verbs(0)
	switch {
	case submits:
		what, need = "submission", access.Put
	case q.t == gearman.CanDo:
		what, need = "worker", access.Work
	case q.t == gearman.Text && q.fn != "":
		what, need = "line", access.Manage
	}
	yes, no := a.may(h, from, need, q.fn)
	if q.reducer != "" {
		y, n := a.may(h, from, need, q.reducer)
		yes, no = yes && y, no || n
	}
	switch {
	case word == "NOT_PERMITTED":
		if need == 0 || !no {
			return errors.New("it is permitted")
		}
		a.seen["denied "+what]++
		h.over = what == "worker"
		h.refused = h.refused || h.over
		return nil
	case p.t == gearman.Error && (word == "JOB_NOT_FOUND" && q.t == gearman.WorkComplete || word == "QUEUE_ERROR" && submits):
		return nil // the job was cancelled, or the function is full
	case p.t == gearman.Error:
		return errors.New("an unexpected error")
	case need != 0 && !yes:
		return errors.New("it is not permitted")
	}
	return a.judgeContent(h, q, p, from)
}

// judgeContent checks what a reply shows.
func (a *gearAccess) judgeContent(h *gearHolder, q *gearRequest, p *gearPacket, from int) error {
	shows := func(verb access.Verbs, fn, what string) error {
		if yes, _ := a.may(h, from, verb, fn); !yes {
			return fmt.Errorf("it may not see %q", fn)
		}
		a.seen[what]++
		return nil
	}
	switch {
	case p.t == gearman.JobCreated:
		id, err := jobOf(p)
		a.jobs[id] = q.fn
		if !q.isBackground {
			h.follows[id] = true
		}
		a.seen["JOB_CREATED"]++
		return err
	case p.t == gearman.JobAssign:
		id, err := jobOf(p)
		h.runs = append(h.runs, id)
		return errors.Join(err, shows(access.Work, p.args[1], "JOB_ASSIGN"))
	case p.t == gearman.StatusRes && p.args[1] == "0":
		if fn, ok := a.jobs[q.id]; ok {
			if _, no := a.may(h, from, access.Look, fn); no {
				a.seen["hidden job"]++
			}
		}
	case p.t == gearman.StatusRes && h.follows[q.id]:
		a.seen["followed job"]++
	case p.t == gearman.StatusRes:
		if fn := a.jobs[q.id]; fn != "" {
			return shows(access.Look, fn, "shown job")
		}
	case p.t == gearman.StatusResUnique && p.args[1] == "1" && !a.followsAny(h, q.fn):
		return shows(access.Look, q.fn, "shown unique")
	case p.t == gearman.Text && q.id != 0 && p.args[0] == "OK":
		if fn := a.jobs[q.id]; fn != "" {
			return shows(access.Manage, fn, "OK")
		}
	case p.t == gearman.Text && isRow(p.args[0]):
		first, _, _ := strings.Cut(p.args[0], "\t")
		switch q.line {
		case "status", "prioritystatus":
			name, _ := gearman.AppendUnquoted(nil, []byte(first))
			return shows(access.Look, string(name), "shown function")
		case "show jobs":
			id, _ := gearman.ParseHandle(prefix, []byte(first))
			if fn := a.jobs[id]; fn != "" {
				return shows(access.Look, fn, "shown job")
			}
		case "workers":
			_, names, _ := strings.Cut(p.args[0], " :")
			for word := range strings.FieldsSeq(names) {
				name, _ := gearman.AppendUnquoted(nil, []byte(word))
				if err := shows(access.Look, string(name), "shown function"); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (a *gearAccess) followsAny(h *gearHolder, fn string) bool {
	for id := range h.follows {
		if a.jobs[id] == fn {
			return true
		}
	}
	return false
}

// args0 returns the first argument, or "".
func (p *gearPacket) args0() string {
	if len(p.args) == 0 {
		return ""
	}
	return p.args[0]
}

// credential returns a client's credential in a version of the file.
func (a *gearAccess) credential(h *gearHolder, version int) *access.Credential {
	if h.token != "" {
		return a.all[version].Token(h.token)
	}
	return a.all[version].Client(0, false, netip.Addr{})
}

// may reports whether some version from the given one on gives the client a verb, and whether some
// does not.
func (a *gearAccess) may(h *gearHolder, from int, verb access.Verbs, fn string) (yes, no bool) {
	for v := from; v < len(a.all); v++ {
		c := a.credential(h, v)
		has := c != nil && c.Verbs([]byte(fn))&verb != 0
		yes, no = yes || has, no || !has
	}
	return yes, no
}

// closed checks whether the server may have closed a connection.
func (a *gearAccess) closed(h *gearHolder) error {
	if h.refused || h.k.shut {
		return nil
	}
	if len(h.asked) > 0 && h.asked[0].isAuth() {
		h.proven = len(a.all) - 1
	}
	for v := h.at; v < len(a.all); v++ {
		c := a.credential(h, v)
		if v <= h.proven && a.all[v].Client(0, false, netip.Addr{}).Identity() == nil { // its identity before it authenticated
			return nil
		}
		if c == nil || c.Identity() == nil || slices.ContainsFunc(h.able, func(fn string) bool { return c.Verbs([]byte(fn))&access.Work == 0 }) {
			a.seen["killed"]++
			return nil
		}
	}
	return fmt.Errorf("the server has closed a connection with all its rights: it worked for %q, token %q, version %d of %d, it has asked %+v", h.able, h.token, h.at, len(a.all), h.asked)
}
