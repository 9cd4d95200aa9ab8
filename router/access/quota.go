package access

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/codec/tomlfile"
)

// Quotas of identities:
//
//	key              counts                                 above the limit
//	connections      sessions of the identity               they are closed
//	puts-per-second  puts of the identity, in all sessions  they wait, at most WaitMax
//	jobs, bytes      the jobs of a class of tubes           they are refused
//
// A tube belongs to the class of the first identity in the file that has a limit of jobs or bytes,
// and put there. All its jobs count for that class. Counts by tube need no field in each job, and
// survive a restart. The limits of a class hold for identities with such a limit.

// quotas are the limits of an identity; 0: there is none.
type quotas struct {
	connections, puts, jobs, bytes int64
}

// The keys of quotas, in the order of quotas.list.
var quotaKeys = [...]string{"connections", putsPerSecond, "jobs", "bytes"}

// putsPerSecond is the key of the rate. Puts above it wait; the other quotas refuse.
const putsPerSecond = "puts-per-second"

func (q *quotas) list() [len(quotaKeys)]*int64 {
	return [...]*int64{&q.connections, &q.puts, &q.jobs, &q.bytes}
}

// quotaMax is the largest limit. It keeps sums of a limit and of what is used small enough.
const quotaMax = 1 << 50

// quota reads a limit; it returns false if the key is none.
func (p *parser) quota(k *tomlfile.Key, name string) bool {
	i := slices.Index(quotaKeys[:], k.Name)
	if i < 0 {
		return false
	}
	n, ok := k.Value.(int64)
	switch most := int64(quotaMax); {
	case !ok:
		p.fault(k, "give a number without quotes, as in %s = 1000", k.Name)
	case n < 1:
		p.fault(k, "give at least 1, or leave the key out for no limit; an identity without put puts nothing")
	case n > most, k.Name == putsPerSecond && n > putsMax:
		if k.Name == putsPerSecond {
			most = putsMax
		}
		p.fault(k, "give at most %d, or leave the key out for no limit", most)
	default:
		*p.identities[name].quotas.list()[i] = n
	}
	return true
}

// putsMax is the largest rate: its interval is a nanosecond.
const putsMax = int64(time.Second)

// usage has the counters of an identity. They survive reloads.
type usage struct {
	credentials atomic.Pointer[[]*Credential]     // of the identity
	entering    sync.Mutex                        // held to compare the number of sessions with a limit
	paid        atomic.Int64                      // until when its puts have used its rate, as a time
	throttled   atomic.Int64                      // nanoseconds that its puts have waited
	refused     [len(quotaKeys)]atomic.Uint64     // by key
	denied      [len(verbNames) + 1]atomic.Uint64 // by verb; the last is for the server
}

// Connections returns the number of sessions of the identity.
func (i *Identity) Connections() (n int64) {
	if list := i.usage.credentials.Load(); list != nil {
		for _, c := range *list {
			n += c.sessions.Load()
		}
	}
	return n
}

// Throttled returns how long its puts have waited, over all sessions. ok is false if it has no rate.
func (i *Identity) Throttled() (d time.Duration, ok bool) {
	return time.Duration(i.usage.throttled.Load()), i.current().quotas.puts > 0
}

// Refused returns what exceeded the limits that the identity has, by key. Puts above a rate wait.
func (i *Identity) Refused() map[string]uint64 {
	all, limits := make(map[string]uint64), i.current().quotas
	for k, limit := range limits.list() {
		if *limit > 0 && quotaKeys[k] != putsPerSecond {
			all[quotaKeys[k]] = i.usage.refused[k].Load()
		}
	}
	return all
}

// Denied returns the number of refusals by verb; "server" is for the server itself.
func (i *Identity) Denied() map[string]uint64 {
	all := make(map[string]uint64)
	for v := range i.usage.denied {
		all[append(verbNames[:], "server")[v]] = i.usage.denied[v].Load()
	}
	return all
}

// deny counts a refusal. verb is 0 for the server itself.
func (i *Identity) deny(verb Verbs) {
	if i != nil {
		i.usage.denied[min(bits.TrailingZeros8(uint8(verb)), len(verbNames))].Add(1)
	}
}

func (i *Identity) refuse(key string) { i.usage.refused[slices.Index(quotaKeys[:], key)].Add(1) }

// classMax is the class of all later identities together: reloads have named more than that.
const classMax = 1<<16 - 1

// Class returns the number of the class of tubes that belongs to the identity, at least 1. It keeps
// the number while the server runs.
func (i *Identity) Class() uint16 { return i.class }

// Enter counts a session. It returns false if the identity has too many, and does not count it. Any
// session that entered must leave.
func (c *Credential) Enter() bool {
	if c == nil {
		return true
	}
	i := c.Identity()
	if most := i.current().quotas.connections; most > 0 {
		i.usage.entering.Lock()
		defer i.usage.entering.Unlock()
		if i.Connections() >= most {
			i.refuse("connections")
			return false
		}
	}
	c.sessions.Add(1)
	return true
}

// Leave ends what Enter began.
func (c *Credential) Leave() {
	if c != nil {
		c.sessions.Add(-1)
	}
}

// WaitMax is the longest wait of a put, and the longest time for which a request may use up a rate.
const WaitMax = 10 * time.Second

// PutsMax returns how many puts a request may have: as many as the rate permits in WaitMax.
func (c *Credential) PutsMax() int {
	if rate := c.current().quotas.puts; rate > 0 {
		return int(rate * int64(WaitMax/time.Second))
	}
	return math.MaxInt
}

// Pay takes n puts from the identity's rate. The puts must wait as long as it returns; if that is
// above most, Pay takes nothing. A burst of a tenth of a second does not wait, nor does the first put
// after a pause. now grows.
func (c *Credential) Pay(n int, now int64, most time.Duration) (wait time.Duration) {
	i := c.Identity()
	rate := i.current().quotas.puts
	if rate == 0 {
		return 0
	}
	cost := int64(n) * int64(time.Second) / rate
	burst := max(int64(time.Second)/10, int64(time.Second)/rate) - int64(time.Second)/rate
	for {
		was := i.usage.paid.Load()
		from := max(was, now)
		wait = time.Duration(max(0, from-burst-now))
		if wait > most || i.usage.paid.CompareAndSwap(was, from+cost) {
			return wait
		}
	}
}

// Refund gives back n puts that were paid and do not come.
func (c *Credential) Refund(n int) {
	i := c.Identity()
	if rate := i.current().quotas.puts; rate > 0 {
		i.usage.paid.Add(-int64(n) * int64(time.Second) / rate)
	}
}

// Waits counts the time that puts wait.
func (c *Credential) Waits(d time.Duration) {
	if i := c.Identity(); i != nil {
		i.usage.throttled.Add(int64(d))
	}
}

// IsLimited reports whether the client's puts have a limit of jobs or bytes.
func (c *Credential) IsLimited() bool { return c.current().quotas.areOfJobs() }

// IsLimited reports whether the identity has a limit of jobs or bytes.
func (i *Identity) IsLimited() bool { return i.current().quotas.areOfJobs() }

func (q quotas) areOfJobs() bool { return q.jobs > 0 || q.bytes > 0 }

// classOwner returns the identity that owns the class of a tube; nil: it belongs to none.
func (t *Identities) classOwner(tube []byte) *Identity {
	for _, i := range t.table.Load().limited {
		if allowed(i.current().list, tube)&Put != 0 {
			return i
		}
	}
	return nil
}

// Class returns the number of the class of a tube; 0: none.
func (t *Identities) Class(tube string) uint16 {
	if i := t.classOwner([]byte(tube)); i != nil {
		return i.class
	}
	return 0
}

// Exceeds reports whether new jobs in a tube exceed a limit. size are the bytes of their bodies. used
// returns the jobs and bytes of a class. An excess is counted.
func (t *Identities) Exceeds(c *Credential, tube []byte, n, size int, used func(class uint16) (jobs, bytes int64)) bool {
	if !c.IsLimited() {
		return false
	}
	owner := t.classOwner(tube)
	if owner == nil {
		return false
	}
	limits := owner.current().quotas
	jobs, bytes := used(owner.class)
	switch {
	case limits.jobs > 0 && n > 0 && jobs+int64(n) > limits.jobs:
		owner.refuse("jobs")
	case limits.bytes > 0 && bytes+int64(size) > limits.bytes:
		owner.refuse("bytes")
	default:
		return false
	}
	return true
}

// assign gives each identity its credentials. The caller holds mu.
func (t *Identities) assign() {
	all := make(map[*Identity][]*Credential)
	for _, c := range t.credentials {
		if i := c.Identity(); i != nil {
			all[i] = append(all[i], c)
		}
	}
	for _, i := range t.identities {
		list := all[i]
		i.usage.credentials.Store(&list)
	}
}
