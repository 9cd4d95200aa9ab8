package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// adopt makes the journal continue at the end of the history. When it returns, the whole history
// is on the disk; see "Proof" in the package comment.
func (r *recovery) adopt() error {
	j, list := r.j, r.j.segments
	r.out.Segments = len(r.segments)
	// A visible name need not be durable: the earlier process may have ended, or failed, before
	// it synced the directory.
	if err := j.disk.Sync(); err != nil {
		return err
	}
	if err := j.removeTemporaries(); err != nil {
		return err
	}
	if err := r.cutOff(); err != nil {
		return err
	}
	var buf []byte
	for i, s := range r.segments {
		var err error
		if buf, err = r.adoptSegment(i, s, buf); err != nil {
			return err
		}
	}
	list.oldest, list.marked = r.numbers[0], r.oldest
	list.recount()
	r.out.LastBatch, r.out.LastCommit = max(r.expect, 1)-1, max(r.history.high, r.expect-1)
	j.resume(r.out.LastBatch, r.out.LastCommit)
	return r.resumeLog()
}

// cutOff ends the history at the cut, if there is one, and removes later files if there are
// batches behind the cut. Those were never durable, and must not follow new batches.
func (r *recovery) cutOff() error {
	if r.cut == nil {
		return nil
	}
	r.last = r.cut.index
	s := r.segments[r.last]
	s.at = r.cut.offset
	if r.cut.torn || r.behind > 0 {
		r.out.Cut = fmt.Sprintf("%s at offset %d", SegmentName(s.number), s.at)
	}
	if r.behind == 0 {
		return nil
	}
	// Remove from the end on, so that a crash leaves no gap.
	for _, s := range slices.Backward(r.segments[r.last+1:]) {
		if err := r.j.disk.Remove(SegmentName(s.number)); err != nil {
			return err
		}
	}
	r.segments = r.segments[:r.last+1]
	return r.j.disk.Sync()
}

// adoptSegment makes segment number i a closed one, the current one, or a spare. It rewrites the
// segment, except a closed one with a last batch that is proven durable (see Proof in the package
// doc), and except the spares after the first. It uses buf, and returns it or a larger one.
func (r *recovery) adoptSegment(i int, s *segment, buf []byte) ([]byte, error) {
	list := r.j.segments
	s.lastCommit = s.lastIndex // see commit.Journal.Recover
	closed := i < r.last
	if closed && s.lastBatch != 0 && s.lastBatch <= r.synced {
		list.closed = append(list.closed, s)
		return buf, nil
	}
	if i > r.last+1 {
		r.j.ledger.AddFree(s.room())
		list.spares = append(list.spares, s)
		return buf, nil
	}
	f, err := r.j.disk.Open(SegmentName(s.number))
	if err != nil {
		return buf, err
	}
	if buf, err = r.rewrite(s, f, buf); err != nil {
		f.Close()
		return buf, err
	}
	if closed {
		f.Close()
		list.closed = append(list.closed, s)
		return buf, nil
	}
	s.file = f
	r.j.ledger.AddFree(s.room())
	if i > r.last {
		list.spares = append(list.spares, s)
		return buf, nil
	}
	list.cur = s
	list.unsynced = append(list.unsynced, s)
	return buf, nil
}

// rewrite makes the assumed content of s durable. It writes the unproven batches again, byte for
// byte in their place, and then zeros up to the end of the file, so that no part of a torn end
// can look like a batch later. A sync is not enough: the kernel may count pages that an earlier
// process could not write back as written. rewrite returns buf or a larger one.
func (r *recovery) rewrite(s *segment, f File, buf []byte) ([]byte, error) {
	name := SegmentName(s.number)
	from := int64(headerSize)
	if s.lastBatch > 0 {
		if int64(cap(buf)) < s.size {
			buf = make([]byte, s.size)
		}
		buf = buf[:min(s.at, s.size)] // a file may end within the last padding
		if _, err := f.ReadAt(buf, 0); err != nil {
			return buf, fmt.Errorf("reading %s: %w", name, err)
		}
		// The kernel may have dropped pages since the replay that the disk never had.
		at, last := from, uint64(0)
		for b := range batches(buf, at, r.j.segments.id, s.number) {
			at, last = at+int64(b.size), b.number
			if last <= r.synced {
				from = at
			}
		}
		if at != s.at || last != s.lastBatch {
			return buf, fmt.Errorf("%s at offset %d: a second read returned other bytes than the first", name, at)
		}
	}
	// A new descriptor may report an earlier write error once. It is about bytes that are
	// written again below.
	_ = f.Sync()
	for at := from; at < s.size; {
		b := zeros[:min(s.size-at, int64(len(zeros)))]
		if s.lastBatch > 0 && at < int64(len(buf)) {
			b = buf[at:]
		}
		n, err := f.WriteAt(b, at)
		if err != nil {
			return buf, fmt.Errorf("writing %s again: %w", name, err)
		}
		at += int64(n)
	}
	if err := f.Sync(); err != nil {
		return buf, fmt.Errorf("syncing %s: %w", name, err)
	}
	return buf, nil
}

func (j *WAL) removeTemporaries() error {
	names, err := j.disk.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, tmpSuffix) {
			if err := j.disk.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
