package http

import (
	"cmp"
	"slices"
	"sync"
	"time"

	wire "polystalk/codec/admin"
)

// auditMax and refusedMax are the largest numbers of changes and of other entries of a role.
const (
	auditMax   = 1000
	refusedMax = 100
)

// pathMax is the longest path of an entry, in bytes: clients choose the path.
const pathMax = 300

// An auditLog holds the newest entries in memory; changes are logged too. Each role has a ring
// for changes and another for refused requests and sessions. So a refused request never evicts
// a change, and no role evicts the entries of another.
type auditLog struct {
	mu    sync.Mutex
	rings map[auditKind]*auditRing
	next  uint64 // number of the next entry
}

// auditKind names a ring.
type auditKind struct {
	role    string
	changed bool
}

// An auditRing holds the newest entries of a kind.
type auditRing struct {
	entries []wire.Entry
	added   int // since the start
}

// add adds an entry. changed is true if the request has, or may have, changed something.
func (a *auditLog) add(e wire.Entry, changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.Number = a.next
	a.next++
	if a.rings == nil {
		a.rings = make(map[auditKind]*auditRing)
	}
	kind, most := auditKind{e.Role, changed}, refusedMax
	if changed {
		most = auditMax
	}
	r := a.rings[kind]
	if r == nil {
		r = new(auditRing)
		a.rings[kind] = r
	}
	if len(r.entries) < most {
		r.entries = append(r.entries, e)
	} else {
		r.entries[r.added%most] = e
	}
	r.added++
}

// newest returns at most n entries with numbers below before, the newest first.
func (a *auditLog) newest(n int, before uint64) []wire.Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []wire.Entry{}
	for _, r := range a.rings {
		for _, e := range r.entries {
			if e.Number < before {
				list = append(list, e)
			}
		}
	}
	slices.SortFunc(list, func(x, y wire.Entry) int { return cmp.Compare(y.Number, x.Number) })
	return list[:min(len(list), n)]
}

// record adds an entry about c's request, refused or not. It may also be called after the answer,
// for what the request has begun.
func (a *API) record(c *call, status int, affected uint64, detail string) {
	path := c.R.URL.EscapedPath()
	e := wire.Entry{
		Time: time.Now().UTC(), Name: c.By.Name(), Role: c.By.Role(), Client: c.client,
		Action: c.rt.pattern, Path: path[:min(len(path), pathMax)], RequestID: c.ID,
		Status: status, Affected: affected, Detail: detail,
	}
	done := status < 300 || affected > 0
	a.audit.add(e, done && c.rt.need.some || c.uncertain)
	if done {
		a.opts.Log.Info("operator change", "action", e.Action, "path", e.Path, "name", e.Name, "role", e.Role,
			"client", e.Client, "affected", e.Affected, "detail", e.Detail, "request", e.RequestID)
	}
}
