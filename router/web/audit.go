package web

import (
	"sync"
	"time"

	wire "polystalk/codec/admin"
)

// AuditMax is how many entries are kept.
const AuditMax = 1000

// pathMax is how much of a path an entry keeps, in bytes: it is what clients choose.
const pathMax = 300

// An auditRing is the newest changes, also those that were refused. It is in memory only;
// the log has them too.
type auditRing struct {
	mu      sync.Mutex
	entries []wire.Entry // a ring, once there are AuditMax
	next    uint64       // number of the next
}

func (a *auditRing) add(e wire.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.Number = a.next
	if len(a.entries) < AuditMax {
		a.entries = append(a.entries, e)
	} else {
		a.entries[a.next%AuditMax] = e
	}
	a.next++
}

// newest are at most n entries with numbers below before, the newest first.
func (a *auditRing) newest(n int, before uint64) []wire.Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []wire.Entry{}
	oldest := a.next - uint64(len(a.entries))
	for at := min(before, a.next); at > oldest && len(list) < n; at-- {
		list = append(list, a.entries[(at-1)%AuditMax])
	}
	return list
}

// noted makes what notes a change of c's, or a try.
func (s *Server) noted(rt *Route, c *Call) func(status int, affected uint64, detail string) {
	path := c.R.URL.EscapedPath()
	about := wire.Entry{
		Name: c.Grant.Name, Role: c.Grant.Role.String(), Client: c.client,
		Action: rt.Pattern, Path: path[:min(len(path), pathMax)], RequestID: c.ID,
	}
	return func(status int, affected uint64, detail string) {
		e := about
		e.Time, e.Status, e.Affected, e.Detail = time.Now().UTC(), status, affected, detail
		s.audit.add(e)
		if status < 300 || affected > 0 {
			s.log.Info("an operator has changed something", "action", e.Action, "path", e.Path, "name", e.Name, "role", e.Role,
				"client", e.Client, "affected", e.Affected, "detail", e.Detail, "request", e.RequestID)
		}
	}
}

// Audit is at most n entries with numbers below before, the newest first.
func (s *Server) Audit(n int, before uint64) []wire.Entry { return s.audit.newest(n, before) }
