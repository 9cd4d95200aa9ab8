package member

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/router/cluster"
)

// A sink is what was logged, a line each.
type sink struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sink) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.b.Reset()
	return s.b.String()
}

// TestLeadersAreNamedOnce: each change, with its term; not members that change, nor that none leads
// for a while, nor this server itself, which says so once it serves.
func TestLeadersAreNamedOnce(t *testing.T) {
	out := new(sink)
	log := slog.New(slog.NewTextHandler(out, nil))
	members := &cluster.Members{List: []cluster.Member{{ID: 1, Name: "jobs1"}, {ID: 2, Name: "jobs2"}, {ID: 3, Name: "jobs3"}}}
	var l leadership
	for i, tt := range []struct{ leader, term, lines uint64 }{
		{0, 1, 0}, {2, 2, 1}, {2, 2, 0}, {0, 2, 0}, {2, 2, 0}, {3, 3, 1}, {0, 4, 0}, {3, 5, 1}, {1, 6, 0}, {2, 7, 1}, {9, 8, 1},
	} {
		l.note(cluster.View{Leader: tt.leader, Term: tt.term, Members: members}, 1, log, time.Hour)
		got := out.take()
		if strings.Count(got, "level=INFO") != int(tt.lines) || strings.Contains(got, "WARN") {
			t.Errorf("%d: %q", i, got)
		}
		if one := members.Find(tt.leader); tt.lines > 0 && one != nil && !strings.Contains(got, fmt.Sprintf("node=%s term=%d", one.Name, tt.term)) {
			t.Errorf("%d: %q does not name %s", i, got, one.Name)
		}
	}
}

// TestLongWithoutLeader: it is told once, and not where one leads in time.
func TestLongWithoutLeader(t *testing.T) {
	out := new(sink)
	log := slog.New(slog.NewTextHandler(out, nil))
	members := &cluster.Members{}
	var l leadership
	l.note(cluster.View{Members: members}, 1, log, time.Hour)
	alarm := l.alarm
	l.note(cluster.View{Members: members}, 1, log, time.Hour)
	if l.alarm != alarm {
		t.Error("it waits anew with each news")
	}
	l.note(cluster.View{Leader: 1, Term: 2, Members: members}, 1, log, time.Hour)
	if l.alarm != nil || alarm.Stop() {
		t.Error("it waits on, though one leads")
	}
	l.note(cluster.View{Term: 3, Members: members}, 1, log, 0)
	for end, got := time.Now().Add(time.Minute), ""; !strings.Contains(got, "level=WARN"); time.Sleep(time.Millisecond) {
		if got += out.take(); time.Now().After(end) {
			t.Fatalf("nothing was told: %q", got)
		}
	}
}
