package space

import "time"

// A Quota is a limit that the disk's free space does not show: a segment could not be filled. The
// system does not say when the limit moves, so the next try comes after a pause, twice as long
// each time. It comes sooner when a file of ours was removed, or when as much as was missing has
// become free; each failed try doubles that. The zero value knows of no limit. It
// belongs to the preparer.
type Quota struct {
	err       error         // of the last try; nil: it knows of no limit
	at        time.Time     // when that was
	wait      time.Duration // from then until the next try
	low       int64         // the least free space seen since then, in bytes
	rise      int64         // this many bytes more than low are a reason to try
	fruitless int           // tries for that reason that have failed
}

const (
	// Retry is how often a full disk is looked at again.
	Retry = 200 * time.Millisecond

	// quotaWait and quotaWaitMax are the first and the longest pause.
	quotaWait    = 2 * Retry
	quotaWaitMax = 30 * time.Second
	// quotaRise is the pause after which free space that has come is tried.
	quotaRise = 4 * Retry
)

// Closed returns why a segment must not be tried now, when the disk shows free bytes; nil: it
// may be tried.
func (q *Quota) Closed(now time.Time, free int64) error {
	if q.err == nil {
		return nil
	}
	q.low = min(q.low, free)
	switch since := now.Sub(q.at); {
	case since < 0 || since >= q.wait:
		return nil
	case since >= quotaRise && free-q.low >= q.rise:
		q.fruitless++
		return nil
	}
	return q.err
}

// Hit notes that a try has failed because lack bytes were missing.
func (q *Quota) Hit(now time.Time, free, lack int64, err error) {
	q.wait = min(max(2*q.wait, quotaWait), quotaWaitMax)
	q.err, q.at, q.low, q.rise = err, now, free, lack<<min(q.fruitless, 20)
}

// Moved forgets the limit: there may be room now.
func (q *Quota) Moved() { *q = Quota{} }
