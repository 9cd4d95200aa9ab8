package wal

import (
	"errors"
)

// A watermark is how far commits are committed: no end of the process and no power cut
// undoes them, whatever the policy is by which they are acknowledged. With SyncAlways that is
// one moment; with the other policies it comes later, and only for who asks for it.
//
// Who gives up what is told of elsewhere as well waits for it here.
type watermark struct {
	opts      *Options
	segments  *segments
	committer Committer

	// These are guarded by segments.mu, and segments.changed tells of committed.
	committed uint64 // the last commit that is
	wanted    uint64 // the last commit that is to be, whatever the policy
}

// errByHand is why nobody waits in a journal that is run by hand.
var errByHand = errors.New("who runs a journal by hand has to wait for others by hand")

// resume has everything count as committed up to commit n. It is called before anything else.
func (m *watermark) resume(n uint64) { m.committed, m.wanted = n, n }

// reach notes that all is committed up to commit n.
func (m *watermark) reach(n uint64) {
	m.segments.mu.Lock()
	m.committed = n
	m.segments.changed.Broadcast()
	m.segments.mu.Unlock()
}

// want sees to it that everything that is in the Logs by now will be committed, and returns the
// number under which it is.
func (m *watermark) want() (n uint64) {
	n = m.committer.Begun() + 1
	m.segments.mu.Lock()
	m.wanted = max(m.wanted, n)
	m.segments.mu.Unlock()
	m.committer.Wake()
	return n
}

// reached reports whether all is committed up to commit n.
func (m *watermark) reached(n uint64) bool {
	m.segments.mu.Lock()
	defer m.segments.mu.Unlock()
	return m.committed >= n
}

// awaited reports whether somebody waits for a commit; segments.mu is held.
func (m *watermark) awaited() bool { return m.wanted > m.committed }

// await waits until everything that is in the Logs by now is committed. The keeper, for whom
// the committer may be waiting meanwhile, says what it does for that, and is called without
// segments.mu.
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
