package space

import (
	"errors"
	"testing"
	"time"
)

// TestQuota: a limit that the disk's free space does not show is not run into over and over, and
// yet it is soon noticed that there is room. What others write and remove is no reason to try for
// ever.
func TestQuota(t *testing.T) {
	const minutes5 = 5 * 60 * int(time.Second/Retry)
	var q Quota
	now, tries := time.Unix(1, 0), 0
	look := func(free int64) (tried bool) {
		now = now.Add(Retry)
		if tried = q.Closed(now, free) == nil; tried {
			tries++
			q.Hit(now, free, segment, errors.New("full"))
		}
		return tried
	}
	for range minutes5 {
		look(100 * segment)
	}
	if tries < 5 || tries > 20 {
		t.Errorf("%d tries in five minutes", tries)
	}
	for tries = 0; !look(100 * segment); {
		if tries++; tries > int(quotaWaitMax/Retry) {
			t.Fatal("no try within half a minute")
		}
	}
	look(95 * segment) // others take space
	for range quotaRise / Retry {
		look(95 * segment)
	}
	if !look(96 * segment) {
		t.Error("no try when as much has become free as was missing")
	}
	tries = 0
	for i := range minutes5 {
		look((100 + int64(i/5)%4) * segment)
	}
	if tries > 25 {
		t.Errorf("%d tries in five minutes in which the free space moved", tries)
	}
	q.Moved()
	if q.Closed(now, 0) != nil {
		t.Error("no try after a file was removed")
	}
}
