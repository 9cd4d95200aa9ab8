package access

import (
	"math"
	"math/bits"
	"slices"
	"strings"
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
var quotaKeys = [...]string{"connections", PutsPerSecond, "jobs", "bytes"}

// PutsPerSecond is the key of the rate. Puts above it wait; the other quotas refuse.
const PutsPerSecond = "puts-per-second"

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
	case n > most, k.Name == PutsPerSecond && n > putsMax:
		if k.Name == PutsPerSecond {
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

// limits returns the quotas of the identity.
func (i *Identity) limits() quotas {
	if i != nil {
		if r := i.rules.Load(); r != nil {
			return r.quotas
		}
	}
	return quotas{}
}

// Quotas returns the limits by key.
func (i *Identity) Quotas() map[string]int64 {
	limits, all := i.limits(), make(map[string]int64)
	for k, n := range limits.list() {
		if *n > 0 {
			all[quotaKeys[k]] = *n
		}
	}
	return all
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

// Throttled returns how long its puts have waited, over all sessions.
func (i *Identity) Throttled() time.Duration { return time.Duration(i.usage.throttled.Load()) }

// Refused returns what exceeded each limit, by key.
func (i *Identity) Refused() map[string]uint64 {
	all := make(map[string]uint64)
	for k := range i.usage.refused {
		all[quotaKeys[k]] = i.usage.refused[k].Load()
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
	if most := i.limits().connections; most > 0 {
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
	if rate := c.Identity().limits().puts; rate > 0 {
		return int(rate * int64(WaitMax/time.Second))
	}
	return math.MaxInt
}

// Pay takes n puts from the identity's rate. The puts must wait as long as it returns; if that is
// above most, Pay takes nothing. A burst of a tenth of a second does not wait, nor does the first put
// after a pause. now grows.
func (c *Credential) Pay(n int, now int64, most time.Duration) (wait time.Duration) {
	i := c.Identity()
	rate := i.limits().puts
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
	if rate := i.limits().puts; rate > 0 {
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
func (c *Credential) IsLimited() bool { return c.Identity().IsLimited() }

// IsLimited reports whether the identity has a limit of jobs or bytes.
func (i *Identity) IsLimited() bool { return i.limits().areOfJobs() }

func (q quotas) areOfJobs() bool { return q.jobs > 0 || q.bytes > 0 }

// Owner returns the identity that owns the class of a tube; nil: it belongs to none.
func (t *Identities) Owner(tube []byte) *Identity {
	for _, i := range t.table.Load().limited {
		if i.verbs(tube)&Put != 0 {
			return i
		}
	}
	return nil
}

// Class returns the number of the class of a tube; 0: none.
func (t *Identities) Class(tube string) uint16 {
	if i := t.Owner([]byte(tube)); i != nil {
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
	owner := t.Owner(tube)
	if owner == nil {
		return false
	}
	limits := owner.limits()
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

// limitedOf returns the identities of a file with a limit of jobs or bytes, in the order of the file.
func (t *Identities) limitedOf(in *table) (list []*Identity) {
	for name, r := range in.identities {
		if r.quotas.areOfJobs() {
			list = append(list, t.identities[name])
		}
	}
	slices.SortFunc(list, func(a, b *Identity) int {
		if d := in.identities[a.name].line - in.identities[b.name].line; d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	return list
}

// assign gives each identity its credentials. The caller holds mu.
func (t *Identities) assign() {
	all := make(map[*Identity][]*Credential)
	add := func(_, c any) bool {
		if i := c.(*Credential).Identity(); i != nil {
			all[i] = append(all[i], c.(*Credential))
		}
		return true
	}
	t.named.Range(add)
	for by := range t.credentials {
		t.credentials[by].Range(add)
	}
	for _, i := range t.identities {
		list := all[i]
		i.usage.credentials.Store(&list)
	}
}
