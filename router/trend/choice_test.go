package trend

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// sampleOf returns a sample of tubes with the given activities.
func sampleOf(at time.Time, rates map[string]float32) *admin.TubeSample {
	v := &admin.TubeSample{At: at}
	for name, r := range rates {
		v.Rows = append(v.Rows, core.TubeRow{TubeStats: core.TubeStats{Name: name}})
		v.Rates = append(v.Rates, wire.Rates{Put: r})
	}
	return v
}

func names(c *Choice, v *admin.TubeSample) []string {
	var list []string
	for _, i := range c.Of(v) {
		list = append(list, v.Rows[i].Name)
	}
	slices.Sort(list)
	return list
}

// TestAChosenTubeStays until it is removed, or for an hour was not among the 2*most busiest tubes.
func TestAChosenTubeStays(t *testing.T) {
	at := time.Now()
	c := NewChoice(2, func(name string) bool { return strings.HasPrefix(name, "want") })
	wants := func(after time.Duration, rates map[string]float32, want ...string) {
		t.Helper()
		got := names(c, sampleOf(at.Add(after), rates))
		expect(t, slices.Equal(got, want), "after %v: %v are chosen, want %v", after, got, want)
	}
	wants(0, map[string]float32{"a": 9, "b": 8, "c": 7, "d": 6, "e": 5}, "a", "b")
	b := map[string]float32{"a": 9, "b": 1, "c": 7, "d": 6, "e": 5}
	wants(30*time.Minute, b, "a", "b")
	wants(59*time.Minute, b, "a", "b")
	wants(59*time.Minute+30*time.Second, map[string]float32{"a": 9, "b": 5.5, "c": 7, "d": 6, "e": 5}, "a", "b") // among the four
	wants(61*time.Minute, b, "a", "b")
	wants(120*time.Minute, b, "a", "c")
	wants(121*time.Minute, map[string]float32{"a": 9, "b": 8, "c": 0, "d": 6}, "a", "c")
	wants(122*time.Minute, map[string]float32{"a": 9, "b": 8, "d": 6}, "a", "b")
	wants(123*time.Minute, map[string]float32{"a": 9, "b": 8, "wanted": 0}, "a", "wanted")
	wants(124*time.Minute, map[string]float32{"x": 0}, "x")
	wants(125*time.Minute, nil)
	c.Set(1, func(name string) bool { return name == "b" })
	wants(126*time.Minute, b, "b")
	c.Set(2, func(string) bool { return false })
	wants(127*time.Minute, b, "a", "b") // it stays, though others are busier
	none := NewChoice(0, c.match)
	got := none.Of(sampleOf(at, map[string]float32{"wanted": 1}))
	expect(t, len(got) == 0, "of none, %v are chosen", got)
}

// TestBestAreTheFirst of all rows in sorted order.
func TestBestAreTheFirst(t *testing.T) {
	for _, n := range []int{1, 2, 7, 100, 999, 1000, 1001, 5000} {
		rates := make(map[string]float32)
		for i := range 1000 {
			rates[fmt.Sprintf("t%04d", i)] = float32(i * 7919 % 1000)
		}
		v := sampleOf(time.Now(), rates)
		got := names(NewChoice(n, func(string) bool { return false }), v)
		want := slices.Collect(func(yield func(string) bool) {
			for name, r := range rates {
				if int(r) >= 1000-n && !yield(name) {
					return
				}
			}
		})
		slices.Sort(want)
		expect(t, slices.Equal(got, want), "%d: %d are chosen, want %d", n, len(got), len(want))
	}
}
