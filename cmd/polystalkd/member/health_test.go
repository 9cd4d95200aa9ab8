package member

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// The warning comes once a day in the three weeks before the expiry, and once after it. With another
// certificate it starts over.
func TestExpiryIsLoggedInTime(t *testing.T) {
	const day = 24 * time.Hour
	end := time.Date(2026, 11, 22, 17, 57, 8, 0, time.UTC)
	first := transport.Expiry{At: end, Flag: "cluster-cert", File: "a.crt"}
	next := transport.Expiry{At: end.Add(10 * day), Flag: "cluster-ca", File: "ca.crt"}
	late := transport.Expiry{At: end.Add(800 * day), Flag: "cluster-cert", File: "a.crt"}
	var w expiryWatch
	for i, tt := range []struct {
		of   transport.Expiry
		at   time.Duration // from the end of the first
		want string
	}{
		{first, -21*day - time.Second, ""},
		{first, -21 * day, logExpires},
		{first, -20*day - time.Second, ""},
		{first, -20 * day, logExpires},
		{first, -time.Second, logExpires},
		{first, 0, logExpired},
		{first, time.Second, ""},
		{first, 3 * day, ""},
		{next, 3 * day, logExpires},
		{next, 3*day + time.Minute, ""},
		{late, 3*day + 2*time.Minute, ""},
		{first, 4 * day, logExpired},
	} {
		if got := w.look(tt.of, end.Add(tt.at)); got != tt.want {
			t.Errorf("look %d: %q, want %q", i, got, tt.want)
		}
	}
}

func TestExpiredCertificateHasARemedy(t *testing.T) {
	end := time.Date(2026, 11, 22, 17, 57, 8, 0, time.UTC)
	for flag, remedy := range map[string]string{"cluster-cert": "have the authority sign it again, then send SIGHUP", "cluster-ca": "give all servers another certificate"} {
		of := transport.Expiry{At: end, Flag: flag, File: "f.crt"}
		if got := expiredProblem(of, end.Add(-time.Second)); got != "" {
			t.Errorf("before its end: %q", got)
		}
		got := expiredProblem(of, end)
		if want := "--" + flag + ` "f.crt" was valid until 2026-11-22 17:57:08 UTC`; !strings.HasPrefix(got, want) || !strings.Contains(got, remedy) {
			t.Errorf("at its end: %q, want %q and %q", got, want, remedy)
		}
	}
}

// Each change of the leader is logged with its term; other members, a moment without a leader, and
// this server itself are not.
func TestLeadersAreLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	members := &cluster.Members{List: []cluster.Member{{ID: 1, Name: "jobs1"}, {ID: 2, Name: "jobs2"}, {ID: 3, Name: "jobs3"}}}
	var l leadership
	for i, tt := range []struct{ leader, term, lines uint64 }{
		{0, 1, 0}, {2, 2, 1}, {2, 2, 0}, {0, 2, 0}, {2, 2, 0}, {3, 3, 1}, {0, 4, 0}, {3, 5, 1}, {1, 6, 0}, {2, 7, 1}, {9, 8, 1},
	} {
		out.Reset()
		now := time.Unix(int64(i), 0)
		l.note(&cluster.View{Leader: tt.leader, Term: tt.term, Members: members}, 1, now, log)
		l.look(now, time.Hour, log)
		got := out.String()
		if strings.Count(got, "level=INFO") != int(tt.lines) || strings.Contains(got, "WARN") {
			t.Errorf("%d: %q", i, got)
		}
		if one := members.Find(tt.leader); tt.lines > 0 && one != nil && !strings.Contains(got, fmt.Sprintf("node=%s term=%d", one.Name, tt.term)) {
			t.Errorf("%d: %q does not name %s", i, got, one.Name)
		}
	}
}

func TestLongTimeWithoutLeaderIsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var l leadership
	for i, tt := range []struct {
		leader uint64
		warns  bool
	}{{0, false}, {0, false}, {0, true}, {0, false}, {2, false}, {0, false}, {0, false}, {2, false}, {0, false}, {0, false}, {0, true}} {
		out.Reset()
		now := time.Unix(1000+int64(i), 0)
		l.note(&cluster.View{Leader: tt.leader, Term: 1, Members: new(cluster.Members)}, 1, now, log)
		l.look(now, 2*time.Second, log)
		if got := strings.Contains(out.String(), "WARN"); got != tt.warns {
			t.Errorf("second %d: warns %v, want %v", i, got, tt.warns)
		}
	}
}

func TestLearnersAreReadyWhenTheyHaveCaughtUp(t *testing.T) {
	var l learners
	members := &cluster.Members{List: []cluster.Member{{ID: 7, Name: "one", Voter: true}, {ID: 42, Name: "two"}, {ID: 43, Name: "three", Standby: true}}}
	s := &cluster.Status{Leads: true, Term: 3, Members: members}
	for i, c := range []struct {
		commit, match uint64
		change        func()
		ready         bool
	}{
		{commit: 100, match: 100},                                               // it has only begun to lead
		{commit: 200, match: 100},                                               // it has the commit index of the last look
		{commit: 300, match: 199},                                               // it lacks one entry
		{commit: 400, match: 300},                                               // once
		{commit: 500, match: 450, ready: true},                                  // twice in a row
		{commit: 600, match: 500, ready: true},                                  // it was not promoted
		{commit: 700, match: 700, change: func() { s.Term++ }},                  // another term
		{commit: 800, match: 800},                                               // once
		{commit: 900, match: 900, change: func() { s.Peers[0].Active = false }}, // it is silent
		{commit: 1000, match: 1000},                                             // once
		{commit: 1100, match: 1100, change: func() { s.Leads = false }},         // it leads no longer
		{commit: 1200, match: 1200, change: func() { s.Leads = true }},          // once
		{commit: 1300, match: 1300, ready: true},
	} {
		s.Commit = c.commit
		s.Peers = []cluster.Peer{{ID: 42, Match: c.match, Active: true}, {ID: 43, Match: c.match, Active: true}}
		if c.change != nil {
			c.change()
		}
		var want []string
		if c.ready {
			want = []string{"two"}
		}
		var got []string
		for _, one := range l.look(s) {
			got = append(got, one.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("look %d: %v are ready", i, got)
		}
	}
}
