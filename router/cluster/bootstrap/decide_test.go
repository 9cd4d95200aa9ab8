package bootstrap

import (
	"strings"
	"testing"

	"polystalk/router/cluster"
)

// TestDecide: each case of the package doc, and what an operator reads while a server waits.
func TestDecide(t *testing.T) {
	list := []string{"a:1", "b:1", "c:1"}
	bound, other := bindingOf(list, 1), bindingOf(list, 9)
	founders := []cluster.Member{{ID: 1}, {ID: 2}, {ID: 3}}
	for name, tt := range map[string]struct {
		self   string // address
		change func(all map[string]*Answer)
		want   action
		says   string
	}{
		"one is missing":   {"a:1", func(all map[string]*Answer) { delete(all, "b:1") }, wait, "no answer from b:1"},
		"another list":     {"a:1", func(all map[string]*Answer) { all["c:1"].List = "x" }, wait, "c:1 has another list"},
		"one name":         {"a:1", func(all map[string]*Answer) { all["c:1"].Name = "a" }, wait, `a:1 and c:1 both have the name "a"`},
		"one server twice": {"a:1", func(all map[string]*Answer) { *all["c:1"] = *all["b:1"] }, wait, "the same server answers at b:1 and c:1"},
		"another address":  {"a:1", func(all map[string]*Answer) { all["c:1"].Address = "d:1" }, wait, "c:1 says that it is at d:1"},

		"all agree": {"b:1", func(all map[string]*Answer) { all["b:1"].Bound = "" }, bind, ""},
		"the list or the first server is another one": {"b:1", func(all map[string]*Answer) { all["b:1"].Bound = other }, discard, "lost its disk"},
		"all are bound to this server":                {"a:1", func(map[string]*Answer) {}, found, ""},
		"all are bound to another":                    {"b:1", func(map[string]*Answer) {}, wait, "a:1 makes the cluster"},
		"one is not bound yet":                        {"a:1", func(all map[string]*Answer) { all["c:1"].Bound = "" }, wait, "c:1 has not agreed"},
		"one is bound to another":                     {"a:1", func(all map[string]*Answer) { all["c:1"].Bound = other }, wait, "c:1 has not agreed"},

		"it is a founding member": {"b:1", func(all map[string]*Answer) {
			*all["a:1"] = Answer{Cluster: 5, Votes: true, Founders: founders}
			delete(all, "c:1")
		}, adopt, ""},
		"its cluster is one of two": {"b:1", func(all map[string]*Answer) {
			*all["a:1"], *all["c:1"] = Answer{Cluster: 6}, Answer{Cluster: 5, Votes: true, Founders: founders}
		}, adopt, ""},
		"a founding member that was removed": {"b:1", func(all map[string]*Answer) { *all["a:1"] = Answer{Cluster: 5, Founders: founders} }, discard, "without this server"},
		"founding members are unknown":       {"b:1", func(all map[string]*Answer) { *all["c:1"] = Answer{Cluster: 5, Votes: true} }, wait, "polystalk cluster remove b"},
		"a cluster of others": {"b:1", func(all map[string]*Answer) {
			all["b:1"].Bound = ""
			*all["c:1"] = Answer{Cluster: 5}
			delete(all, "a:1")
		}, join, ""},
		"two clusters of others": {"b:1", func(all map[string]*Answer) {
			all["b:1"].Bound = ""
			*all["a:1"], *all["c:1"] = Answer{Cluster: 6}, Answer{Cluster: 5}
		}, wait, "different clusters"},
	} {
		all := make(map[string]*Answer)
		for i, at := range list {
			all[at] = &Answer{Node: uint64(i + 1), Name: at[:1], Address: at, List: digestOf(list), Bound: bound}
		}
		tt.change(all)
		d := decide(all[tt.self], list, all)
		if d.do != tt.want || !strings.Contains(d.why, tt.says) {
			t.Errorf("%s: %+v, want %d and %q", name, d, tt.want, tt.says)
		}
		if d.do == adopt && d.cluster != 5 || d.do == bind && d.bound != bound || d.do == found && len(d.members) != 3 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestBindingsDiffer with the list and with the first server.
func TestBindingsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, list := range [][]string{{"a:1"}, {"a:1", "b:1"}, {"a:1b:1"}} {
		for _, founder := range []uint64{1, 2} {
			seen[bindingOf(list, founder)] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d of 6 bindings differ", len(seen))
	}
}
