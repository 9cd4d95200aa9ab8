package http

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

const (
	jobsDefault = 100
	jobsMost    = 1000
	// containsMost bytes can be looked for in bodies.
	containsMost = 1024
	// olderMost is how many seconds old jobs can be asked to be: more than there are.
	olderMost = 1 << 32
)

// orders are those of lists of jobs, by their names.
var orders = map[string]admin.Order{"scan": admin.Scan, "next": admin.Next, "oldest": admin.Oldest, "newest": admin.Newest}

// getTubeJobs lists jobs of a tube.
func (a *API) getTubeJobs(c *Call) error {
	q, err := c.Query("order", "state", "limit", "after", "contains", "id_min", "id_max", "older_than", "body")
	if err != nil {
		return err
	}
	order, err := one(q, "order", "scan", "next", "oldest", "newest")
	if err != nil {
		return err
	}
	return a.listJobs(c, q, &admin.JobQuery{Tube: tubeOf(c), Order: orders[order]})
}

// getJobs lists jobs of all tubes.
func (a *API) getJobs(c *Call) error {
	q, err := c.Query("state", "limit", "after", "contains", "id_min", "id_max", "older_than", "body")
	if err != nil {
		return err
	}
	return a.listJobs(c, q, &admin.JobQuery{AllTubes: true})
}

func (a *API) listJobs(c *Call, q url.Values, jobs *admin.JobQuery) error {
	how, err := readJobQuery(c, q, jobs)
	if err != nil {
		return err
	}
	list := a.jobListOf(c, q)
	var from *admin.Place
	if q.Has("after") {
		if jobs.Order == admin.Next {
			return wire.BadRequest.With("after", "the order next has the first jobs alone", "leave it out, or give order=oldest or order=scan")
		}
		if from, err = list.read(q.Get("after")); err != nil {
			return err
		}
	}
	part, err := a.jobPart(c, jobs, from)
	if err != nil {
		return err
	}
	out := wire.Jobs{Jobs: make([]wire.Job, 0, len(part.Rows)), Looked: part.Looked, AsOf: part.At.UTC()}
	if part.Next != nil {
		out.Next = list.write(part.Next)
	}
	for i := range part.Rows {
		row := &part.Rows[i]
		v := jobValue(row)
		if how != "none" {
			v.Content = wire.NewContent(row.Body, int(row.Size))
		}
		out.Jobs = append(out.Jobs, v)
	}
	return c.Answer(http.StatusOK, out)
}

// jobPart asks for a part of a list. What looks at more jobs than it shows is heavy.
func (a *API) jobPart(c *Call, jobs *admin.JobQuery, from *admin.Place) (*admin.JobPart, error) {
	if jobs.Order != admin.Next {
		leave, err := a.Heavy(c.Ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	return a.op.Jobs(c.Ctx, jobs, from)
}

// readJobQuery reads the parameters but for order and after. It says how bodies are shown.
func readJobQuery(c *Call, q url.Values, jobs *admin.JobQuery) (how string, err error) {
	if err := readStates(q, jobs); err != nil {
		return "", err
	}
	f := &jobs.Filter
	var limit, older, least, most uint64
	for _, p := range []struct {
		name                string
		to                  *uint64
		without, from, upTo uint64
	}{
		{"limit", &limit, jobsDefault, 1, jobsMost}, {"older_than", &older, 0, 0, olderMost},
		{"id_min", &least, 0, 0, math.MaxUint64}, {"id_max", &most, 0, 1, math.MaxUint64},
	} {
		if *p.to, err = number(q, p.name, p.without, p.from, p.upTo); err != nil {
			return "", err
		}
	}
	jobs.Limit, jobs.OlderThan = int(limit), core.Time(older)*core.Second
	f.MinID, f.MaxID = core.JobID(least), core.JobID(most)
	if q.Has("contains") {
		f.Contains = []byte(q.Get("contains"))
		if n := len(f.Contains); n == 0 || n > containsMost {
			return "", wire.BadRequest.With("contains", fmt.Sprintf("it has %d bytes", n), fmt.Sprintf("give 1 to %d", containsMost))
		}
		if err := maySee(c, access.Full); err != nil { // to guess is to see
			return "", err
		}
	}
	if jobs.Order == admin.Next {
		for _, name := range []string{"contains", "id_min", "id_max", "older_than"} {
			if q.Has(name) {
				return "", wire.BadRequest.With(name, "the order next shows all of the first jobs", "leave it out, or give order=oldest or order=scan")
			}
		}
	}
	how, jobs.Body, err = showing(c, q)
	return how, err
}

// readStates reads the parameter state: a scan takes several.
func readStates(q url.Values, jobs *admin.JobQuery) error {
	if !q.Has("state") {
		jobs.State = core.Ready
		return nil
	}
	list, err := statesOf(strings.Split(q.Get("state"), ","))
	if err != nil {
		return err
	}
	if jobs.Order == admin.Scan {
		jobs.Filter.States = core.StatesOf(list...)
		return nil
	}
	if len(list) != 1 || list[0] == core.Reserved {
		return wire.BadRequest.With("state", "this order has one of ready, delayed and buried", "give one of them, or order=scan")
	}
	jobs.State = list[0]
	return nil
}

// statesOf finds states by their names.
func statesOf(names []string) (list []core.State, err error) {
next:
	for _, name := range names {
		for _, state := range []core.State{core.Ready, core.Delayed, core.Reserved, core.Buried} {
			if name == state.String() {
				list = append(list, state)
				continue next
			}
		}
		return nil, wire.BadRequest.With("state", fmt.Sprintf("%q is unknown", name), "give ready, delayed, reserved or buried, a scan several with commas between them")
	}
	return list, nil
}

// A jobList is one list of jobs, whose places are given out and taken back.
type jobList struct {
	boot string // of the process: positions are its own
	list string // hashed: all parameters on which the list depends
}

func (a *API) jobListOf(c *Call, q url.Values) jobList {
	parts := []string{a.boot, tubeOf(c)}
	for _, name := range []string{"order", "state", "contains", "id_min", "id_max", "older_than"} {
		parts = append(parts, name+"="+q.Get(name))
	}
	return jobList{a.boot, Hashed(parts...)}
}

// placeParts are the sizes of the parts of a cursor: the process, the list, the place, and
// what proves that it was given out.
const (
	placeBoot = 8
	placeList = 24
	placeSize = 4 + 8*(4+len(core.Cursor{}.Near))
	placeMAC  = 12
)

// process is that of the cursor.
func (l jobList) process() []byte { return []byte(Hashed(l.boot, "cursor")[:placeBoot]) }

// mac proves that b was made here.
func (l jobList) mac(b []byte) []byte {
	h := hmac.New(sha256.New, []byte(l.boot))
	h.Write(b)
	return h.Sum(nil)[:placeMAC]
}

// write is how a place stands in an answer.
func (l jobList) write(p *admin.Place) string {
	be := binary.BigEndian
	b := append(l.process(), l.list...)
	b = be.AppendUint32(b, uint32(p.Shard))
	for _, n := range []uint64{uint64(p.Begun), p.At, uint64(p.Since), uint64(p.Last)} {
		b = be.AppendUint64(b, n)
	}
	for _, id := range p.Near {
		b = be.AppendUint64(b, uint64(id))
	}
	return base64.RawURLEncoding.EncodeToString(append(b, l.mac(b)...))
}

// read reads one that was given out for this list, by this process.
func (l jobList) read(text string) (*admin.Place, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != placeBoot+placeList+placeSize+placeMAC {
		return nil, noCursor()
	}
	if !bytes.Equal(b[:placeBoot], l.process()) {
		return nil, wire.CursorExpired.With("after", "another process has given the cursor out", wire.CursorExpired.Remedy)
	}
	signed := len(b) - placeMAC
	if !hmac.Equal(b[signed:], l.mac(b[:signed])) {
		return nil, noCursor()
	}
	if string(b[placeBoot:placeBoot+placeList]) != l.list {
		return nil, wire.BadRequest.With("after", "the cursor is that of another list", "keep all parameters but limit and body as they were, or begin again without after")
	}
	b = b[placeBoot+placeList:]
	p := &admin.Place{Shard: int(binary.BigEndian.Uint32(b))}
	words := b[4:]
	word := func() (n uint64) {
		n = binary.BigEndian.Uint64(words)
		words = words[8:]
		return n
	}
	p.Begun = core.Time(word())
	p.At, p.Since, p.Last = word(), core.Time(word()), core.JobID(word())
	for i := range p.Near {
		p.Near[i] = core.JobID(word())
	}
	return p, nil
}

func noCursor() error {
	return wire.BadRequest.With("after", "it is no cursor", "give what the answer before has as next, with the same parameters")
}
