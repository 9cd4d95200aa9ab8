package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"polystalk/shard/record"
	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
	"polystalk/shard/wal/fakedisk"
)

// sendTo sends a node's journal.
func sendTo(w io.Writer, n *journal, o SendOptions) (Sent, error) {
	p := n.Pin()
	defer p.Release()
	return Send(context.Background(), w, p, o)
}

// stream returns the bytes that are sent for a node's journal.
func stream(t *testing.T, n *journal) []byte {
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

// names returns the files of a disk.
func names(d *fakedisk.Disk) []string {
	list, _ := d.List()
	slices.Sort(list)
	return list
}

// move receives a journal and installs it.
func move(t *testing.T, b []byte, d wal.Disk, o ReceiveOptions) *Received {
	t.Helper()
	r, err := receive(b, d, o)
	if err == nil {
		err = r.install()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A journal moves to an empty directory, and from there to one with another journal. Its note is
// installed with it. Both sides report their progress.
func TestJournalMoves(t *testing.T) {
	n := compacted(t)
	if n.Stats().Oldest < 2 {
		t.Fatal("nothing of the journal was ever dropped")
	}
	var sent, received int64
	progress := func(last *int64) func(done, all int64) {
		return func(done, all int64) {
			if done <= *last || all < done {
				t.Fatalf("%d of %d after %d", done, all, *last)
			}
			*last = done
		}
	}
	var b bytes.Buffer
	s, err := sendTo(&b, n, SendOptions{Note: []byte("the members"), Progress: progress(&sent)})
	if err != nil {
		t.Fatal(err)
	}
	empty := fakedisk.New(2)
	r, err := receive(b.Bytes(), empty, ReceiveOptions{Progress: progress(&received)})
	if err != nil {
		t.Fatal(err)
	}
	if r.Segments < 3 || r.Bytes < 500_000 || r.Batches < 20 || r.Bytes != s.Bytes || r.Bytes != received || r.Bytes != sent || r.Segments != s.Segments || string(r.Note) != "the members" {
		t.Errorf("received %+v, sent %+v", r, s)
	}
	if note, err := exchange.Note(empty); note != nil || err != nil {
		t.Errorf("before it is installed: %q, %v", note, err)
	}
	if err := r.install(); err != nil {
		t.Fatal(err)
	}
	empty.Cut() // the installation is durable
	if note, err := exchange.Note(empty); string(note) != "the members" || err != nil {
		t.Errorf("after it is installed: %q, %v", note, err)
	}
	same(t, jobsOf(t, empty), n.jobs)

	second := openJournal(t, empty)
	second.put(10, 30_000)
	disk := fakedisk.New(3)
	other := openJournal(t, disk)
	other.put(3, 100)
	before := names(disk)
	if r, err = receive(b.Bytes(), disk, ReceiveOptions{}); err == nil {
		err = r.Discard()
	}
	if got := names(disk); err != nil || !slices.Equal(got, before) {
		t.Errorf("after Discard the directory holds %q, %v", got, err)
	}
	if r, err = receive(stream(t, second), disk, ReceiveOptions{}); err != nil {
		t.Fatal(err)
	}
	other.put(40, 30_000) // its journal grows meanwhile
	other.close()
	kept := disk.Clone()
	if _, err := exchange.Resume(kept); err != nil {
		t.Fatal(err)
	}
	same(t, jobsOf(t, kept), other.jobs) // without install
	if err := r.install(); err != nil {
		t.Fatal(err)
	}
	same(t, jobsOf(t, disk), second.jobs)
	if open := disk.Opened(); open != 0 {
		t.Errorf("%d files are open", open)
	}
}

// The largest set of policies is sent with a journal.
func TestPoliciesAreSent(t *testing.T) {
	set := make([]record.Policy, record.PoliciesMax)
	for i := range set {
		set[i] = record.Policy{Match: fmt.Sprintf("tube %d*", i), Attempts: 3, Note: "a note of twelve"}
	}
	if n := len(record.AppendPolicies(nil, set)); n > record.PoliciesSizeMax || n < record.PoliciesSizeMax*9/10 {
		t.Fatalf("the set has %d bytes", n)
	}
	from, to := openJournal(t, fakedisk.New(1)), fakedisk.New(2)
	from.change(func(b *record.Buffer) { b.Policies(set) })
	from.put(30, 40_000)
	r, err := receive(stream(t, from), to, ReceiveOptions{})
	if err == nil {
		err = r.install()
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := openJournal(t, to).policies; !slices.Equal(got, set) {
		t.Errorf("%d policies arrive", len(got))
	}
}

// A stream that ends or is altered at any place leaves no files.
func TestBrokenAnywhere(t *testing.T) {
	b := stream(t, compacted(t))
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
			t.Fatalf("byte %d was altered, and Receive succeeded", at)
		}
		if left := names(d); len(left) > 0 || d.Opened() > 0 {
			t.Fatalf("byte %d: not removed: %q, %d files are open", at, left, d.Opened())
		}
	}
}

// Bytes that are not a journal are refused, and leave no files.
func TestStrangers(t *testing.T) {
	hello := frame(1, "polysnap\x01\x00\x10\x00\x00\x00\x00\x00\x00")
	segment := func(n byte) string { return frame(2, string([]byte{n, 0, 0, 0, 0, 0, 0, 0})) }
	piece := frame(3, "some bytes")
	for what, c := range map[string]struct{ bytes, want string }{
		"a web client":           {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "not a journal"},
		"a huge frame":           {"\x01\xff\xff\xff\xff\x00\x00\x00\x00", "frame of 4294967295 bytes"},
		"no hello":               {segment(1), "wrong beginning"},
		"another version":        {frame(1, "polysnap\x02\x00"), "same release"},
		"a short hello":          {frame(1, "polysnap\x01\x00"), "beginning has"},
		"an empty note":          {hello + frame(6, ""), "note of 0 bytes"},
		"two notes":              {hello + frame(6, "a") + frame(6, "b"), "note of 1 bytes"},
		"a late note":            {hello + segment(1) + piece + frame(6, "a"), "note of 1 bytes"},
		"a long note":            {hello + frame(6, strings.Repeat("a", 100_000)), "has 100000 bytes"},
		"a piece of nothing":     {hello + piece, "of no segment"},
		"an empty piece":         {hello + segment(1) + frame(3, ""), "of no segment"},
		"a segment without name": {hello + frame(2, "1"), "beginning of a segment"},
		"segment zero":           {hello + segment(0), "segment 0"},
		"a segment that is left out": {hello + segment(1) + piece + segment(3),
			"segment 3 follows segment 1"},
		"the end too early":              {hello + frame(4, strings.Repeat("\x00", 16)), "it ends with"},
		"an end without sums":            {hello + segment(1) + piece + frame(4, ""), "its end has"},
		"an end with wrong sums":         {hello + segment(1) + piece + frame(4, strings.Repeat("\x01", 16)), "it ends with"},
		"an unknown frame":               {hello + frame(9, "x"), "kind 9"},
		"bytes that are no batch":        {hello + segment(1) + piece + frame(4, "\x01\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00"), "damaged"},
		"a sender that gives up at once": {frame(5, "the leader has changed"), "has failed: the leader has changed"},
		"a sender that gives up":         {hello + segment(1) + piece + frame(5, "no majority"), "has failed: no majority"},
	} {
		d := fakedisk.New(2)
		_, err := receive([]byte(c.bytes), d, ReceiveOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if left := names(d); len(left) > 0 || d.Opened() > 0 {
			t.Errorf("%s: not removed: %q, %d files are open", what, left, d.Opened())
		}
	}
}

// After a kill or a power cut at any operation of the receiver's disk, the next start has one of the
// two journals, and nothing else.
func TestReceiverEndsAnywhere(t *testing.T) {
	n := compacted(t)
	want, b := n.jobs, stream(t, n)
	old := openJournal(t, fakedisk.New(5))
	old.put(4, 50)
	old.close()
	had := old.jobs
	for at, step := 1, 1; ; at += step {
		d := old.disk.(*fakedisk.Disk).Clone()
		d.CrashAt = at
		r, err := receive(b, d, ReceiveOptions{})
		if err == nil {
			step = 1 // all further operations belong to the exchange
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

// A journal is refused if the disk has no space, before it is written if its size is announced.
func TestFullDisk(t *testing.T) {
	b := stream(t, compacted(t))
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
			t.Errorf("%s: not removed: %q", c.name, left)
		}
	}
	d := fakedisk.New(2)
	d.Limit = 2 << 20
	if _, err := receive(b, d, ReceiveOptions{Room: 2 << 20}); err == nil {
		t.Error("no room is left for a start")
	}
}

// An error of the receiver's disk ends it.
func TestFailingDisk(t *testing.T) {
	b := stream(t, compacted(t))
	for _, what := range []string{"create", "write", "sync", "syncdir", "list", "open", "read"} {
		d := fakedisk.New(2)
		failed := false
		d.Before = func(op, name string) error {
			if op == what && (!failed || op == "read") { // a second read may succeed
				failed = true
				return &fs.PathError{Op: op, Path: name, Err: syscall.EIO}
			}
			return nil
		}
		_, err := receive(b, d, ReceiveOptions{})
		var disk *DiskError
		switch {
		case what == "read": // it is reported as damage
			if err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("%s: %v", what, err)
			}
		case !errors.Is(err, syscall.EIO) || !errors.As(err, &disk):
			t.Errorf("%s: %v", what, err)
		}
		if !failed {
			t.Errorf("%s: the operation did not happen", what)
		}
		if left := names(d); len(left) > 0 || d.Opened() > 0 {
			t.Errorf("%s: not removed: %q, %d files are open", what, left, d.Opened())
		}
	}
}

// The receiver gets the sender's error.
func TestSenderGivesUp(t *testing.T) {
	n := compacted(t)
	var b bytes.Buffer
	deposed := errors.New("another server leads by now")
	_, err := sendTo(&b, n, SendOptions{Confirm: func(context.Context) error { return deposed }})
	if !errors.Is(err, deposed) {
		t.Errorf("the sender's error is %v", err)
	}
	var why *senderError
	if _, err := receive(b.Bytes(), fakedisk.New(2), ReceiveOptions{}); !errors.As(err, &why) || why.Text != deposed.Error() {
		t.Errorf("the receiver's error is %v", err)
	}
}

// The sender's journal grows and is compacted while it is sent. The receiver has all jobs from before
// the transfer.
func TestGoesOnMeanwhile(t *testing.T) {
	n := compacted(t)
	var b bytes.Buffer
	steps, before := 0, maps.Clone(n.jobs)
	_, err := sendTo(&b, n, SendOptions{Progress: func(int64, int64) {
		if steps++; steps < 20 {
			n.put(2, 10_000)
			n.remove(n.last - 1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	d := fakedisk.New(2)
	move(t, b.Bytes(), d, ReceiveOptions{})
	got := jobsOf(t, d)
	for id, body := range before {
		if got[id] != body {
			t.Fatalf("job %d has changed", id)
		}
	}
}

// The context ends either side. The sender's error is the connection's if that breaks.
func TestEitherSideEnds(t *testing.T) {
	n := compacted(t)
	b := stream(t, n)
	ctx, cancel := context.WithCancel(context.Background())
	pin := n.Pin()
	defer pin.Release()
	if _, err := Send(ctx, io.Discard, pin, SendOptions{Progress: func(int64, int64) { cancel() }}); !errors.Is(err, context.Canceled) {
		t.Errorf("the sender's error is %v", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	d := fakedisk.New(2)
	_, err := Receive(ctx, bytes.NewReader(b), d, ReceiveOptions{Progress: func(int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) || len(names(d)) > 0 {
		t.Errorf("the receiver's error is %v, and files are left: %q", err, names(d))
	}
	r, w := io.Pipe()
	broken := errors.New("connection reset")
	go func() {
		io.CopyN(io.Discard, r, 100_000)
		r.CloseWithError(broken)
	}()
	if _, err := sendTo(w, n, SendOptions{}); !errors.Is(err, broken) {
		t.Errorf("the sender's error is %v", err)
	}
}

// A sender never sends a part of a batch, so the receiver refuses one.
func TestTornBatch(t *testing.T) {
	n := openJournal(t, fakedisk.New(1))
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
			t.Errorf("%d bytes of the last batch were cut off: %v", cut, err)
		}
	}
}
