package wal_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/record"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// someEntries are of 20,000 bytes, from one index on.
func someEntries(from uint64, n int) (list []Entry) {
	for i := range n {
		list = append(list, Entry{Index: from + uint64(i), Term: 1, Data: chunkOf(20_000)})
	}
	return list
}

// chunkOf returns a record of about n bytes that does nothing.
func chunkOf(n int) []byte {
	b := make([]byte, n)
	b[0], b[1], b[2], b[4] = byte(n), byte(n>>8), byte(n>>16), 3
	return b
}

// TestAppendWaitsForSpace: a follower with a full disk writes no entry in part, and goes on once
// there is space: by itself with goroutines, and otherwise when Append is called again.
func TestAppendWaitsForSpace(t *testing.T) {
	for _, manual := range []bool{true, false} {
		d := fakedisk.New(1)
		var log bytes.Buffer
		j := newLog(t, d, func(o *commit.Options) {
			o.Manual, o.Logger = manual, slog.New(slog.NewTextHandler(&log, nil))
		})
		var full atomic.Bool
		d.Before = func(op, _ string) error {
			if op == "create" && full.Load() {
				return syscall.ENOSPC
			}
			return nil
		}
		full.Store(true)
		e := j.Entries()
		const most = 60 // more than the segments that there are by now have room for
		if manual {
			err := e.Append(someEntries(1, most), 0)
			if !IsFull(err) || e.Last() == 0 || e.Last() == most {
				t.Fatalf("on a full disk there are %d entries, and the error is %v", e.Last(), err)
			}
			if again := e.Append(someEntries(e.Last()+1, 1), 0); !IsFull(again) {
				t.Fatalf("once more the error is %v", again)
			}
			full.Store(false)
			must(t, e.Append(someEntries(e.Last()+1, int(most-e.Last())), 0))
			must(t, j.Tend())
			j.SettleTold()
			if told := log.String(); strings.Count(told, "\n") != 2 || !strings.Contains(told, "falls behind") || !strings.Contains(told, "catches up") {
				t.Errorf("the operator was told:\n%s", told)
			}
		} else {
			done := make(chan error, 1)
			go func() { done <- e.Append(someEntries(1, most), 0) }()
			for e.Last() < 12 { // the first segment
				time.Sleep(time.Millisecond)
			}
			select {
			case err := <-done:
				t.Fatalf("on a full disk it ends with %v", err)
			default:
			}
			full.Store(false)
			must(t, <-done)
		}
		must(t, e.Sync())
		must(t, j.Close())
		if err := e.Append(someEntries(most+1, 1), 0); !errors.Is(err, commit.ErrStopped) {
			t.Errorf("after Close the error is %v", err)
		}
		if err := e.Sync(); !errors.Is(err, commit.ErrStopped) {
			t.Errorf("after Close the error of a sync is %v", err)
		}
		j = newLog(t, d, nil)
		list, err := j.Entries().Read(1, most+1, 1<<30)
		if err != nil || len(list) != most {
			t.Errorf("there are %d entries: %v", len(list), err)
		}
		must(t, j.Close())
	}
}

// TestNothingIsAppendedAfterAnError: an error of a write or a sync ends the journal, and nothing
// is tried again: neither says later that all is well.
func TestNothingIsAppendedAfterAnError(t *testing.T) {
	for _, op := range []string{"write", "sync"} {
		d := fakedisk.New(1)
		var told []error
		j := newLog(t, d, func(o *commit.Options) { o.Fail = func(f *commit.Failure) { told = append(told, f) } })
		e := j.Entries()
		must(t, e.Append(someEntries(1, 3), 0))
		must(t, e.Sync())
		failOnce(d, op)
		err := e.Append(someEntries(4, 1), 0)
		if op == "sync" {
			must(t, err)
			err = e.Sync()
		}
		if !errors.Is(err, syscall.EIO) || len(told) != 1 || !errors.Is(told[0], syscall.EIO) {
			t.Errorf("%s: the error is %v, and %v was told", op, err, told)
		}
		for _, again := range []error{e.Append(someEntries(4, 1), 0), e.Sync(), j.Close()} {
			if !errors.Is(again, syscall.EIO) {
				t.Errorf("%s: later the error is %v", op, again)
			}
		}
		if len(told) != 1 {
			t.Errorf("%s: %d errors were told", op, len(told))
		}
	}
}

// TestReplacedEntriesKeepNoSegment: a segment in which every entry was replaced is given up with
// those before it, since its entries are not below any Floor but are none.
func TestReplacedEntriesKeepNoSegment(t *testing.T) {
	d := fakedisk.New(1)
	j := newLog(t, d, nil)
	e := j.Entries()
	must(t, e.Append(someEntries(1, 40), 0)) // four segments, the last of them not full
	later := someEntries(13, 12)             // a segment and a bit
	for i := range later {
		later[i].Term = 2
	}
	must(t, e.Append(later, 0))
	floor := record.Floor{Index: 13}
	must(t, e.Append([]Entry{{Index: 25, Term: 2, Data: floor.Append(nil)}}, 24))
	must(t, e.Sync())
	e.GiveUp(&floor)
	must(t, j.Tend())
	names, err := d.List()
	must(t, err)
	slices.Sort(names)
	if e.First() != 13 || len(names) == 0 || names[0] != SegmentName(4) {
		t.Errorf("from entry %d on there are the segments %v", e.First(), names)
	}
	must(t, j.Close())
	j = newLog(t, d, nil)
	if first, last := j.Entries().First(), j.Entries().Last(); first != 13 || last != 25 {
		t.Errorf("after a start there are the entries %d to %d", first, last)
	}
	must(t, j.Close())
}
