package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"polystalk/shard/record"
)

// errNoSpace is what every error of a full disk is turned into.
var errNoSpace = errors.New("the disk is full")

// deleteShare is what is kept free for each job's Delete, in bytes, with its
// part of a batch's head.
const deleteShare = record.DeleteSize + 8

// reserve is what changes may not use: room for deleting every job, and for
// copying what lives in one segment, and for the end of every pause.
func (j *Journal) reserve() int64 {
	return j.opts.SegmentSize + j.slack() + deleteShare*j.jobs.Load() + j.pauses.Load()
}

// slack is what goes with that besides: what is copied may leave the ends of two
// segments empty, into which the next record does not go, and the last that were let
// in, on several threads, may take more than was left.
func (j *Journal) slack() int64 {
	n := slackRecords * j.largest.Load()
	return max(0, min(n, j.live.Load()+n-j.opts.SegmentSize))
}

// slackRecords is how many of the largest records slack is for.
const slackRecords = 4

// press recomputes Pressure and tells of it. No shard may be owned and no log
// open: who is told may go on at once.
func (j *Journal) press() {
	p, tight := j.measure()
	j.tight.Store(tight)
	if Pressure(j.pressure.Load()) != p && Pressure(j.pressure.Swap(int32(p))) != p && p != Wait {
		j.notify()
	}
}

// raise is press for who has a log open: it only ever stops others.
func (j *Journal) raise() {
	if p, tight := j.measure(); p != Open {
		j.tight.Store(tight)
		j.pressure.Store(int32(p))
	}
}

// measure returns the pressure, and whether records are to be left out that can be:
// when nothing is left but the reserve, although the disk may only be behind, and
// though a compaction may be about to make room, which itself takes from the reserve.
func (j *Journal) measure() (p Pressure, tight bool) {
	size := j.opts.SegmentSize
	pending := j.pending.Load()
	avail := j.free.Load() - pending - j.promised.Load() - j.reserve()
	switch {
	case avail < size/16:
		p = Wait
		if j.full.Load() {
			p = Full
		}
	case pending > size/4:
		p = Wait
	}
	return p, p == Full || avail < 0
}

// Admit promises room for a large body of n bytes; Wait means to ask again
// after the next Notify. What was promised is given back with Dismiss, once
// the body's records are in a Log or it has come to nothing.
func (j *Journal) Admit(n int64) Pressure {
	if p := j.Pressure(); p != Open {
		return p
	}
	n += n / 16 // chunks' heads and the ends of segments
	j.mu.Lock()
	defer j.mu.Unlock()
	if avail := j.free.Load() - j.pending.Load() - j.promised.Load() - j.reserve(); avail-n >= j.opts.SegmentSize/16 {
		j.promised.Add(n)
		if n >= j.want.Load() {
			j.want.Store(0) // else it is another's, who waits on
		}
		return Open
	}
	if j.full.Load() {
		j.want.Store(0)
		return Full
	}
	j.want.Store(max(j.want.Load(), n))
	j.wanted = time.Now()
	j.poke()
	return Wait
}

// Promise is Admit for a body that is small, and was let in by Pressure, but is not
// there yet: many of them together are not small.
func (j *Journal) Promise(n int64) {
	j.promised.Add(n + n/16)
	j.raise()
}

// Dismiss gives back what Admit or Promise promised for a body of n bytes.
func (j *Journal) Dismiss(n int64) {
	j.promised.Add(-(n + n/16))
	// Who asks from now on sees that. Who has seen the promise has raised the pressure,
	// or will poke once it has said what it wants.
	if j.Pressure() != Open || j.want.Load() > 0 {
		j.poke() // the keeper tells who waits; the caller may own a shard
	}
}

// roomForWanted reports whether a large body waits for which there is room.
func (j *Journal) roomForWanted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	avail := j.free.Load() - j.pending.Load() - j.promised.Load() - j.reserve()
	return j.want.Load() > 0 && avail-j.want.Load() >= j.opts.SegmentSize/16
}

// spareWanted reports whether another segment should be prepared.
func (j *Journal) spareWanted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	size := j.opts.SegmentSize
	ahead := j.free.Load() - j.promised.Load() - j.reserve()
	return j.starved || ahead < size/2 || j.want.Load() > 0 && ahead < j.want.Load()+size/4
}

// size is the bytes of all segments; mu is held.
func (j *Journal) size() (n int64) {
	for _, s := range j.closed {
		n += s.size
	}
	for _, s := range j.spares {
		n += s.size
	}
	if j.cur != nil {
		n += j.cur.size
	}
	return n
}

// bound is what the directory may hold: twice what lives, three segments, and slack.
func (j *Journal) bound() int64 {
	return 2*(j.live.Load()+j.promised.Load()) + 3*j.opts.SegmentSize + j.slack()
}

// spareAllowed reports whether another segment keeps the bound. A committer
// that can do nothing, not even make space, gets one in any case.
func (j *Journal) spareAllowed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.starved || j.want.Load() > 0 || j.size()+j.opts.SegmentSize <= j.bound()
}

// overBound reports whether the directory holds more than it may.
func (j *Journal) overBound() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size() > j.bound()
}

// addSpare prepares a segment. It reports false when there is no space; other
// errors end the journal.
func (j *Journal) addSpare() bool {
	j.mu.Lock()
	number := j.nextNumber()
	j.mu.Unlock()
	s, err := j.prepare(number)
	if err != nil {
		if passing(err) {
			if time.Since(j.toldFull) > tellFull {
				j.toldFull = time.Now()
				j.opts.Log.Warn("a segment cannot be prepared now; trying again", "err", err)
			}
			return false
		}
		if !errors.Is(err, errNoSpace) {
			j.fail(err)
			return false
		}
		if !j.full.Swap(true) && time.Since(j.toldFull) > tellFull {
			j.toldFull = time.Now()
			j.opts.Log.Error("the disk is full: changes that need space are refused; deleting goes on", "err", err)
		}
		j.press()
		j.notify()
		return false
	}
	if j.full.Swap(false) {
		j.opts.Log.Info("there is space again: changes are taken")
	}
	j.addPrepared(s)
	return true
}

// tellFull is how often it is told that a segment cannot be prepared.
const tellFull = 10 * time.Second

// passing reports whether an error is about the process, whose clients have all
// descriptors or memory, and not about the disk. Nothing was written then, and
// it is tried again.
func passing(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

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
	size := j.opts.SegmentSize
	if j.disk.Free() < size+size/16 {
		return nil, errNoSpace
	}
	tmp := segmentName(number) + tmpSuffix
	if err := j.disk.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := j.disk.Create(tmp)
	if err != nil {
		return nil, spaceError("creating "+tmp, err)
	}
	for at := int64(0); at < size && err == nil; {
		n := min(size-at, int64(len(zeros)))
		_, err = f.WriteAt(zeros[:n], at)
		at += n
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		j.disk.Remove(tmp)
		return nil, spaceError("filling "+tmp, err)
	}
	return j.dress(f, tmp, number)
}

// dress gives a file that holds no batch of that number its header and name.
func (j *Journal) dress(f File, tmp string, number uint64) (*segment, error) {
	s := &segment{number: number, file: f, size: j.opts.SegmentSize, at: headerSize}
	_, err := f.WriteAt(appendHeader(nil, j.id, number, j.opts.Now().UnixNano()), 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = j.disk.Rename(tmp, segmentName(number))
	}
	if err == nil {
		err = j.disk.Sync()
	}
	if err != nil {
		f.Close()
		return nil, spaceError("preparing "+segmentName(number), err)
	}
	return s, nil
}

func spaceError(doing string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, errNoSpace) {
		return fmt.Errorf("%s: %w", doing, errNoSpace)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// wantFor is how long room is kept for a large body whose client does not ask
// again.
const wantFor = 5 * time.Second

// trim gives spares back that a large body or many jobs wanted, when keeping
// them would break the bound.
func (j *Journal) trim() error {
	for {
		j.mu.Lock()
		size := j.opts.SegmentSize
		ahead := j.free.Load() - j.promised.Load() - j.reserve()
		n := len(j.spares)
		if j.want.Load() > 0 && ahead >= j.want.Load()+size/4 && time.Since(j.wanted) > wantFor {
			j.want.Store(0)
		}
		if n < 2 || j.want.Load() > 0 || ahead < size+size/2 || j.size() <= j.bound() {
			j.mu.Unlock()
			return nil
		}
		last := j.spares[n-1]
		j.spares = j.spares[:n-1]
		j.mu.Unlock()
		j.free.Add(-last.room())
		last.file.Close()
		if err := j.disk.Remove(segmentName(last.number)); err != nil {
			return err
		}
	}
}

// poke has the keeper look.
func (j *Journal) poke() {
	select {
	case j.tend <- struct{}{}:
	default:
	}
}

// fullRetry is how often a full disk is looked at again.
const fullRetry = 200 * time.Millisecond

func (j *Journal) runKeeper() {
	defer j.running.Done()
	defer func() {
		j.mu.Lock()
		j.alone = true
		j.changed.Broadcast()
		j.mu.Unlock()
	}()
	timer := time.NewTimer(fullRetry)
	defer timer.Stop()
	for {
		select {
		case <-j.quit:
			return
		case <-j.tend:
		case <-timer.C:
			if j.awake.Load() {
				j.rouse() // nobody waits for what was recorded, but it is to last
			}
		}
		if err := j.Tend(); err != nil {
			if !errors.Is(err, ErrStopped) {
				j.fail(err)
			}
			return
		}
		timer.Reset(fullRetry)
	}
}

// Tend does what the keeper has to do now: it prepares segments and gives up
// old ones. Only the keeper calls it.
func (j *Journal) Tend() error {
	for {
		j.press()
		if j.roomForWanted() {
			j.notify() // a promise was given back, perhaps
		}
		if err := j.trim(); err != nil {
			return err
		}
		wanted := j.spareWanted()
		urgent := wanted || j.full.Load() || j.overBound()
		compactable := j.compactable(urgent)
		// Rather too much on disk than clients who wait for ever.
		stuck := !compactable && j.Pressure() != Open
		if wanted && compactable && j.mostlyGarbage() {
			// A file that is used again need not be filled, and takes nothing.
			if err := j.compact(true); err != nil {
				return j.unlessPassing(err)
			}
			continue
		}
		if wanted && (stuck || j.spareAllowed()) {
			if j.addSpare() {
				continue
			}
			if err := j.failure(); err != nil {
				return err
			}
		}
		if !compactable {
			j.round.left = 0
			return nil
		}
		if err := j.compact(urgent); err != nil {
			return j.unlessPassing(err)
		}
	}
}

func (j *Journal) unlessPassing(err error) error {
	if passing(err) {
		j.opts.Log.Warn("an old segment cannot be given up now; trying again", "err", err)
		return nil
	}
	return err
}

// runSyncer makes durable within Options.Every what is written.
func (j *Journal) runSyncer() {
	defer j.running.Done()
	for {
		select {
		case <-j.quit:
			return
		case <-j.dirtied:
		}
		// The first unsynced byte was written just now; the sync itself comes
		// on top of Every.
		select {
		case <-j.quit:
			return
		case <-time.After(j.opts.Every):
		}
		if err := j.sync(); err != nil {
			j.fail(err)
			return
		}
	}
}
