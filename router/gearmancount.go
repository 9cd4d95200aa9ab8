package router

import (
	"strings"
	"sync/atomic"

	"polystalk/codec/gearman"
)

// gearCounts counts the commands of a loop's Gearman connections: packets by type and
// lines by verb. Only the loop writes, so its line stays with its core; Counters reads.
type gearCounts struct {
	packets [gearman.NumTypes]atomic.Uint64
	lines   [gearman.NumVerbs]atomic.Uint64
}

// count counts the message m.
func (n *gearCounts) count(m *gearman.Message) {
	if m.Type == gearman.Text {
		n.lines[m.Verb].Add(1)
		return
	}
	n.packets[m.Type].Add(1)
}

// gearCounters appends the sums over the loops to list, and returns the sum of all.
func gearCounters(list []Counter, loops []*loop) (_ []Counter, all uint64) {
	add := func(name string, of func(*gearCounts) *atomic.Uint64) {
		sum := uint64(0)
		for _, l := range loops {
			sum += of(&l.gear).Load()
		}
		all += sum
		list = append(list, Counter{"gearman-" + strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(name)), sum})
	}
	for t := range gearman.NumTypes {
		if t.ToServer() {
			add(t.String(), func(n *gearCounts) *atomic.Uint64 { return &n.packets[t] })
		}
	}
	for v := gearman.Unknown + 1; v < gearman.NumVerbs; v++ {
		add(v.String(), func(n *gearCounts) *atomic.Uint64 { return &n.lines[v] })
	}
	return list, all
}
