package conversation

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Companion uses our server of a pair by other means while sessions are played on both.
// It may do as it likes with jobs of tubes of its own, and nothing that can be seen to others.
type Companion interface {
	// Flags are added to those of our server.
	Flags() []string
	// Tubes are its own. On both servers somebody watches them all the time.
	Tubes() []string
	// Begin has it begin, once our server serves.
	Begin()
	// End has it end. The error is what it has found wrong.
	End() error
	// Still has it change nothing until goOn is called. It tells which jobs are its own.
	Still() (own Own, goOn func())
}

// Own counts the jobs of a companion as stats does.
type Own struct{ Urgent, Ready, Delayed, Buried, Total uint64 }

// CompareBeside is Compare with a companion, another for each pair of servers. Jobs have
// other ids in our server then: they are the same up to renaming.
func CompareBeside(reference, subject string, args []string, companion func() Companion, unquoted bool, seed uint64, count, n int) (report string, failed uint64, err error) {
	c := campaign{reference: reference, subject: subject, args: args, companion: companion, unquoted: unquoted}
	return c.run(seed, count, n)
}

// Accompany has both servers keep the tubes of a companion, and it begin.
func (p *Pair) Accompany(c Companion) error {
	for _, s := range p.sides {
		for i, name := range c.Tubes() {
			want := fmt.Sprintf("WATCHING %d\r\n", i+2)
			if got, err := s.control.Ask("watch " + name + "\r\n"); err != nil || string(got) != want {
				return fmt.Errorf("watch %s: %q, %w", name, got, err)
			}
		}
	}
	p.companion = c
	p.renames = &renames{ours: make(map[uint64]uint64), theirs: make(map[uint64]uint64)}
	c.Begin()
	return nil
}

// still is Still of p's companion, if it has one.
func (p *Pair) still() (own Own, goOn func()) {
	if p.companion == nil {
		return own, func() {}
	}
	return p.companion.Still()
}

// without is a reply of ours to stats without the jobs of a companion.
func (o *Own) without(reply []byte) []byte {
	lines := strings.Split(string(reply), "\n")
	for key, n := range o.byKey() {
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, key+": ") })
		if i < 0 {
			continue
		}
		if all, err := strconv.ParseUint(strings.TrimPrefix(lines[i], key+": "), 10, 64); err == nil {
			lines[i] = fmt.Sprintf("%s: %d", key, int64(all-n))
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// likeReference is a reply of ours to stats with what a companion counts for as in the
// reference's: when it was made is not known, so neither is how many there were.
func likeReference(reference, ours []byte) []byte {
	counted := new(Own).byKey()
	lines := strings.Split(string(ours), "\n")
	for line := range strings.SplitSeq(string(reference), "\n") {
		key, _, _ := strings.Cut(line, ": ")
		if _, counts := counted[key]; !counts {
			continue
		}
		if i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, key+": ") }); i >= 0 {
			lines[i] = line
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

func (o *Own) byKey() map[string]uint64 {
	return map[string]uint64{
		"current-jobs-urgent": o.Urgent, "current-jobs-ready": o.Ready, "current-jobs-delayed": o.Delayed,
		"current-jobs-buried": o.Buried, "total-jobs": o.Total,
		"current-jobs-reserved": 0, // but for one that it moves just then
	}
}

// renames are the ids of jobs, as the reference and as our server has given them.
type renames struct{ ours, theirs map[uint64]uint64 }

// noJob is added to ids that no job of a session has in the reference: nor shall one of the
// companion's have.
const noJob = 1 << 63

// request is what the reference is sent, and the same with our ids. A job that may come to be
// before the request is run has no id of ours yet: job 0 is asked for instead.
func (r *renames) request(sent string, last uint64) (theirs, ours string) {
	verb, rest, _ := strings.Cut(sent, " ")
	if r == nil || !namesJob[verb] {
		return sent, sent
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		return sent, sent
	}
	id, err := strconv.ParseUint(rest[:end], 10, 64)
	n, named := r.ours[id]
	switch {
	case err != nil, id == 0, id >= noJob:
		return sent, sent
	case named:
	case id > last:
		sent = verb + " 0" + rest[end:]
		return sent, sent
	default:
		n = noJob + id
	}
	return sent, verb + " " + strconv.FormatUint(n, 10) + rest[end:]
}

var namesJob = map[string]bool{
	"reserve-job": true, "delete": true, "release": true, "bury": true, "touch": true, "kick-job": true, "peek": true, "stats-job": true,
}

// reply is ours with the reference's ids.
func (r *renames) reply(reference, ours []byte) []byte {
	if r == nil {
		return ours
	}
	their, its := idIn(reference), idIn(ours)
	if bytes.HasPrefix(reference, []byte("INSERTED ")) && bytes.HasPrefix(ours, []byte("INSERTED ")) {
		r.ours[their.n], r.theirs[its.n] = its.n, their.n
	}
	n, ok := r.theirs[its.n]
	if its.end == 0 || !ok {
		return ours
	}
	return slices.Concat(ours[:its.at], strconv.AppendUint(nil, n, 10), ours[its.end:])
}

// place is where a reply names a job.
type place struct {
	at, end int
	n       uint64
}

// idIn is the id of the job that a reply is about; a zero place: it is about none.
func idIn(reply []byte) place {
	for _, head := range []string{"INSERTED ", "RESERVED ", "FOUND "} {
		if bytes.HasPrefix(reply, []byte(head)) {
			return numberAt(reply, len(head))
		}
	}
	if at := bytes.Index(reply, []byte("\n---\nid: ")); at >= 0 && bytes.HasPrefix(reply, []byte("OK ")) {
		return numberAt(reply, at+len("\n---\nid: "))
	}
	return place{}
}

func numberAt(b []byte, at int) place {
	end := at
	for end < len(b) && b[end] >= '0' && b[end] <= '9' {
		end++
	}
	n, err := strconv.ParseUint(string(b[at:end]), 10, 64)
	if err != nil {
		return place{}
	}
	return place{at, end, n}
}
