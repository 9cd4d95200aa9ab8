package transport

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/codec/wiretest/relay"
)

func TestMessagesArriveInOrder(t *testing.T) {
	forBoth(t, func(t *testing.T, a, b *node) {
		if a.Send(0, nil) || a.Send(1, nil) || a.Send(9, nil) {
			t.Error("a message to no other member was accepted")
		}
		talk(t, a, b, "first")
		const n = 10000
		for i := range n {
			a.say(t, b, fmt.Sprint(i))
		}
		large := strings.Repeat("large ", 1<<20)
		a.say(t, b, large)
		a.say(t, b, "")
		a.say(t, b, "last")
		for i := 0; i < n; {
			got := <-b.got
			if got.text == "first" {
				continue // it may have been sent twice
			}
			if want := (heard{1, fmt.Sprint(i)}); got != want {
				t.Fatalf("heard %v, want %v", got, want)
			}
			i++
		}
		for _, want := range []string{large, "", "last"} {
			if got := <-b.got; got.text != want {
				t.Fatalf("heard %d bytes, want %d", len(got.text), len(want))
			}
		}
		talk(t, b, a, "and back")
		sent, got := a.status(b), b.status(a)
		if sent.SentBytes < uint64(len(large)) || sent.SentBytes > got.ReceivedBytes || a.peers[2].queuedBytes.Load() != 0 {
			t.Errorf("counted %+v and %+v", sent, got)
		}
		if !sent.ConnectedTo || sent.Trouble != "" || sent.Name != "n2" {
			t.Errorf("status %+v", sent)
		}
	})
}

// A server knows how far the clock of another one is ahead, and the free space on its disk, also
// after the other has stopped.
func TestClocksAndRoomAreTold(t *testing.T) {
	const ahead = time.Hour
	var room atomic.Int64
	room.Store(-1)
	a := newNode(t, 1, func(x *Transport) {
		x.o.Now = func() time.Time { return time.Now().Add(ahead) }
		x.o.Room = room.Load
		x.within.clock = time.Millisecond
	})
	b := newNode(t, 2, nil)
	meet(a, b)
	await(t, "both have sent their clocks", func() bool { return a.status(b).ClockSamples > 0 && b.status(a).ClockSamples > 0 })
	for _, tt := range []struct{ got, want time.Duration }{
		{b.status(a).ClockAhead, ahead}, {a.status(b).ClockAhead, -ahead},
	} {
		if diff := tt.want - tt.got; diff < 0 || diff > ample {
			t.Errorf("a clock is reported as %v ahead, want %v", tt.got, tt.want)
		}
	}
	if a.status(b).Room != nil || b.status(a).Room != nil {
		t.Error("a room is known that was not reported")
	}
	for _, n := range []int64{0, 5, 1 << 60} {
		room.Store(n)
		await(t, "it is known", func() bool { r := b.status(a).Room; return r != nil && *r == n })
	}
	a.Close()
	await(t, "it is gone", func() bool { return !b.hears(a) })
	if r := b.status(a).Room; r == nil || *r != 1<<60 {
		t.Errorf("once it is gone its room is %v", r)
	}
}

func TestClockOffsetIgnoresLateSamples(t *testing.T) {
	var o clockOffset
	if _, n := o.value(); n > 0 {
		t.Error("an offset is known before there was a sample")
	}
	for _, late := range []time.Duration{3, 1, 2} {
		o.add(time.Hour - late*time.Second)
	}
	if got, _ := o.value(); got != time.Hour-time.Second {
		t.Errorf("%v, want the sample with the least delay", got)
	}
	for range offsetSamples {
		o.add(-time.Minute) // the other clock was set back
	}
	if got, _ := o.value(); got != -time.Minute {
		t.Errorf("%v, want the newest samples", got)
	}
}

func TestServerComesBack(t *testing.T) {
	a, b := newNode(t, 1, nil), newNode(t, 2, nil)
	meet(a, b)
	talk(t, a, b, "before")
	at := b.Addr().String()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if node := <-a.lost; node != 2 {
		t.Errorf("server %d is reported as unreachable, want 2", node)
	}
	await(t, "messages are dropped", func() bool { return !a.Send(2, []byte("lost")) })
	if s := a.status(b); s.Trouble == "" || s.Dropped == 0 {
		t.Errorf("status %+v, want trouble and what was dropped", s)
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	b = newNodeAt(t, l, 2, nil)
	meet(a, b)
	talk(t, a, b, "after")
	talk(t, b, a, "and back")
	a.wantLogged(t, "connected with another server of the cluster again")
}

// A member moves to another address, and is removed.
func TestMembersChange(t *testing.T) {
	a, b := newNode(t, 1, nil), newNode(t, 2, nil)
	meet(a, b)
	talk(t, a, b, "here")
	c := newNode(t, 2, nil) // the same server at another address
	meet(a, c)
	talk(t, a, c, "there")
	talk(t, c, a, "and back")
	if s := a.status(c); s.Addr != c.Addr().String() {
		t.Errorf("its address is %s, want %s", s.Addr, c.Addr())
	}
	a.SetMembers([]Member{a.as()})
	if a.Send(2, []byte("without it")) {
		t.Error("a message was accepted for a server that was removed")
	}
	c.wantLogged(t, "is lost; trying again")
}

// A follower that has just come back may not know the leader yet.
func TestStrangerOfTheClusterIsAnswered(t *testing.T) {
	a, b := newNode(t, 1, nil), newNode(t, 2, nil)
	a.SetMembers([]Member{a.as(), b.as()})
	b.SetMembers([]Member{b.as()})
	talk(t, a, b, "I am your leader")
	await(t, "it is answered", func() bool { return b.Send(1, []byte("yes")) })
	a.hear(t, b, "yes")
	if s := b.status(a); !b.peers[1].isGuest || s.Name != "n1" {
		t.Errorf("status %+v, want a guest", s)
	}
	b.SetMembers([]Member{b.as()}) // b still does not know a
	talk(t, b, a, "still here")
	if strings.Contains(a.log.String(), "is lost") {
		t.Errorf("it was connected more than once: %s", a.log)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "it is forgotten", func() bool { return len(b.Status()) == 0 })
}

func TestSlowReaderDelaysNoOtherServer(t *testing.T) {
	slow := make(chan struct{})
	a, c := newNode(t, 1, nil), newNode(t, 3, nil)
	b := newNode(t, 2, func(x *Transport) {
		receive := x.o.Receive
		x.o.Receive = func(from uint64, m []byte) {
			select {
			case <-slow:
			case <-x.ctx.Done():
			}
			receive(from, m)
		}
	})
	meet(a, b, c)
	m := bytes.Repeat([]byte("x"), 1<<20)
	await(t, "the queue is full", func() bool { return a.status(b).ConnectedTo && !a.Send(2, m) })
	if n := int(a.peers[2].queuedBytes.Load()); n > queueBytes || n < queueBytes-2*len(m) || a.status(b).Dropped == 0 {
		t.Errorf("status %+v with %d bytes, want a full queue", a.status(b), n)
	}
	talk(t, a, c, "meanwhile")
	close(slow)
	await(t, "it is sent on", func() bool { return a.Send(2, []byte("on")) })
	b.hear(t, a, "on")
}

func TestQueueOfSmallMessagesIsBounded(t *testing.T) {
	p := &peer{queue: make(chan []byte, queueMessages)}
	if p.send(nil) {
		t.Error("a message was taken before there was a connection")
	}
	p.open.Store(true)
	for range queueMessages {
		if !p.send(nil) {
			t.Fatal("a message was not taken")
		}
	}
	if p.send(nil) {
		t.Error("one more than there is room for was taken")
	}
	<-p.queue
	if !p.send([]byte("x")) {
		t.Error("a message that was sent takes room")
	}
	if n := p.shut(); n != queueMessages || p.send(nil) || p.queuedBytes.Load() != 0 {
		t.Errorf("%d were dropped, want all; or it still accepts messages", n)
	}
}

// through connects a to b through a relay.
func through(t *testing.T, a, b *node) *relay.Relay {
	t.Helper()
	r, err := relay.Listen("127.0.0.1:0", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	a.o.Redirect = map[string]string{b.Addr().String(): r.Addr()}
	return r
}

func TestOneDirectionFailsByItself(t *testing.T) {
	a, b := newNode(t, 1, nil), newNode(t, 2, nil)
	r := through(t, a, b)
	meet(a, b)
	talk(t, a, b, "there")
	talk(t, b, a, "and back")
	r.Hold(relay.Out)
	a.say(t, b, "kept")
	talk(t, b, a, "the other way is free")
	select {
	case got := <-b.got:
		if got.text == "kept" {
			t.Errorf("heard %q through a relay that is held", got.text)
		}
	default:
	}
	r.Pass()
	b.hear(t, a, "kept")
	r.Reset()
	talk(t, a, b, "again")
}

// Both sides close a connection when the other side is silent, or no longer reads.
func TestSilentEndIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	quick := func(x *Transport) { x.within.silent = 2 * time.Second }
	a, b := newNode(t, 1, quick), newNode(t, 2, quick)
	r := through(t, a, b)
	meet(a, b)
	talk(t, a, b, "there")
	r.Hold()
	await(t, "the receiver closes the connection", func() bool { return !b.hears(a) })
	b.wantLogged(t, "has broken")
	r.Pass()
	talk(t, a, b, "again")

	c := newNode(t, 3, func(x *Transport) {
		x.within.clock = 100 * time.Millisecond
		x.o.Receive = func(uint64, []byte) { <-x.ctx.Done() }
	})
	meet(a, c)
	m := bytes.Repeat([]byte("x"), 1<<20)
	await(t, "the queue is full", func() bool { return a.status(c).ConnectedTo && !a.Send(3, m) })
	a.wantLogged(t, "is lost; trying again\" node=n3")
}

func TestQuietConnectionStays(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	t.Parallel()
	const silent, clock = 6 * time.Second, 10 * time.Millisecond
	quick := func(x *Transport) { x.within.silent, x.within.clock = silent, clock }
	a, b := newNode(t, 1, quick), newNode(t, 2, quick)
	meet(a, b)
	talk(t, a, b, "there")
	had := b.status(a)
	await(t, "the clock was sent often", func() bool {
		s := b.status(a)
		return s.ReceivedBytes-had.ReceivedBytes > intSize*uint64(silent/clock)*9/8
	})
	if strings.Contains(a.log.String(), "is lost") {
		t.Errorf("it was connected more than once: %s", a.log)
	}
}

func TestServerThatAnswersMessagesIsCutOff(t *testing.T) {
	a := newNode(t, 1, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a.SetMembers([]Member{a.as(), {2, "n2", l.Addr().String()}})
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := readGreeting(c); err != nil {
		t.Fatal(err)
	}
	answer := greeting{kind: Raft, from: Identity{cluster, 2, "n2"}, to: 1}
	if _, err := c.Write(append(answer.append(nil), '!')); err != nil {
		t.Fatal(err)
	}
	a.wantLogged(t, "data in the wrong direction")
}

// A socket that is connected to itself is closed, and its port is free again.
func TestSocketDoesNotTalkToItself(t *testing.T) {
	await(t, "a socket is connected to itself", func() bool { // others take ports as well
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return false
		}
		free.Close()
		c, err := (&net.Dialer{LocalAddr: free.Addr()}).Dial("tcp", free.Addr().String())
		if err != nil {
			return false
		}
		if err := notItself(c); err == nil {
			t.Error("a socket may talk to itself")
		}
		again, err := net.Listen("tcp", free.Addr().String())
		if err != nil {
			t.Fatalf("the port is in use: %v", err)
		}
		return again.Close() == nil
	})
}
