package main

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A result is what a scene has cost, and brought.
type result struct {
	name          string
	without, with spells
	rss, rssMost  int64
	told          []report
	steps         steps
}

// A spell is one part of a round.
type spell struct {
	samples
	cpu, took time.Duration // the server's, and of the spell
}

// spells are those of all rounds.
type spells []*spell

// at is what so large a part of the commands took at most, in the round in which that was
// shortest: on a machine that others use too, that one tells of the server.
func (l spells) at(part float64) (least time.Duration) {
	for i, s := range l {
		if d := s.at(part); i == 0 || d < least {
			least = d
		}
	}
	return least
}

// cpu is how much of a processor the server took, in the round in which that was least.
func (l spells) cpu() (least float64) {
	for i, s := range l {
		if part := s.cpu.Seconds() / s.took.Seconds(); i == 0 || part < least {
			least = part
		}
	}
	return least
}

// What clients may feel of it.
const feltP99 = time.Millisecond

// at is what so large a part of all took at most.
func (s *samples) at(part float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return 0
	}
	slices.Sort(s.all)
	return time.Duration(s.all[min(len(s.all)-1, int(part*float64(len(s.all))))])
}

func us(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/1e3) }

func (r *result) print() {
	fmt.Printf("\n%s: commands, µs at p50 p99 p99.9 max; the server's processors; each of the best round\n", r.name)
	for _, s := range []struct {
		name string
		of   spells
	}{{"alone", r.without}, {"beside", r.with}} {
		fmt.Printf("  %-7s %6s %6s %6s %6s  %.2f\n", s.name, us(s.of.at(0.5)), us(s.of.at(0.99)), us(s.of.at(0.999)), us(s.of.at(1)), s.of.cpu())
	}
	did, longest := map[string]int{}, map[string]time.Duration{}
	for _, t := range r.told {
		for what, n := range t.Did {
			did[what] += n
			longest[what] = max(longest[what], t.Longest[what])
		}
	}
	for _, what := range slices.Sorted(maps.Keys(did)) {
		fmt.Printf("  %s: %d, the longest %v, the quickest round's %v\n", what, did[what], longest[what].Round(time.Microsecond), r.quickest(what).Round(time.Microsecond))
	}
	fmt.Printf("  a shard was owned %d times, %v in all; half of those at most %v, 99.9 %% %v, all %v\n", r.steps.count(), r.steps.sum.Round(time.Microsecond), r.steps.at(0.5), r.steps.at(0.999), r.steps.at(1))
	fmt.Printf("  resident %d MB, %d MB at most\n", r.rss>>20, r.rssMost>>20)
}

// quickest is the longest of a kind in the round in which that was shortest: on a machine
// that others use too, the one that tells of the server.
func (r *result) quickest(what string) (d time.Duration) {
	for _, t := range r.told {
		if l, ok := t.Longest[what]; ok && (d == 0 || l < d) {
			d = l
		}
	}
	return d
}

// missed are the goals that it has missed.
func (r *result) missed(s *act) (why []string) {
	least := max(r.without.at(0.99), floor[niceness[s.name]])
	if more := r.with.at(0.99) - least; more > feltP99 && !s.control {
		why = append(why, fmt.Sprintf("commands take %v more at p99 than %v, want at most %v", more, least, feltP99))
	}
	for what, most := range s.longest {
		if q := r.quickest(what); q > most {
			why = append(why, fmt.Sprintf("%s takes %v, want at most %v", what, q, most))
		}
	}
	return why
}

// steps are how long an operator's operations had a shard, from the server's histogram.
type steps struct {
	le  []float64 // seconds
	n   []uint64  // of at most that, all together
	sum time.Duration
}

// steps asks the server for them.
func (s *daemon) steps() (h steps, err error) {
	var code int
	var b []byte
	for range 20 { // a crowd may have taken the place of the connection, or it is too busy
		if code, b, err = get(client(s.socket), "/metrics"); err == nil && code == 200 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil || code != 200 {
		return h, fmt.Errorf("/metrics: %d %w", code, err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), "polystalk_operator_step_seconds_")
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(rest, " ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return h, err
		}
		if le, ok := strings.CutPrefix(name, `bucket{le="`); ok {
			bound, err := strconv.ParseFloat(strings.TrimSuffix(le, `"}`), 64)
			if err != nil {
				return h, err
			}
			h.le, h.n = append(h.le, bound), append(h.n, uint64(v))
		}
		if name == "sum" {
			h.sum = time.Duration(v * 1e9)
		}
	}
	return h, nil
}

// since is what came after an earlier moment.
func (h steps) since(before steps) steps {
	n := slices.Clone(h.n)
	for i := range n {
		if i < len(before.n) {
			n[i] -= before.n[i]
		}
	}
	return steps{h.le, n, h.sum - before.sum}
}

func (h steps) count() uint64 {
	if len(h.n) == 0 {
		return 0
	}
	return h.n[len(h.n)-1]
}

// at is a bound of what so large a part took.
func (h steps) at(part float64) string {
	for i, n := range h.n {
		if float64(n) >= part*float64(h.count()) {
			return time.Duration(h.le[i] * 1e9).String()
		}
	}
	return "?"
}

// plus is both together.
func (h steps) plus(more steps) steps {
	n := slices.Clone(more.n)
	for i := range h.n {
		n[i] += h.n[i]
	}
	return steps{more.le, n, h.sum + more.sum}
}
