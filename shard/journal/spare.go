package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// addSpare prepares a segment. It reports false when there is no space; other
// errors end the journal.
func (j *Journal) addSpare() bool {
	j.mu.Lock()
	number := j.nextNumber()
	j.tries++
	try := j.tries
	j.mu.Unlock()
	s, err := j.prepare(number)
	switch {
	case err == nil:
		j.addPrepared(s)
		return true
	case passing(err):
		j.full.Store(false) // it did not come to the question
		j.told.warn(j.opts.Log, "a segment cannot be prepared now; trying again", err)
	case errors.Is(err, errNoSpace):
		j.mu.Lock()
		j.refused = try
		j.mu.Unlock()
		j.full.Store(true)
		j.told.because(err)
	default:
		j.fail(err)
		return false
	}
	j.press()
	j.notify() // who waits is refused
	j.tellSpace()
	return false
}

// passing reports whether an error is about the process, whose clients have all
// descriptors or memory, and not about the disk. Nothing was written then, and
// it is tried again.
func passing(err error) bool {
	return noDescriptor(err) || errors.Is(err, syscall.ENOMEM)
}

// addPrepared takes a segment whose file is closed.
func (j *Journal) addPrepared(s *segment) {
	j.full.Store(false)
	j.free.Add(s.room())
	j.mu.Lock()
	j.spares = append(j.spares, s)
	j.changed.Broadcast()
	j.mu.Unlock()
	j.press()
	j.notify()
}

// zeros fill new segments.
var zeros [1 << 20]byte

// prepare makes a segment that is ready to be written: its bytes and its name
// are durable.
func (j *Journal) prepare(number uint64) (*segment, error) {
	size, free := j.opts.SegmentSize, j.disk.Free()
	if free < size+size/16 {
		return nil, errNoSpace
	}
	if err := j.quota.closed(j.opts.Now(), free); err != nil {
		return nil, err
	}
	tmp := segmentName(number) + tmpSuffix
	if err := j.disk.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := j.disk.Create(tmp)
	if err != nil {
		return nil, spaceError("creating "+tmp, err)
	}
	filled := int64(0)
	for filled < size && err == nil {
		var n int
		n, err = f.WriteAt(zeros[:min(size-filled, int64(len(zeros)))], filled)
		filled += int64(n)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		j.disk.Remove(tmp)
		if err = spaceError("filling "+tmp, err); errors.Is(err, errNoSpace) {
			j.quota.hit(j.opts.Now(), free, size-filled, err)
		}
		return nil, err
	}
	j.quota.moved()
	return j.dress(f, tmp, number)
}

// dress gives a file that holds no batch of that number its header and name. The file
// is closed: what waits for its turn holds no descriptor.
func (j *Journal) dress(f File, tmp string, number uint64) (*segment, error) {
	s := &segment{number: number, size: j.opts.SegmentSize, at: headerSize}
	_, err := f.WriteAt(appendHeader(nil, j.id, number, j.opts.Now().UnixNano()), 0)
	if err == nil {
		err = f.Sync()
	}
	f.Close()
	if err == nil {
		err = j.disk.Rename(tmp, segmentName(number))
	}
	if err == nil {
		err = j.disk.Sync()
	}
	if err != nil {
		return nil, spaceError("preparing "+segmentName(number), err)
	}
	return s, nil
}

// openNext has the file of the next segment open before its turn comes, so that no want
// of descriptors can keep the committer from it then. It reports false when there is no
// segment, or no descriptor now.
func (j *Journal) openNext() (bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.spares) > 0 {
		if j.nextIsOpen() {
			return true, nil
		}
		s := j.spares[0]
		j.mu.Unlock()
		f, err := j.disk.Open(segmentName(s.number))
		if passing(err) {
			j.told.warn(j.opts.Log, "the journal's next segment cannot be opened now; trying again", err)
		}
		j.mu.Lock()
		switch {
		case passing(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("opening %s: %w", segmentName(s.number), err)
		case s.file == nil:
			s.file = f
			j.changed.Broadcast()
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

// nextIsOpen: see openNext; mu is held.
func (j *Journal) nextIsOpen() bool { return len(j.spares) > 0 && j.spares[0].file != nil }

// Descriptors is how many a Journal has at most: of segments that are written and not
// synced, and those in hand, by which the others are opened.
const Descriptors = unsyncedMax + 2 + handSize

// sparesKept are not given back for being more than is needed: filling them anew would
// cost as much as writing them.
const sparesKept = 2

// surplusFor is how long there are more before they are given back, unless they break
// the bound: large bodies often come in numbers.
const surplusFor = time.Second

// trim gives spares back that were made for what has come to nothing.
func (j *Journal) trim() error {
	for {
		j.mu.Lock()
		last := j.superfluous()
		if last == nil {
			j.mu.Unlock()
			return nil
		}
		j.spares = j.spares[:len(j.spares)-1]
		j.mu.Unlock()
		j.free.Add(-last.room())
		if err := j.disk.Remove(segmentName(last.number)); err != nil {
			return err
		}
		j.quota.moved()
	}
}

// superfluous is the spare to be given back, or nil; mu is held.
func (j *Journal) superfluous() *segment {
	size, n := j.opts.SegmentSize, len(j.spares)
	bound := j.size() <= j.bound()
	if n < 2 || bound && n <= sparesKept || j.wants.Load() > 0 || j.ahead() < size+size/2 {
		j.surplus = time.Time{}
		return nil
	}
	switch last := j.spares[n-1]; {
	case !bound:
		return last
	case j.surplus.IsZero():
		j.surplus = time.Now()
	case time.Since(j.surplus) >= surplusFor:
		return last
	}
	return nil
}
