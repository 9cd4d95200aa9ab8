package wal

import (
	"fmt"
	"sync"

	"polystalk/shard/record"
)

// workers replay what is read, each its own slots.
type workers struct {
	p    Replayer
	work []chan piece
	free chan []byte
	high []uint64 // the highest id each worker has met
	done sync.WaitGroup

	mu  sync.Mutex
	err error
}

// A piece is of a segment's good batches.
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

// feed hands a piece out; it fails once a worker has.
func (w *workers) feed(p piece, g *record.Globals) error {
	for _, b := range p.batches {
		// What concerns no slot stands at the beginning.
		for recs := b.records; len(recs) > 0 && record.KindOf(recs) >= record.KindState; {
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

// noteGlobals takes over what a record tells of the whole journal. Of several the last one
// counts, but ids never start again.
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
			// A record of no slot is for no worker, but an Epoch for all.
			kind := record.KindOf(rec)
			if kind < record.KindState && w.p.Worker(record.SlotOf(rec)) != i || kind >= record.KindState && kind != record.KindEpoch {
				continue
			}
			_, err := record.Parse(&r, rec)
			r.Commit = b.index
			switch r.Kind {
			case record.KindPut, record.KindCopy, record.KindDelete: // the last also of what never was
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
