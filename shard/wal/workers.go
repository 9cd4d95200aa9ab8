package wal

import (
	"fmt"
	"sync"

	"polystalk/shard/record"
)

// workers replay batches; each worker replays its own slots.
type workers struct {
	p    Replayer
	work []chan piece
	free chan []byte
	high []uint64 // by worker: the highest id in its records
	done sync.WaitGroup

	mu  sync.Mutex
	err error
}

// A piece is a part of a segment's good batches.
type piece struct {
	s       *scan
	batches []batch
}

func startWorkers(p Replayer, free chan []byte) *workers {
	w := &workers{p: p, free: free, high: make([]uint64, p.Workers)}
	for i := range p.Workers {
		c := make(chan piece, 1)
		w.work = append(w.work, c)
		w.done.Go(func() {
			for piece := range c {
				if err := w.replay(i, piece); err != nil {
					w.mu.Lock()
					w.err = err
					w.mu.Unlock()
				}
				w.giveBack(piece.s)
			}
		})
	}
	return w
}

// feed passes a piece to all workers. It returns the error of a worker that has failed.
func (w *workers) feed(p piece, g *record.Globals) error {
	for _, b := range p.batches {
		// Records without a slot are at the beginning.
		for recs := b.records; len(recs) > 0 && !record.KindOf(recs).HasSlot(); {
			var r record.Record
			n, err := record.Parse(&r, recs)
			if err != nil {
				return err
			}
			recs = recs[n:]
			noteGlobals(g, &r)
		}
	}
	for _, c := range w.work {
		c <- p
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// noteGlobals updates the state of the whole journal from a record. The last record counts, but
// HighID never decreases.
func noteGlobals(g *record.Globals, r *record.Record) {
	high := g.HighID
	switch r.Kind {
	case record.KindState:
		*g = r.Globals
	case record.KindFloor:
		*g = r.Floor.Globals
	}
	g.HighID = max(g.HighID, high)
}

func (w *workers) replay(i int, p piece) error {
	var r record.Record
	for k := range p.batches {
		b := &p.batches[k]
		for rec := range b.each {
			// Workers skip records without a slot, except an Epoch, which all apply.
			kind := record.KindOf(rec)
			if kind.HasSlot() && w.p.Worker(record.SlotOf(rec)) != i || !kind.HasSlot() && kind != record.KindEpoch {
				continue
			}
			_, err := record.Parse(&r, rec)
			r.Commit = b.index
			switch r.Kind {
			case record.KindPut, record.KindCopy, record.KindDelete: // a Delete may be of a job that never existed
				w.high[i] = max(w.high[i], r.ID)
			}
			if err == nil {
				err = w.p.Apply(i, &r)
			}
			if err != nil {
				return fmt.Errorf("%s, the batch at offset %d: %w", SegmentName(p.s.number), b.offset, err)
			}
		}
	}
	return nil
}

func (w *workers) giveBack(s *scan) {
	if s.left.Add(-1) == 0 {
		select {
		case w.free <- s.data:
		default:
		}
	}
}

func (w *workers) wait() error {
	for _, c := range w.work {
		close(c)
	}
	w.done.Wait()
	return w.err
}
