package gearmand

import (
	"strings"

	"polystalk/codec/gearman"
)

// kinds are the commands that are counted: packets by type and lines by verb.
var kinds = newKindList()

// A kindList is the names of commands as counters, and where each stands in that list.
type kindList struct {
	names   []string
	packets [gearman.NumTypes]int // of types that a server takes; Parse lets in no others
	lines   [gearman.NumVerbs]int // of all but Unknown
}

func newKindList() *kindList {
	k := new(kindList)
	add := func(name string) (at int) {
		k.names = append(k.names, "gearman-"+strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(name)))
		return len(k.names) - 1
	}
	for t := range gearman.NumTypes {
		if t.ToServer() {
			k.packets[t] = add(t.String())
		}
	}
	for v := gearman.Unknown + 1; v < gearman.NumVerbs; v++ {
		k.lines[v] = add(v.String())
	}
	return k
}

// of is the position of a message's kind.
func (k *kindList) of(m *gearman.Message) int {
	if m.Type == gearman.Text {
		return k.lines[m.Verb]
	}
	return k.packets[m.Type]
}
