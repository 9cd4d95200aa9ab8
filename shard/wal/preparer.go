package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"polystalk/shard/wal/space"
)

// errNoSpace is what every error of a full disk is turned into.
var errNoSpace = errors.New("the disk is full")

// A preparer makes the files of spare segments, and removes those that are too many. It belongs
// to the keeper, and without one to the goroutine that needs a segment. Only openNext may be
// called by both at a time.
type preparer struct {
	*parts
	quota   space.Quota // a limit that the disk does not show
	surplus time.Time   // since when there are spares that nobody needs; zero: there are none
}

// add prepares a segment. An error that is neither errNoSpace nor passing has ended the
// journal when it returns.
func (p *preparer) add() error {
	p.segments.mu.Lock()
	number := p.segments.nextNumber()
	p.segments.mu.Unlock()
	try := p.ledger.Try()
	s, err := p.prepare(number)
	switch {
	case err == nil:
		p.take(s)
		return nil
	case passing(err):
		p.ledger.SetFull(false) // it did not come to the question
		p.report.warn("a segment cannot be prepared now; trying again", err)
	case errors.Is(err, errNoSpace):
		p.ledger.Refuse(try)
		p.report.because(err)
	default:
		p.committer.Fail(err)
		return err
	}
	p.committer.UpdatePressure()
	p.committer.Notify() // sessions that wait are refused
	p.report.tellSpace()
	return err
}

// passing reports whether an error is about the process and not the disk: its clients have all
// descriptors or memory. Nothing was written then, and it is tried again.
func passing(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// take adds a prepared segment with a closed file.
func (p *preparer) take(s *segment) {
	p.ledger.SetFull(false)
	p.ledger.AddFree(s.room())
	p.segments.add(s)
	p.committer.UpdatePressure()
	p.committer.Notify()
}

// zeros fill new segments.
var zeros [1 << 20]byte

// prepare makes a segment that is ready to be written: its bytes and its name
// are durable.
func (p *preparer) prepare(number uint64) (*segment, error) {
	size, free := p.opts.SegmentSize, p.disk.Free()
	if free < size+size/16 {
		return nil, errNoSpace
	}
	if err := p.quota.Closed(p.opts.Now(), free); err != nil {
		return nil, err
	}
	tmp := SegmentName(number) + tmpSuffix
	if err := p.disk.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := p.disk.Create(tmp)
	if err != nil {
		return nil, spaceError("creating "+tmp, err)
	}
	filled, err := fill(f, size)
	if err != nil {
		f.Close()
		p.disk.Remove(tmp)
		if err = spaceError("filling "+tmp, err); errors.Is(err, errNoSpace) {
			p.quota.Hit(p.opts.Now(), free, size-filled, err)
		}
		return nil, err
	}
	p.quota.Moved()
	return p.giveHeader(f, tmp, number)
}

// fill writes zeros and makes them durable. It returns how many were written.
func fill(f File, size int64) (filled int64, err error) {
	for filled < size && err == nil {
		var n int
		n, err = f.WriteAt(zeros[:min(size-filled, int64(len(zeros)))], filled)
		filled += int64(n)
	}
	if err == nil {
		err = f.Sync()
	}
	return filled, err
}

// giveHeader gives a file that holds no batch of that number its header and name. The file
// is closed: what waits for its turn holds no descriptor.
func (p *preparer) giveHeader(f File, tmp string, number uint64) (*segment, error) {
	s := &segment{number: number, size: p.opts.SegmentSize, at: headerSize}
	_, err := f.WriteAt(appendHeader(nil, &header{p.segments.id, number, p.opts.Now().UnixNano(), p.segments.first}), 0)
	if err == nil {
		err = f.Sync()
	}
	f.Close()
	if err == nil {
		err = p.disk.Rename(tmp, SegmentName(number))
	}
	if err == nil {
		err = p.disk.Sync()
	}
	if err != nil {
		return nil, spaceError("preparing "+SegmentName(number), err)
	}
	return s, nil
}

// reuse makes a spare of a segment that nobody needs any more: it need not be filled.
func (p *preparer) reuse(old *segment) error {
	p.segments.mu.Lock()
	number := p.segments.nextNumber()
	p.segments.mu.Unlock()
	tmp := SegmentName(number) + tmpSuffix
	if err := p.disk.Rename(SegmentName(old.number), tmp); err != nil {
		return err
	}
	// Under its new number none of its old batches is valid, but first the old
	// name must be gone for good.
	if err := p.disk.Sync(); err != nil {
		return err
	}
	f, err := p.disk.Open(tmp)
	if err != nil {
		return err
	}
	next, err := p.giveHeader(f, tmp, number)
	if err != nil {
		return err
	}
	p.take(next)
	return nil
}

// remove removes the file of a segment that nobody needs.
func (p *preparer) remove(s *segment) error {
	if err := p.disk.Remove(SegmentName(s.number)); err != nil {
		return err
	}
	p.quota.Moved()
	return nil
}

// openNext opens the file of the next segment before its turn comes, so that a lack of descriptors
// cannot stop the committer then. It reports false if there is no segment, or no descriptor now.
func (p *preparer) openNext() (bool, error) {
	s := p.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.spares) > 0 {
		if s.nextIsOpen() {
			return true, nil
		}
		next := s.spares[0]
		s.mu.Unlock()
		f, err := p.disk.Open(SegmentName(next.number))
		if passing(err) {
			p.report.warn("the journal's next segment cannot be opened now; trying again", err)
		}
		s.mu.Lock()
		switch {
		case passing(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("opening %s: %w", SegmentName(next.number), err)
		case next.file == nil:
			next.file = f
			s.changed.Broadcast()
		default:
			f.Close() // the keeper and the committer have met
		}
	}
	return false, nil
}

func spaceError(doing string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, errNoSpace) {
		return fmt.Errorf("%s: %w", doing, errNoSpace)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Descriptors is the most descriptors that a Journal has: segments that are not synced, the
// next segment and the one after it, one that is prepared, one that is read, one that a Pin
// reads, and the directory. The server counts its connections so that these are left.
const Descriptors = unsyncedMax + 2 + 6

const (
	// sparesKept spares are kept though none is needed: filling a new one costs as much as
	// writing it.
	sparesKept = 2
	// surplusFor is how long more are kept, unless they break the bound: large bodies often come
	// in numbers.
	surplusFor = time.Second
)

// trim gives spares back that were made for what has come to nothing.
func (p *preparer) trim() error {
	s := p.segments
	for {
		s.mu.Lock()
		if !p.superfluous(len(s.spares)) {
			s.mu.Unlock()
			return nil
		}
		last := s.spares[len(s.spares)-1]
		s.spares = s.spares[:len(s.spares)-1]
		s.recount()
		s.mu.Unlock()
		p.ledger.AddFree(-last.room())
		if err := p.remove(last); err != nil {
			return err
		}
	}
}

// superfluous reports whether the last of n spares is to be given back.
func (p *preparer) superfluous(n int) bool {
	sums := p.ledger.Sums()
	bound := !sums.OverBound()
	if n < 2 || bound && n <= sparesKept || !sums.SpareSurplus() {
		p.surplus = time.Time{}
		return false
	}
	if bound && p.surplus.IsZero() {
		p.surplus = time.Now()
	}
	return !bound || time.Since(p.surplus) >= surplusFor
}
