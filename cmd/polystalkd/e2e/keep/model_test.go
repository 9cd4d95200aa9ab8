package keep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A fact is what is known of a job at one point of its history. The zero fact
// is: there is no such job.
type fact struct {
	state       string // as it comes back; a reserved job is "ready"
	pri, delay  int
	from, until time.Time // delayed: when it becomes ready, at the earliest and the latest
	reserves    int       // those that are recorded
	since       int       // those after them, which may be recorded
	releases    int
	buries      int
	kicks       int
	order       int64 // buried: which was first
}

// A mirrorJob is one job as its only client knows it. chain[0] is what was
// acknowledged, each later fact one more command that was sent.
type mirrorJob struct {
	id    uint64 // zero: not known, the put was not acknowledged
	tube  string
	token string
	size  int
	ttr   int
	held  bool
	chain []fact
}

func (j *mirrorJob) last() fact { return j.chain[len(j.chain)-1] }

// body starts with the token, and follows from it.
func (j *mirrorJob) body() string {
	if j.size <= len(j.token) {
		return j.token
	}
	rng := rand.New(rand.NewPCG(uint64(j.size), uint64(len(j.token))))
	b := make([]byte, j.size-len(j.token))
	for i := 0; i < len(b); i += 8 {
		n := rng.Uint64()
		for k := i; k < min(i+8, len(b)); k++ {
			b[k] = byte(n)
			n >>= 8
		}
	}
	return j.token + string(b)
}

// tokenOf is the token that a body starts with.
func tokenOf(body string) string {
	token, _, ok := strings.Cut(body, ";")
	if !ok {
		return ""
	}
	return token + ";"
}

// slack is by how much clocks of seconds may be off.
const slack = 1500 * time.Millisecond

// fits says why a job is not as f has it, or "".
func (f fact) fits(s *sighting) string {
	if f.state == "" {
		return "it should not be there"
	}
	state := s.stats["state"]
	ripe := f.state == "delayed" && state == "ready" && s.at.After(f.from.Add(-slack))
	if state != f.state && !ripe {
		return "it should be " + f.state
	}
	if state == "delayed" {
		if s.at.After(f.until.Add(slack)) {
			return "it should be ready by now"
		}
		left := time.Duration(s.n("time-left")) * time.Second
		if left < f.from.Sub(s.at)-slack || left > f.until.Sub(s.at)+slack {
			return fmt.Sprintf("it should be due in %v", f.from.Sub(s.at))
		}
	}
	if n := s.n("reserves"); n < f.reserves || n > f.reserves+f.since {
		return fmt.Sprintf("it should have been reserved %d to %d times", f.reserves, f.reserves+f.since)
	}
	for key, want := range map[string]int{
		"pri": f.pri, "delay": f.delay, "releases": f.releases, "buries": f.buries, "kicks": f.kicks, "timeouts": 0,
	} {
		if s.n(key) != want {
			return fmt.Sprintf("its %s should be %d", key, want)
		}
	}
	return ""
}

// check compares a job with what was seen of it after a crash, and goes on from
// there: with acknowledged commands done, and each of the others done or not.
func (j *mirrorJob) check(s *sighting) error {
	if s == nil {
		for _, f := range j.chain {
			if f.state == "" {
				j.chain = []fact{{}}
				return nil
			}
		}
		return fmt.Errorf("job %d (%s) is lost: %+v", j.id, j.token, j.chain)
	}
	if s.body != j.body() || s.stats["tube"] != j.tube || s.n("ttr") != j.ttr {
		return fmt.Errorf("job %d (%s, %d bytes in %s) was altered: %s", j.id, j.token, j.size, j.tube, s.shape())
	}
	var why []string
	for i, f := range slices.Backward(j.chain) {
		w := f.fits(s)
		if w == "" {
			// Of what the reservations count, we know from here on what was seen.
			f.reserves, f.since = s.n("reserves"), 0
			j.chain, j.held = []fact{f}, false
			if s.stats["state"] == "ready" {
				j.chain[0].state = "ready"
			}
			return nil
		}
		why = append(why, fmt.Sprintf("after %d commands that were not acknowledged: %s", i, w))
	}
	return fmt.Errorf("job %d (%s) is %s; %s", j.id, j.token, s.shape(), strings.Join(why, "; "))
}
