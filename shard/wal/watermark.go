package wal

import (
	"errors"
)

// A watermark is the last commit that no crash of the process and no power cut can undo, under any
// SyncPolicy. With SyncAlways it moves when a commit is acknowledged; with the other policies
// later, and only on request.
//
// Compaction waits for it before it gives up the originals of its copies.
type watermark struct {
	*parts
	// These are guarded by segments.mu; segments.changed is broadcast when committed changes.
	committed uint64 // the last durable commit
	wanted    uint64 // the last commit that must become durable under any policy
}

// errByHand is the error of a wait in a Manual, replicated journal.
var errByHand = errors.New("a Manual journal cannot wait for other servers")

// resume sets the watermark to commit n. It is called before anything else.
func (m *watermark) resume(n uint64) { m.committed, m.wanted = n, n }

// reach moves the watermark to commit n.
func (m *watermark) reach(n uint64) {
	m.segments.mu.Lock()
	m.committed = n
	m.segments.changed.Broadcast()
	m.segments.mu.Unlock()
}

// want requests that everything that is in the Logs now is committed, and returns the number of
// that commit.
func (m *watermark) want() (n uint64) {
	n = m.committer.Begun() + 1
	m.segments.mu.Lock()
	m.wanted = max(m.wanted, n)
	m.segments.mu.Unlock()
	m.committer.Wake()
	return n
}

// reached reports whether the watermark is at commit n or later.
func (m *watermark) reached(n uint64) bool {
	m.segments.mu.Lock()
	defer m.segments.mu.Unlock()
	return m.committed >= n
}

// awaited reports whether a goroutine waits for a commit; segments.mu is held.
func (m *watermark) awaited() bool { return m.wanted > m.committed }

// await waits until everything that is in the Logs now is committed. The committer may wait for
// the keeper meanwhile: so the keeper passes whenStarved, which serves a starved committer, and is
// called without segments.mu. Other callers pass nil.
func (m *watermark) await(whenStarved func()) error {
	n := m.committer.Begun() + 1
	s := m.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	m.wanted = max(m.wanted, n)
	for m.committed < n && m.committer.Err() == nil {
		switch {
		case m.opts.Manual:
			s.mu.Unlock()
			err := m.committer.Commit()
			s.mu.Lock()
			if err != nil {
				return err
			}
			if m.opts.Replicated && m.committed < n {
				return errByHand
			}
		case s.stopping:
			return ErrStopped
		case whenStarved != nil && s.starved && !s.nextIsOpen():
			s.mu.Unlock()
			whenStarved()
			s.mu.Lock()
		default:
			m.committer.Wake()
			s.changed.Wait()
		}
	}
	return m.committer.Err()
}
