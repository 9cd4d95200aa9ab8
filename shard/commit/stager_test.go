package commit

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"polystalk/shard/record"
	"polystalk/shard/wal"
	"polystalk/shard/wal/space"
)

// A paper is a sequencer that notes its calls. Its segments have segment bytes for batches; zero:
// it has no segments, and each batch may have most bytes.
type paper struct {
	segment, most int64

	left    int64
	batches [][]byte // what is behind their heads
	numbers []uint64
	commits []uint64 // under which each was written
	begins  []int    // the batches that begin segments
	ended   []uint64
	wanted  bool
	safe    bool
	err     error
}

func (p *paper) Room() int64 {
	if p.segment == 0 {
		return p.most
	}
	return p.left
}

func (p *paper) Rotate() error {
	p.left = p.segment
	p.begins = append(p.begins, len(p.batches))
	return p.err
}

func (p *paper) BatchWanted() bool { return p.wanted }

func (p *paper) Write(b []byte, number, n uint64) ([]byte, error) {
	if int64(wal.Padded(len(b))) > p.Room() {
		return nil, fmt.Errorf("a batch of %d bytes, and there is room for %d", len(b), p.Room())
	}
	p.left -= int64(wal.Padded(len(b)))
	p.batches = append(p.batches, bytes.Clone(b[wal.BatchHead:]))
	p.numbers, p.commits = append(p.numbers, number), append(p.commits, n)
	clear(b) // it is the sequencer's
	return b[:wal.BatchHead/2], p.err
}

func (p *paper) End(n uint64) (bool, error) {
	p.ended = append(p.ended, n)
	return p.safe, p.err
}

// deletes returns n Deletes.
func deletes(from, n uint64) []byte {
	var b record.Buffer
	for i := range n {
		b.Delete(from+i, 7)
	}
	return b.Data
}

// newStager returns a stager that goes on behind batch 9.
func newStager(p *paper) *stager {
	s := &stager{ledger: space.New(wal.SegmentMin), to: p}
	s.resume(9)
	return s
}

// TestBatchesOfAnySequencer: whatever room batches have, they hold all records in their
// order, are numbered without a gap, and none is larger than it may be.
func TestBatchesOfAnySequencer(t *testing.T) {
	for _, p := range []*paper{{most: 1 << 10}, {most: 64 << 10}, {most: 1 << 30}, {segment: 1 << 10}, {segment: 20 << 10}} {
		t.Run(fmt.Sprintf("segment=%d most=%d", p.segment, p.most), func(t *testing.T) {
			s := newStager(p)
			s.globals.HighID = 5
			var want []byte
			id := uint64(1)
			for n := uint64(1); n <= 60; n++ {
				for part := range n % 3 {
					recs := deletes(id, 1+n*part*20)
					id += 1 + n*part*20
					want = append(want, recs...)
					if err := s.Write(&entry{commit: n, data: recs}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := s.Sync(n); err != nil {
					t.Fatal(err)
				}
			}
			if p.segment == 0 && len(p.begins) > 0 {
				t.Errorf("rotated before batches %v, and there was always room", p.begins)
			}
			if p.segment > 0 && len(p.begins) < 3 {
				t.Fatalf("rotated %d times: the test is of no use", len(p.begins))
			}
			var globals record.Globals
			globals.HighID = 5
			head := globals.Append(nil)
			var got []byte
			begins := p.begins
			for i, b := range p.batches {
				if len(begins) > 0 && begins[0] == i {
					begins = begins[1:]
					if !bytes.HasPrefix(b, head) {
						t.Fatalf("batch %d begins a segment with % x", i, b[:len(head)])
					}
					b = b[len(head):]
				}
				if p.numbers[i] != 10+uint64(i) {
					t.Fatalf("batch %d has number %d", i, p.numbers[i])
				}
				if len(b) == 0 || wal.BatchHead+len(b) > wal.BatchMax {
					t.Errorf("batch %d has %d bytes", i, len(b))
				}
				got = append(got, b...)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes of records were given away, want %d, or they differ", len(got), len(want))
			}
			if len(p.ended) != 60 {
				t.Errorf("%d commits ended", len(p.ended))
			}
		})
	}
}

// TestBatchWithoutRecords: a commit has one if the sequencer wants one, and else has not; what
// a segment begins with alone is no reason.
func TestBatchWithoutRecords(t *testing.T) {
	p := &paper{segment: 1 << 12, safe: true}
	s := newStager(p)
	if err := s.rotate(); err != nil {
		t.Fatal(err)
	}
	for n, wanted := range []bool{false, true, false, true} {
		p.wanted = wanted
		if safe, err := s.Sync(uint64(n)); err != nil || !safe {
			t.Fatalf("%v, %v", safe, err)
		}
	}
	if len(p.batches) != 2 || len(p.batches[0]) == 0 || len(p.batches[1]) != 0 {
		t.Errorf("%d batches %v", len(p.batches), p.batches)
	}
	if fmt.Sprint(p.numbers, p.commits, p.ended) != "[10 11] [1 3] [0 1 2 3]" {
		t.Errorf("numbers %v, commits %v, ended %v", p.numbers, p.commits, p.ended)
	}
	p.safe = false
	if safe, err := s.Sync(4); err != nil || safe {
		t.Errorf("safe %v, %v: its sequencer says that it is not", safe, err)
	}
	// Not even a head fits any more.
	p.wanted, p.left, p.err = true, wal.BatchHead-1, errors.New("broken")
	before := len(p.begins)
	if _, err := s.Sync(5); !errors.Is(err, p.err) || len(p.begins) != before+1 || len(p.ended) != 5 {
		t.Errorf("%v, %d rotations, %d ended", err, len(p.begins)-before, len(p.ended))
	}
}

// TestStagerPassesErrorsOn: what a batch that could not be written was part of has not ended.
func TestStagerPassesErrorsOn(t *testing.T) {
	p := &paper{most: 1 << 12}
	s := newStager(p)
	if err := s.Write(&entry{commit: 1, data: deletes(1, 3)}); err != nil {
		t.Fatal(err)
	}
	p.err = errors.New("broken")
	if _, err := s.Sync(1); !errors.Is(err, p.err) || len(p.ended) != 0 {
		t.Errorf("%v, ended %v", err, p.ended)
	}
	if err := s.Write(&entry{commit: 2, data: deletes(4, 500)}); !errors.Is(err, p.err) {
		t.Errorf("a commit that fills batches says %v", err)
	}
}
