package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"polystalk/shard/core"
	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
	"polystalk/shard/wal/fakedisk"
)

// sendTo sends a node's journal.
func sendTo(w io.Writer, n *node, o SendOptions) (Sent, error) {
	p := n.j.Pin()
	defer p.Release()
	return Send(context.Background(), w, p, o)
}

// stream is a node's journal as it is sent.
func stream(t *testing.T, n *node) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := sendTo(&b, n, SendOptions{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func receive(b []byte, d wal.Disk, o ReceiveOptions) (*Received, error) {
	return Receive(context.Background(), bytes.NewReader(b), d, o)
}

// names are the files of a disk.
func names(d *fakedisk.Disk) []string {
	list, _ := d.List()
	slices.Sort(list)
	return list
}

// TestStream moves a journal to an empty directory, and to one with a journal of its own.
func TestStream(t *testing.T) {
	n := aNode(t)
	if n.j.Stats().Oldest < 2 {
		t.Fatal("nothing of the journal was ever given up")
	}
	want := n.jobs()
	b := stream(t, n)

	empty := fakedisk.New(2)
	r, err := receive(b, empty, ReceiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Segments < 3 || r.Bytes < 500_000 || r.Batches < 20 {
		t.Errorf("received %+v", r)
	}
	if err := r.install(); err != nil {
		t.Fatal(err)
	}
	empty.Cut() // what Install has done is for good
	same(t, jobsOf(t, empty), want)

	other := start(t, fakedisk.New(3))
	other.put(40, 30_000)
	r, err = receive(b, other.disk, ReceiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other.put(1, 10) // its journal goes on meanwhile
	other.close()
	if err := r.install(); err != nil {
		t.Fatal(err)
	}
	same(t, jobsOf(t, other.disk), want)
	if open := other.disk.(*fakedisk.Disk).Opened(); open != 0 {
		t.Errorf("%d files are open", open)
	}
}

// A journal that was received can be sent on.
func TestStreamOfAStream(t *testing.T) {
	n := aNode(t)
	b := stream(t, n)
	second := fakedisk.New(2)
	r, err := receive(b, second, ReceiveOptions{})
	if err == nil {
		err = r.install()
	}
	if err != nil {
		t.Fatal(err)
	}
	m := start(t, second)
	m.put(10, 30_000)
	want := m.jobs()
	third := fakedisk.New(3)
	r, err = receive(stream(t, m), third, ReceiveOptions{})
	if err == nil {
		err = r.install()
	}
	if err != nil {
		t.Fatal(err)
	}
	same(t, jobsOf(t, third), want)
}

// TestDiscard leaves the journal that there is.
func TestDiscard(t *testing.T) {
	b := stream(t, aNode(t))
	other := start(t, fakedisk.New(3))
	other.put(3, 100)
	want, before := other.jobs(), names(other.disk.(*fakedisk.Disk))
	r, err := receive(b, other.disk, ReceiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Discard(); err != nil {
		t.Fatal(err)
	}
	other.close()
	if got := names(other.disk.(*fakedisk.Disk)); !slices.Equal(got, before) {
		t.Errorf("the directory holds %q", got)
	}
	same(t, jobsOf(t, other.disk), want)
}

// TestBrokenAnywhere ends the stream at many places, and alters it there: nothing of it stays.
func TestBrokenAnywhere(t *testing.T) {
	b := stream(t, aNode(t))
	places := []int{0, 1, 8, 9, 10, 17, 25, 26, 27, len(b) - 1, len(b) - 16, len(b) - 20, len(b) - 25}
	for at := 40; at < len(b); at += 1 + len(b)/150 {
		places = append(places, at)
	}
	for _, at := range places {
		d := fakedisk.New(2)
		if _, err := receive(b[:at], d, ReceiveOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("a stream that ends at byte %d: %v", at, err)
		}
		altered := slices.Clone(b)
		altered[at] ^= 0x10
		if _, err := receive(altered, d, ReceiveOptions{}); err == nil {
			t.Fatalf("nobody notices that byte %d was altered", at)
		}
		if left := names(d); len(left) > 0 || d.Opened() > 0 {
			t.Fatalf("byte %d: there is still %q, %d files are open", at, left, d.Opened())
		}
	}
}

// TestStrangers sends what is no journal.
func TestStrangers(t *testing.T) {
	hello := frame(1, "polysnap\x01\x00\x10\x00\x00\x00\x00\x00\x00")
	segment := func(n byte) string { return frame(2, string([]byte{n, 0, 0, 0, 0, 0, 0, 0})) }
	piece := frame(3, "some bytes")
	for what, c := range map[string]struct{ bytes, want string }{
		"a web client":           {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "not a journal"},
		"a huge frame":           {"\x01\xff\xff\xff\xff\x00\x00\x00\x00", "frame of 4294967295 bytes"},
		"no hello":               {segment(1), "does not begin"},
		"another version":        {frame(1, "polysnap\x02\x00"), "same release"},
		"a short hello":          {frame(1, "polysnap\x01\x00"), "beginning has"},
		"an empty note":          {hello + frame(6, ""), "note of 0 bytes"},
		"two notes":              {hello + frame(6, "a") + frame(6, "b"), "note of 1 bytes"},
		"a late note":            {hello + segment(1) + piece + frame(6, "a"), "note of 1 bytes"},
		"a long note":            {hello + frame(6, strings.Repeat("a", 100_000)), "note of 100000 bytes"},
		"a piece of nothing":     {hello + piece, "of no segment"},
		"an empty piece":         {hello + segment(1) + frame(3, ""), "of no segment"},
		"a segment without name": {hello + frame(2, "1"), "beginning of a segment"},
		"segment zero":           {hello + segment(0), "segment 0"},
		"a segment that is left out": {hello + segment(1) + piece + segment(3),
			"segment 3 follows on 1"},
		"the end too early":       {hello + frame(4, strings.Repeat("\x00", 16)), "it ends with"},
		"an end without sums":     {hello + segment(1) + piece + frame(4, ""), "its end has"},
		"an end with wrong sums":  {hello + segment(1) + piece + frame(4, strings.Repeat("\x01", 16)), "it ends with"},
		"an unknown frame":        {hello + frame(9, "x"), "kind 9"},
		"bytes that are no batch": {hello + segment(1) + piece + frame(4, "\x01\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00"), "damaged"},
		"who gives up at once":    {frame(5, "the leader has changed"), "given up: the leader has changed"},
		"who gives up":            {hello + segment(1) + piece + frame(5, "no majority"), "given up: no majority"},
	} {
		d := fakedisk.New(2)
		_, err := receive([]byte(c.bytes), d, ReceiveOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if left := names(d); len(left) > 0 || d.Opened() > 0 {
			t.Errorf("%s: there is still %q, %d files are open", what, left, d.Opened())
		}
	}
}

// TestReceiverEndsAnywhere ends the receiver's process at many operations of its disk, by kill
// -9 or a power cut: the next start has one of the two journals, and nothing else.
func TestReceiverEndsAnywhere(t *testing.T) {
	n := aNode(t)
	want, b := n.jobs(), stream(t, n)
	old := start(t, fakedisk.New(5))
	old.put(4, 50)
	old.close()
	had := old.jobs()
	for at, step := 1, 1; ; at += step {
		d := old.disk.(*fakedisk.Disk).Clone()
		d.CrashAt = at
		r, err := receive(b, d, ReceiveOptions{})
		if err == nil {
			step = 1 // all that follows is of the exchange
			err = r.install()
		} else {
			step = 3
		}
		done := err == nil
		if at%2 == 0 {
			d.Cut()
		} else {
			d.Kill()
		}
		d.CrashAt = 0
		if _, err := exchange.Resume(d); err != nil {
			t.Fatalf("operation %d: %v", at, err)
		}
		for _, name := range names(d) {
			if !strings.HasPrefix(name, "journal.") {
				t.Fatalf("operation %d: there is still %s", at, name)
			}
		}
		got := jobsOf(t, d)
		if done || got[40] != "" {
			same(t, got, want)
		} else {
			same(t, got, had)
		}
		if done {
			break
		}
	}
}

// TestFullDisk refuses what has no room, before it comes where that can be known.
func TestFullDisk(t *testing.T) {
	b := stream(t, aNode(t))
	for _, c := range []struct {
		name  string
		limit int64
		mute  bool
	}{{"said before", 300_000, false}, {"not said", 300_000, true}, {"none", 1, true}} {
		d := fakedisk.New(2)
		d.Limit, d.Mute = c.limit, c.mute
		_, err := receive(b, d, ReceiveOptions{})
		var full *RoomError
		if !errors.As(err, &full) || full.Need <= full.Free {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.mute && d.Did["write"] > 0 {
			t.Errorf("%s: %d bytes were written", c.name, d.Size())
		}
		if left := names(d); len(left) > 0 {
			t.Errorf("%s: there is still %q", c.name, left)
		}
	}
	d := fakedisk.New(2)
	d.Limit = 2 << 20
	if _, err := receive(b, d, ReceiveOptions{Room: 2 << 20}); err == nil {
		t.Error("no room is left for a start")
	}
}

// TestFailingDisk: errors of the receiver's disk end it.
func TestFailingDisk(t *testing.T) {
	b := stream(t, aNode(t))
	for _, what := range []string{"create", "write", "sync", "syncdir", "list", "open", "read"} {
		d := fakedisk.New(2)
		failed := false
		d.Before = func(op, name string) error {
			if op == what && (!failed || op == "read") { // a second try to read may do
				failed = true
				return &fs.PathError{Op: op, Path: name, Err: syscall.EIO}
			}
			return nil
		}
		_, err := receive(b, d, ReceiveOptions{})
		var disk *DiskError
		switch {
		case what == "read": // it is found, as damage is
			if err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("%s: %v", what, err)
			}
		case !errors.Is(err, syscall.EIO) || !errors.As(err, &disk):
			t.Errorf("%s: %v", what, err)
		}
		if !failed {
			t.Errorf("%s: it never came to that", what)
		}
		if left := names(d); len(left) > 0 || d.Opened() > 0 {
			t.Errorf("%s: there is still %q, %d files are open", what, left, d.Opened())
		}
	}
}

// TestSenderGivesUp tells the receiver why.
func TestSenderGivesUp(t *testing.T) {
	n := aNode(t)
	var b bytes.Buffer
	deposed := errors.New("another server leads by now")
	_, err := sendTo(&b, n, SendOptions{Confirm: func(context.Context) error { return deposed }})
	if !errors.Is(err, deposed) {
		t.Errorf("the sender says %v", err)
	}
	var why *senderError
	if _, err := receive(b.Bytes(), fakedisk.New(2), ReceiveOptions{}); !errors.As(err, &why) || why.Text != deposed.Error() {
		t.Errorf("the receiver says %v", err)
	}
}

// TestGoesOnMeanwhile: the sender's journal goes on and compacts while it is sent, to two at a
// time; what is received starts, and has what was there when the sending began.
func TestGoesOnMeanwhile(t *testing.T) {
	n := aNode(t)
	var streams [2]bytes.Buffer
	var first, second *wal.Pin = n.j.Pin(), n.j.Pin()
	defer first.Release()
	steps := 0
	work := func(int64, int64) {
		if steps++; steps < 20 {
			n.put(2, 10_000)
			n.remove(n.id - 1)
		}
	}
	before := n.jobs()
	if _, err := Send(context.Background(), &streams[0], first, SendOptions{Progress: work}); err != nil {
		t.Fatal(err)
	}
	if _, err := Send(context.Background(), &streams[1], second, SendOptions{}); err != nil {
		t.Fatal(err)
	}
	second.Release()
	for i := range streams {
		d := fakedisk.New(2)
		r, err := receive(streams[i].Bytes(), d, ReceiveOptions{})
		if err == nil {
			err = r.install()
		}
		if err != nil {
			t.Fatal(err)
		}
		got := jobsOf(t, d)
		for id, body := range before {
			if got[id] != body {
				t.Fatalf("stream %d: job %d is not what it was", i, id)
			}
		}
		if i == 1 {
			same(t, got, n.jobs())
		}
	}
}

// TestTooSlow: a journal that has grown to twice its bound is not held back any longer, and the
// receiver hears of it.
func TestTooSlow(t *testing.T) {
	n := start(t, fakedisk.New(1))
	n.put(40, 40_000)
	for id := core.JobID(1); id <= 35; id++ {
		n.remove(id)
	}
	pin := n.j.Pin()
	defer pin.Release()
	var b bytes.Buffer
	_, err := Send(context.Background(), &b, pin, SendOptions{Progress: func(sent, all int64) {
		for i := 0; i < 2000 && !pin.Lost(); i++ {
			n.put(1, 40_000)
			n.remove(n.id)
		}
	}})
	if !errors.Is(err, wal.ErrPinLost) {
		t.Errorf("the sender says %v", err)
	}
	var why *senderError
	if _, err := receive(b.Bytes(), fakedisk.New(2), ReceiveOptions{}); !errors.As(err, &why) || !strings.Contains(why.Text, "twice") {
		t.Errorf("the receiver says %v", err)
	}
}

// TestEnded: the context ends either side.
func TestEnded(t *testing.T) {
	n := aNode(t)
	b := stream(t, n)
	ctx, cancel := context.WithCancel(context.Background())
	pin := n.j.Pin()
	defer pin.Release()
	_, err := Send(ctx, io.Discard, pin, SendOptions{Progress: func(int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the sender says %v", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	d := fakedisk.New(2)
	_, err = Receive(ctx, bytes.NewReader(b), d, ReceiveOptions{Progress: func(int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) || len(names(d)) > 0 {
		t.Errorf("the receiver says %v, and leaves %q", err, names(d))
	}
}

// TestConnectionBreaks: the sender's error is the connection's.
func TestConnectionBreaks(t *testing.T) {
	n := aNode(t)
	r, w := io.Pipe()
	broken := errors.New("connection reset")
	go func() {
		io.CopyN(io.Discard, r, 100_000)
		r.CloseWithError(broken)
	}()
	if _, err := sendTo(w, n, SendOptions{}); !errors.Is(err, broken) {
		t.Errorf("the sender says %v", err)
	}
}

// TestProgress tells how far both are.
func TestProgress(t *testing.T) {
	n := aNode(t)
	var b bytes.Buffer
	check := func(who string) (func(done, all int64), *int64) {
		var last int64
		return func(done, all int64) {
			if done <= last || all < done {
				t.Fatalf("%s: %d of %d after %d", who, done, all, last)
			}
			last = done
		}, &last
	}
	heard, sent := check("the sender")
	s, err := sendTo(&b, n, SendOptions{Progress: heard})
	if err != nil || s.Bytes != *sent || s.Segments == 0 {
		t.Errorf("%+v, %d, %v", s, *sent, err)
	}
	heard, received := check("the receiver")
	r, err := receive(b.Bytes(), fakedisk.New(2), ReceiveOptions{Progress: heard})
	if err != nil || r.Bytes != *received || r.Bytes != s.Bytes || r.Segments != s.Segments {
		t.Errorf("%+v, %d, %v", r, *received, err)
	}
}

// TestTornBatch: a sender never sends a batch in part, so one is no end of a crash.
func TestTornBatch(t *testing.T) {
	n := start(t, fakedisk.New(1))
	n.put(3, 1000)
	data := n.disk.(*fakedisk.Disk).Entries["journal.0000000001"].Data
	used := len(bytes.TrimRight(data, "\x00"))
	for _, cut := range []int{0, 100} {
		body := string(data[:(used+15)/16*16-cut])
		sums := make([]byte, 16)
		sums[0] = 1
		binary.LittleEndian.PutUint64(sums[8:], uint64(len(body)))
		b := frame(1, "polysnap\x01\x00\x10\x00\x00\x00\x00\x00\x00") +
			frame(2, "\x01\x00\x00\x00\x00\x00\x00\x00") + frame(3, body) + frame(4, string(sums))
		if _, err := receive([]byte(b), fakedisk.New(2), ReceiveOptions{}); (err == nil) != (cut == 0) {
			t.Errorf("%d bytes of the last batch are missing: %v", cut, err)
		}
	}
}

// TestNote comes with the journal, and is there once that is.
func TestNote(t *testing.T) {
	n := aNode(t)
	var b bytes.Buffer
	if _, err := sendTo(&b, n, SendOptions{Note: []byte("who the members are")}); err != nil {
		t.Fatal(err)
	}
	d := fakedisk.New(2)
	r, err := receive(b.Bytes(), d, ReceiveOptions{})
	if err != nil || string(r.Note) != "who the members are" {
		t.Fatalf("%+v, %v", r, err)
	}
	if b, err := exchange.Note(d); b != nil || err != nil {
		t.Errorf("before it is installed: %q, %v", b, err)
	}
	if err := r.install(); err != nil {
		t.Fatal(err)
	}
	d.Cut()
	if b, err := exchange.Note(d); string(b) != "who the members are" || err != nil {
		t.Errorf("after it was: %q, %v", b, err)
	}
	same(t, jobsOf(t, d), n.jobs())
}
