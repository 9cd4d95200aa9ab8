package join

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"polystalk/router/cluster"
)

// TestPromoter looks at followers, a look a line: who is ready to vote then.
func TestPromoter(t *testing.T) {
	n := newFakeNode()
	n.member(t, 42, "two", false)
	n.member(t, 43, "three", true)
	p := &Promoter{Node: n, Log: silent}
	for i, c := range []struct {
		commit, match uint64
		change        func()
		ready         bool
	}{
		{commit: 100, match: 100},                                         // it has only begun to lead
		{commit: 200, match: 100},                                         // it had all of the last look
		{commit: 300, match: 199},                                         // it lacks one
		{commit: 400, match: 300},                                         // once
		{commit: 500, match: 450, ready: true},                            // twice in a row
		{commit: 600, match: 500, ready: true},                            // it did not come to it
		{commit: 700, match: 700, change: func() { n.term++ }},            // another term
		{commit: 800, match: 800},                                         // once
		{commit: 900, match: 900, change: func() { delete(n.match, 42) }}, // it is silent
		{commit: 1000, match: 1000},                                       // once
		{commit: 1100, match: 1100, change: func() { n.leader = 9 }},      // it leads no longer
		{commit: 1200, match: 1200, change: func() { n.leader = leaderID }},
		{commit: 1300, match: 1300, ready: true},
	} {
		n.commit = c.commit
		n.match = map[uint64]uint64{42: c.match, 43: c.match}
		if c.change != nil {
			c.change()
		}
		s, _ := n.Status(context.Background())
		got := p.look(&s)
		var want []string
		if c.ready {
			want = []string{"two"}
		}
		if !slices.Equal(nodeNames(got), want) {
			t.Errorf("look %d: %v are ready", i, nodeNames(got))
		}
	}
}

func nodeNames(list []cluster.Member) (names []string) {
	for _, one := range list {
		names = append(names, one.Name)
	}
	return names
}

// TestPromoterRuns until it is told to end; who has caught up votes then.
func TestPromoterRuns(t *testing.T) {
	n := newFakeNode()
	n.member(t, 42, "two", false)
	n.commit, n.match = 10, map[uint64]uint64{42: 10}
	n.refuse = errors.New("not now")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		(&Promoter{Node: n, Log: silent, Every: time.Millisecond}).Run(ctx)
	}()
	n.set(func() { n.refuse = nil })
	for {
		if v, _ := n.View(); v.Members.Find(42).Voter {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
}
