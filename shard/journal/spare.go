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
