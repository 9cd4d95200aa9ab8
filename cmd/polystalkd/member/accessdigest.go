package member

import (
	"slices"
	"strings"
	"sync"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// The leader gives clients the rights of its own access file, so all servers must have the same one.
// They ask each other for a digest of the rules.

const (
	rulesEvery = 10 * time.Second // between questions
	rulesShown = 16               // digits of a digest
	noRules    = "none"           // the digest of a server without an access file
)

// accessDigest returns the digest of this server's rules.
func (m *Member) accessDigest() string {
	if ids := m.srv.Host().Access; ids != nil {
		return ids.Digest()[:rulesShown]
	}
	return noRules
}

// A rulesWatch asks the other servers for their digests.
type rulesWatch struct {
	asking task
	next   time.Time
}

func (w *rulesWatch) look(m *Member, v *cluster.View, now time.Time) {
	if now.Before(w.next) {
		return
	}
	w.next = now.Add(rulesEvery)
	members, leads := v.Members, v.Leads
	w.asking.start(func() {
		var mu sync.Mutex
		found, others := make(map[string]string), []string(nil)
		own := m.accessDigest()
		m.eachOther(members, func(one *cluster.Member) error {
			told, err := m.askMembership(m.ctx, one)
			if err != nil || told.Access == "" { // it cannot be reached, starts, or is of an older version
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if found[hex(one.ID)] = told.Access; told.Access != own {
				others = append(others, one.Name)
			}
			return nil
		})
		m.links.digests.Store(&found)
		if leads && others != nil {
			slices.Sort(others)
			m.limited.WarnContext(transport.WithSubject(m.ctx, strings.Join(others, " ")), "servers have other rules in their access files than this one, which leads: give all the same file, and send each SIGHUP", "nodes", others)
		}
	})
}

// addRules adds the digests to the rows of a status.
func (m *Member) addRules(rows []wire.ClusterMember) {
	var leaders *string
	known := m.links.digests.Load()
	for i := range rows {
		row := &rows[i]
		if row.Name == m.id.Name {
			row.AccessDigest = new(m.accessDigest())
		} else if known != nil {
			if d, ok := (*known)[row.ID]; ok {
				row.AccessDigest = &d
			}
		}
		if row.Leads || row.Name == m.id.Name && leaders == nil {
			leaders = row.AccessDigest
		}
	}
	for i := range rows {
		row := &rows[i]
		row.AccessDiffers = row.AccessDigest != nil && leaders != nil && *row.AccessDigest != *leaders
	}
}
