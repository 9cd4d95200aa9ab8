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

// fetch fetches the journal as a server.
func (l *leader) fetch(id uint64) error {
	here, there := net.Pipe()
	go l.source.Serve(there, id)
	_, err := Fetch(context.Background(), here, fakedisk.New(1), ReceiveOptions{})
	return err
}

// refuses wants a reason.
func (l *leader) refuses(t *testing.T, id uint64, want string) {
	t.Helper()
	var why *senderError
	if err := l.fetch(id); !errors.As(err, &why) || !strings.Contains(why.Text, want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
}

func TestSourceRefuses(t *testing.T) {
	l := newLeader(t, 10)
	l.node.member(t, 42, "two", false)
	l.refuses(t, 43, "no server of the cluster")
	l.node.set(func() { l.node.leader = 9 })
	l.refuses(t, 42, "no longer leads")
	// A leader that does not serve yet sends its journal: it may need the receiver for a majority.
	l.node.set(func() { l.node.leader, l.node.waits = leaderID, true })
	if err := l.fetch(42); err != nil {
		t.Error(err)
	}
	l.source.Close()
	l.refuses(t, 42, "ended")
}

// Two servers at a time get the journal, and none gets it twice at once.
func TestTwoAtATime(t *testing.T) {
	l := newLeader(t, 10)
	var held []net.Conn
	for i, name := range []string{"two", "three", "four"} {
		id := uint64(42 + i)
		l.node.member(t, id, name, false)
		if i < 2 {
			here, there := net.Pipe()
			go l.source.Serve(there, id)
			io.ReadFull(here, make([]byte, 1)) // the transfer has begun, and stops here
			held = append(held, here)
		}
	}
	if list := l.source.Sending(); len(list) != 2 || list[0].Begun.IsZero() {
		t.Errorf("%+v are being sent", list)
	}
	l.refuses(t, 44, "2 servers already")
	l.refuses(t, 42, "that server already")
	held[0].Close()
	broken := <-l.node.fetched
	if err := l.fetch(44); err != nil {
		t.Error(err)
	}
	complete := <-l.node.fetched
	l.source.Close() // ends the one that hangs
	if ended := <-l.node.fetched; broken || !complete || ended {
		t.Errorf("a broken transfer counts as complete: %v; a complete one: %v; one that was ended: %v", broken, complete, ended)
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
