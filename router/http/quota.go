package http

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/shard/core"
)

// pay takes puts from the rate of the client's identity. Clients of HTTP know the status 429 and
// wait by themselves, so a request does not wait here: it would keep its place from others. A request
// with many jobs is accepted as a whole, and later ones wait for it.
func (a *API) pay(c *call, puts int) error {
	if most := c.By.PutsMax(); puts > most {
		return wire.TooLarge.With("", fmt.Sprintf("it has %d jobs, and puts-per-second of %s permits %d in a request", puts, c.who(), most), fmt.Sprintf("send at most %d jobs in a request, or raise puts-per-second in the access file", most))
	}
	if puts == 0 {
		return nil
	}
	wait := c.By.Pay(puts, int64(a.op.Awake()), 0)
	if wait == 0 {
		return nil
	}
	c.By.Waits(wait)
	c.W.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	return wire.Throttled.Problem(fmt.Sprintf("%s has used its puts-per-second for the next %v", c.who(), wait.Round(time.Millisecond)))
}

// fits returns a problem if a new job of that size exceeds a limit. in has the jobs that the request
// has put before.
func (a *API) fits(c *call, tube string, size int, in pending) error {
	if !c.By.IsLimited() {
		return nil
	}
	used := func(class uint16) (jobs, bytes int64) {
		jobs, bytes = a.op.Used(class)
		return jobs + in[class].jobs, bytes + in[class].bytes
	}
	if a.opts.Access.Exceeds(c.By, []byte(tube), 1, size, used) {
		return quotaReached(tube)
	}
	class := a.opts.Access.Class(tube)
	in[class] = sums{in[class].jobs + 1, in[class].bytes + int64(size)}
	return nil
}

// pending counts jobs that are not in their shards yet, by class.
type pending map[uint16]sums

type sums struct{ jobs, bytes int64 }

func quotaReached(tube string) error {
	return wire.QuotaReached.Problem(fmt.Sprintf("the tube %q has no room for the job", wire.ShownName(tube)))
}

// payLater takes puts from a client's rate when the rate permits, as many at once as in a request.
func (a *API) payLater(ctx context.Context, by *access.Credential, puts int) error {
	for puts > 0 {
		n := min(puts, by.PutsMax())
		wait := by.Pay(n, int64(a.op.Awake()), 0)
		if wait == 0 {
			puts -= n
			continue
		}
		by.Waits(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	return nil
}

// transferLimit returns the limit of a transfer. A move inside the tube's class does not need room.
func (a *API) transferLimit(by *access.Credential, to string, copies bool) func(context.Context, []core.JobRow) error {
	return func(_ context.Context, jobs []core.JobRow) error {
		if !by.IsLimited() {
			return nil
		}
		n, bytes, class := 0, 0, a.opts.Access.Class(to)
		for i := range jobs {
			if j := &jobs[i]; copies || a.opts.Access.Class(j.Tube) != class {
				n, bytes = n+1, bytes+int(j.Size)
			}
		}
		if n > 0 && a.opts.Access.Exceeds(by, []byte(to), n, bytes, a.op.Used) {
			return quotaReached(to)
		}
		return nil
	}
}

// identities emits the identities of the access file, which bounds their number. Counters that are
// zero, and what has no limit, are omitted.
func (e emitter) identities(ids *access.Identities, used func(class uint16) (jobs, bytes int64)) {
	for _, i := range ids.All() {
		name := i.Name()
		e.gauge("identity_connections", "Client connections of an identity, without HTTP.", float64(i.Connections()), label{"identity"}, name)
		for verb, n := range i.Denied() {
			if n > 0 {
				e.counter("identity_denied_total", "Commands and requests that were refused because an identity lacks the right.", float64(n), label{"identity", "verb"}, name, verb)
			}
		}
		for quota, n := range i.Refused() {
			e.counter("identity_refused_total", "Connections and jobs above a limit of an identity.", float64(n), label{"identity", "quota"}, name, quota)
		}
		if waited, ok := i.Throttled(); ok {
			e.counter("identity_throttled_seconds_total", "Time that the puts of an identity have waited for its rate.", waited.Seconds(), label{"identity"}, name)
		}
		if i.IsLimited() {
			jobs, bytes := used(i.Class())
			e.gauge("identity_jobs", "Jobs in the tubes of an identity with a limit.", float64(jobs), label{"identity"}, name)
			e.gauge("identity_job_bytes", "Size of the bodies of these jobs.", float64(bytes), label{"identity"}, name)
		}
	}
}
