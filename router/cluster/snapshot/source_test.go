package snapshot

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"polystalk/router/cluster"
	"polystalk/shard/wal/fakedisk"
)

// member adds a learner.
func (n *fakeNode) member(t *testing.T, id uint64, name string, standby bool) {
	t.Helper()
	one := cluster.Member{ID: id, Name: name, Addr: name + ":1", Standby: standby}
	if err := n.Change(context.Background(), cluster.Change{Kind: cluster.Add, Member: one}); err != nil {
		t.Fatal(err)
	}
}

func TestSourceRefuses(t *testing.T) {
	l := newLeader(t, 10)
	l.node.member(t, 42, "two", false)
	fetch := func(id uint64) error {
		here, there := net.Pipe()
		go l.source.Serve(there, id)
		_, err := Fetch(context.Background(), here, fakedisk.New(1), ReceiveOptions{})
		return err
	}
	refused := func(id uint64, want string) {
		t.Helper()
		var why *senderError
		if err := fetch(id); !errors.As(err, &why) || !strings.Contains(why.Text, want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	refused(43, "no server of the cluster")
	l.node.set(func() { l.node.leader = 9 })
	refused(42, "no longer leads")
	// A leader that does not serve yet sends its journal: it may need the receiver for a majority.
	l.node.set(func() { l.node.leader, l.node.waits = leaderID, true })
	if err := fetch(42); err != nil {
		t.Error(err)
	}
	l.source.Close()
	refused(42, "ended")
}

// Two servers at a time get the journal, and none gets it twice at once.
func TestTwoAtATime(t *testing.T) {
	l := newLeader(t, 10)
	var held []net.Conn
	var ids []uint64
	for i, name := range []string{"two", "three", "four"} {
		id := uint64(42 + i)
		l.node.member(t, id, name, false)
		ids = append(ids, id)
	}
	for _, id := range ids[:2] {
		here, there := net.Pipe()
		go l.source.Serve(there, id)
		io.ReadFull(here, make([]byte, 1)) // the transfer has begun, and stops here
		held = append(held, here)
	}
	if list := l.source.Sending(); len(list) != 2 || list[0].Begun.IsZero() {
		t.Errorf("%+v are being sent", list)
	}
	for _, c := range []struct {
		id   uint64
		want string
	}{{ids[2], "2 servers already"}, {ids[0], "that server already"}} {
		here, there := net.Pipe()
		go l.source.Serve(there, c.id)
		if _, err := Fetch(context.Background(), here, fakedisk.New(1), ReceiveOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error is %v", err)
		}
	}
	held[0].Close()
	if ok := <-l.node.fetched; ok {
		t.Error("a broken transfer counts as complete")
	}
	l.joiner.Store(ids[2])
	here, there := net.Pipe()
	go l.source.Serve(there, ids[2])
	if _, err := Fetch(context.Background(), here, fakedisk.New(1), ReceiveOptions{}); err != nil {
		t.Error(err)
	}
	if ok := <-l.node.fetched; !ok {
		t.Error("a complete transfer counts as broken")
	}
	l.source.Close() // ends the one that hangs
	if ok := <-l.node.fetched; ok {
		t.Error("an ended transfer counts as complete")
	}
}

// The source keeps the segments that a server needs next until it has caught up. Then it compacts.
func TestWhatComesNextIsKept(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(l *leader)
	}{
		{"caught up", func(l *leader) { l.node.match[42] = l.node.commit - 10 }},
		{"removed", func(l *leader) { l.node.members = newFakeNode().members }},
		{"deposed", func(l *leader) { l.node.leader = 99 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLeader(t, 400)
			l.node.member(t, 42, "two", false)
			l.node.set(func() { l.node.commit, l.node.match[42] = 100_000, 1 })
			fetched(t, l, fakedisk.New(1))
			if ok := <-l.node.fetched; !ok {
				t.Fatal("it was not sent")
			}
			pins := l.journal.Pins
			if pins() != 1 {
				t.Fatalf("%d pins", pins())
			}
			l.node.set(func() { c.end(l) })
			for pins() > 0 {
				time.Sleep(time.Millisecond) // the interval of the source's checks
			}
		})
	}
}
