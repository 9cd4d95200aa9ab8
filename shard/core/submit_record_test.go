package core

import (
	"testing"

	"polystalk/shard/record"
)

// recorded is what the records in b alone make of the jobs of a server.
func (p *functionPeer) replayed(b *record.Buffer) (highest uint64, live []JobID) {
	p.t.Helper()
	c := New(nil)
	p.t.Cleanup(c.Close)
	log := new(record.Buffer)
	c.RecordTo(log)
	rp := c.Replay()
	for data := b.Data; len(data) > 0; {
		var r record.Record
		n, err := record.Parse(&r, data)
		if err != nil {
			p.t.Fatal(err)
		}
		if err := rp.Apply(&r); err != nil {
			p.t.Fatal(err)
		}
		data = data[n:]
	}
	rp.Done(p.now)
	c.EachID(func(id JobID) { live = append(live, id) })
	return log.HighID, live
}

// Handles of jobs that end with the process are not given to others in the next.
func TestForegroundJobsUseUpTheirNumbers(t *testing.T) {
	p := newFunctionWorld(t, SubmitOptions{}).session()
	buf := &record.Buffer{Commit: 3}
	p.core.RecordTo(buf)
	p.submit("f", "", "x", 1024, true, 1)
	var r Reply
	for range 20 {
		p.function.Background = false
		r = p.op(Op{Kind: opSubmit, Name: []byte("f"), Pri: 1024, Body: []byte("x")}, StatusOK)
		if r.Commit != 3 {
			t.Fatalf("depends on commit %d", r.Commit)
		}
	}
	if r.Commit != 3 || buf.Records != 2 {
		t.Fatalf("the last depends on commit %d; %d records", r.Commit, buf.Records)
	}
	high, live := p.replayed(buf)
	if high < uint64(r.ID) || len(live) != 1 || live[0] != 1 {
		t.Fatalf("highest %d, jobs %d, want at least %d, and job 1", high, live, r.ID)
	}
	if buf.Jobs != 1 || high != buf.HighID {
		t.Fatalf("%d jobs, highest %d, replayed as %d", buf.Jobs, buf.HighID, high)
	}
}

// The record that ids are used up may come behind the job that has got the last of
// them: of two shards' logs, either is the first in a batch. Read into one core, that
// must not be the job's end.
func TestNumbersUsedUpDeleteNoJob(t *testing.T) {
	for _, inChunks := range []bool{false, true} {
		p := newFunctionWorld(t, SubmitOptions{}).session()
		numbers := &record.Buffer{Commit: 3}
		p.core.RecordTo(numbers)
		p.function.Background = false
		p.op(Op{Kind: opSubmit, Name: []byte("f"), Pri: 1024, Body: []byte("x")}, StatusOK)

		last, slot := numbers.HighID, SlotOf([]byte("elsewhere"))
		buf := new(record.Buffer)
		j := &record.Job{ID: last, Tube: []byte("elsewhere"), State: record.Ready}
		var rest []byte
		if inChunks {
			buf.Data = j.AppendPut(nil, slot, 4)
			rest = append(record.AppendChunkHead(nil, slot, last, 4), "body"...)
		} else {
			j.Body = []byte("body")
			buf.Data = j.AppendPut(nil, slot, 0)
		}
		buf.Data = append(append(buf.Data, numbers.Data...), rest...)
		if _, live := p.replayed(buf); len(live) != 1 || live[0] != JobID(last) {
			t.Fatalf("of job %d, in chunks %v, %d are left", last, inChunks, live)
		}
	}
}

// What tells of a job depends on the job's record.
func TestStatusDependsOnTheJob(t *testing.T) {
	p := newFunctionWorld(t, SubmitOptions{}).session()
	p.core.RecordTo(&record.Buffer{Commit: 3})
	p.submit("f", "u", "x", 1024, true, 1)
	for _, op := range []Op{{Kind: opJobStatus, ID: 1}, {Kind: opUniqueStatus}} {
		if r := p.op(op, StatusOK); r.ID != 1 || r.Commit != 3 {
			t.Fatalf("job %d, commit %d", r.ID, r.Commit)
		}
	}
}

// On a full disk only what a command was let in for is recorded, and what frees room.
func TestFullDiskIsNotFilledByFailures(t *testing.T) {
	for _, disk := range []struct{ tight, full bool }{{false, false}, {true, false}, {true, true}} {
		w := newFunctionWorld(t, SubmitOptions{Retries: 100, BuryFailed: true})
		buf := &record.Buffer{}
		w.core.RecordTo(buf)
		c, p := w.session(), w.session()
		c.submit("f", "u", "x", 1024, true, 1)
		buf.Tight, buf.Full = disk.tight, disk.full
		was := buf.Records
		more := func(what string, want bool) {
			t.Helper()
			if got := buf.Records > was; got != want {
				t.Errorf("%+v: %s is recorded: %v", disk, what, got)
			}
			was = buf.Records
		}
		f := p.able("f", 0)
		p.grab(f, 1)
		p.op(Op{Kind: OpClose}, StatusOK)
		w.isIn(1, Ready)
		more("a lost worker", !disk.tight)

		p = w.session()
		f = p.able("f", 0)
		p.grab(f, 1)
		p.report(1, RelayFailed, "", StatusOK)
		w.isIn(1, Buried)
		more("a failure", !disk.tight)

		b := w.session()
		b.function.Mail = nil
		b.op(Op{Kind: OpReserveJob, ID: 1}, StatusReserved)
		more("a reserve-job of a buried job", !disk.full)
		b.op(Op{Kind: OpDelete, ID: 1}, StatusOK)
		more("a delete", true)
	}
}
