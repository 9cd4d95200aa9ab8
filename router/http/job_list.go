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
	containsMost = 1024    // bytes of the parameter contains
	olderMost    = 1 << 32 // seconds of the parameter older_than: no job is so old
)

// orders are the orders of job lists.
var orders = map[string]admin.Order{"scan": admin.Scan, "next": admin.Next, "oldest": admin.Oldest, "newest": admin.Newest}

// getTubeJobs lists jobs of a tube.
func (a *API) getTubeJobs(c *call) error {
	order, err := one(c.Query, "order", "scan", "next", "oldest", "newest")
	if err != nil {
		return err
	}
	return a.listJobs(c, &admin.JobQuery{Tube: tubeOf(c), Order: orders[order]})
}

// getJobs lists jobs of all tubes.
func (a *API) getJobs(c *call) error {
	return a.listJobs(c, &admin.JobQuery{AllTubes: true})
}

func (a *API) listJobs(c *call, jobs *admin.JobQuery) error {
	q := c.Query
	how, err := readJobQuery(c, q, jobs)
	if err != nil {
		return err
	}
	list := a.jobListOf(c, q)
	var from *admin.Place
	if q.Has("after") {
		if jobs.Order == admin.Next {
			return wire.BadRequest.With("after", "the order next has only one page", "omit it, or give order=oldest or order=scan")
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
	return c.answer(http.StatusOK, out)
}

// jobPart reads a part of a list. An order that reads more jobs than it shows takes a slot.
func (a *API) jobPart(c *call, jobs *admin.JobQuery, from *admin.Place) (*admin.JobPart, error) {
	if jobs.Order != admin.Next {
		leave, err := a.heavy.take(c.Ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	return a.op.Jobs(c.Ctx, jobs, from)
}

// readJobQuery reads the parameters except order and after. It returns how bodies are shown.
func readJobQuery(c *call, q url.Values, jobs *admin.JobQuery) (how string, err error) {
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
		{"limit", &limit, listDefault, 1, listMost}, {"older_than", &older, 0, 0, olderMost},
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
		if err := maySee(c, access.Full); err != nil { // guesses reveal bodies
			return "", err
		}
	}
	if jobs.Order == admin.Next {
		for _, name := range []string{"contains", "id_min", "id_max", "older_than"} {
			if q.Has(name) {
				return "", wire.BadRequest.With(name, "the order next has no filter", "omit it, or give order=oldest or order=scan")
			}
		}
	}
	how, jobs.Body, err = readShown(c, q)
	return how, err
}

// readStates reads the parameter state. Only the order scan accepts several states.
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
		return wire.BadRequest.With("state", "this order needs one of ready, delayed and buried", "give one of them, or order=scan")
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
		return nil, wire.BadRequest.With("state", fmt.Sprintf("%q is unknown", name), "give ready, delayed, reserved or buried; a scan takes several, separated by commas")
	}
	return list, nil
}

// A jobList identifies a list of jobs, for its cursors.
type jobList struct {
	boot string // of the process: a cursor is valid in one process only
	list string // hash of all parameters that the list depends on
}

func (a *API) jobListOf(c *call, q url.Values) jobList {
	parts := []string{a.boot, tubeOf(c)}
	for _, name := range []string{"order", "state", "contains", "id_min", "id_max", "older_than"} {
		parts = append(parts, name+"="+q.Get(name))
	}
	return jobList{a.boot, hashed(parts...)}
}

// The sizes of the parts of a cursor, in bytes: the process, the list, the place, and an HMAC.
const (
	placeBoot = 8
	placeList = 24
	placeSize = 8 * (5 + len(core.Cursor{}.Near))
	placeMAC  = 12
)

// process returns the cursor's first part.
func (l jobList) process() []byte { return []byte(hashed(l.boot, "cursor")[:placeBoot]) }

func (l jobList) mac(b []byte) []byte {
	h := hmac.New(sha256.New, []byte(l.boot))
	h.Write(b)
	return h.Sum(nil)[:placeMAC]
}

// write returns a place as a cursor.
func (l jobList) write(p *admin.Place) string {
	words := []uint64{uint64(p.Shard), uint64(p.Begun), p.At, uint64(p.Since), uint64(p.Last)}
	for _, id := range p.Near {
		words = append(words, uint64(id))
	}
	b, _ := binary.Append(append(l.process(), l.list...), binary.BigEndian, words) // numbers always fit
	return base64.RawURLEncoding.EncodeToString(append(b, l.mac(b)...))
}

// read reads a cursor that this process has made for this list.
func (l jobList) read(text string) (*admin.Place, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != placeBoot+placeList+placeSize+placeMAC {
		return nil, noCursor()
	}
	if !bytes.Equal(b[:placeBoot], l.process()) {
		return nil, wire.CursorExpired.With("after", "the cursor is from another process", wire.CursorExpired.Remedy)
	}
	signed := len(b) - placeMAC
	if !hmac.Equal(b[signed:], l.mac(b[:signed])) {
		return nil, noCursor()
	}
	if string(b[placeBoot:placeBoot+placeList]) != l.list {
		return nil, wire.BadRequest.With("after", "the cursor belongs to another list", "change only limit and body between pages, or begin again without after")
	}
	words := make([]uint64, placeSize/8)
	binary.Decode(b[placeBoot+placeList:], binary.BigEndian, words) // the length was checked
	p := &admin.Place{Shard: int(words[0]), Begun: core.Time(words[1])}
	p.At, p.Since, p.Last = words[2], core.Time(words[3]), core.JobID(words[4])
	for i := range p.Near {
		p.Near[i] = core.JobID(words[5+i])
	}
	return p, nil
}

func noCursor() error {
	return wire.BadRequest.With("after", "it is not a cursor", "give the value of next in the previous answer, with the same parameters")
}
