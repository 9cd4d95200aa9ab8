package space

import "time"

// A Quota is a limit that the disk's free space does not show: a segment could not be filled. The
// system does not say when the limit changes, so the next attempt comes after a pause, which
// doubles each time. It comes sooner after a file of the journal was removed, or when the number
// of missing bytes has become free; each failed attempt doubles that number. The zero value knows
// no limit. It belongs to the preparer.
type Quota struct {
	err       error         // of the last attempt; nil: no limit is known
	at        time.Time     // of the last attempt
	wait      time.Duration // from at until the next attempt
	low       int64         // the minimum free space since at, in bytes
	rise      int64         // an increase of the free space by this many bytes allows an attempt
	fruitless int           // failed attempts after such an increase
}

const (
	// Retry is the time between two checks of a full disk.
	Retry = 200 * time.Millisecond

	// quotaWait and quotaWaitMax are the first and the longest pause.
	quotaWait    = 2 * Retry
	quotaWaitMax = 30 * time.Second
	// quotaRise is the minimum pause before an attempt because of new free space.
	quotaRise = 4 * Retry
)

// Closed returns the reason not to prepare a segment now; nil: it may be tried. free is the free
// space that the disk shows, in bytes.
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

// Hit records that an attempt has failed because lack bytes were missing.
func (q *Quota) Hit(now time.Time, free, lack int64, err error) {
	q.wait = min(max(2*q.wait, quotaWait), quotaWaitMax)
	q.err, q.at, q.low, q.rise = err, now, free, lack<<min(q.fruitless, 20)
}

// Moved forgets the limit, since there may be room now.
func (q *Quota) Moved() { *q = Quota{} }
