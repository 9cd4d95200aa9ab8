package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"polystalk/shard/wal/space"
)

// errNoSpace replaces every error of a full disk.
var errNoSpace = errors.New("the disk is full")

// A preparer makes the files of spare segments, and removes surplus ones. It belongs to the
// keeper, or without a keeper to the goroutine that needs a segment. Both may call openNext at
// the same time.
type preparer struct {
	*parts
	quota   space.Quota // a limit that the disk's free space does not show
	surplus time.Time   // since when there are surplus spares; zero: there are none
}

// add prepares a segment. An error that is neither errNoSpace nor passing has already ended the
// journal.
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
		p.ledger.SetFull(false) // unknown: the attempt failed for another reason
		p.report.warn("a segment cannot be prepared now; trying again", err)
	case errors.Is(err, errNoSpace):
		p.ledger.Refuse(try)
		p.report.because(err)
	default:
		p.committer.Fail(err)
		return err
	}
	p.committer.UpdatePressure()
	p.committer.Notify() // waiting sessions are refused
	p.report.tellSpace()
	return err
}

// passing reports whether an error is temporary: the process has no descriptor or memory left.
// Nothing was written then, and the caller retries later.
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

// prepare makes a segment that is ready for batches: its bytes and its name are durable.
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

// fill fills a file with zeros and syncs it. It returns how many bytes it has written.
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

// giveHeader makes a file without batches the segment with the given number: it writes the header
// and gives the file its name. It closes the file, so spares need no descriptors.
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

// reuse makes an unneeded segment a spare. Its file need not be filled again.
func (p *preparer) reuse(old *segment) error {
	p.segments.mu.Lock()
	number := p.segments.nextNumber()
	p.segments.mu.Unlock()
	tmp := SegmentName(number) + tmpSuffix
	if err := p.disk.Rename(SegmentName(old.number), tmp); err != nil {
		return err
	}
	// None of its old batches is valid under the new number. But the removal of the old name
	// must be durable first.
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

// remove removes the file of an unneeded segment.
func (p *preparer) remove(s *segment) error {
	if err := p.disk.Remove(SegmentName(s.number)); err != nil {
		return err
	}
	p.quota.Moved()
	return nil
}

// openNext opens the file of the next segment in advance, so that a lack of descriptors cannot
// stop the committer later. It reports false if there is no segment, or no descriptor now.
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
			f.Close() // the keeper and the committer have both opened it
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

// Descriptors is the maximum number of descriptors of a Journal: of unsynced segments, the next
// segment and the one after it, a segment that is prepared, one that is read, one that a Pin
// reads, and the directory. The server limits its connections so that these remain free.
const Descriptors = unsyncedMax + 2 + 6

const (
	// sparesKept is how many unneeded spares are kept, since filling a new one costs as much as
	// writing it.
	sparesKept = 2
	// surplusFor is how long more spares are kept if they do not break the bound: more large
	// bodies may follow.
	surplusFor = time.Second
)

// trim removes surplus spares, for example of claims that were released.
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

// superfluous reports whether the last of n spares must be removed.
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
