package admin

import (
	"math"
	"testing"
	"time"

	"polystalk/shard/core"
	"polystalk/shard/flow"
)

func tubeRow(id core.TubeID, name string, puts uint64) core.TubeRow {
	return core.TubeRow{TubeStats: core.TubeStats{Name: name, Total: puts}, ID: id}
}

// TestRatesFollowTheTube: by shard, id and name, whatever comes and goes between.
func TestRatesFollowTheTube(t *testing.T) {
	at := time.Now()
	sample := func(after time.Duration, shards ...[]core.TubeRow) *TubeSample {
		v := &TubeSample{At: at.Add(after)}
		for _, rows := range shards {
			v.Rows = append(v.Rows, rows...)
			v.ends = append(v.ends, len(v.Rows))
		}
		v.Rates = make([]Rates, len(v.Rows))
		return v
	}
	first := sample(0, []core.TubeRow{tubeRow(1, "a", 10), tubeRow(2, "gone", 10), tubeRow(5, "b", 10)}, []core.TubeRow{tubeRow(1, "c", 10)})
	second := sample(10*time.Second, []core.TubeRow{tubeRow(1, "a", 20), tubeRow(2, "new", 30), tubeRow(3, "newer", 30), tubeRow(5, "b", 5)}, []core.TubeRow{tubeRow(1, "c", 110)})
	second.follow(first)
	part := 1 - math.Exp(-10.0/60)
	for i, want := range []float64{1 * part, 0, 0, 0, 10 * part} {
		if got := float64(second.Rates[i].Put); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %v puts a second, want %v", second.Rows[i].Name, got, want)
		}
	}
	late := sample(10*time.Second+ratesForgotten+1, []core.TubeRow{tubeRow(1, "a", 9999)}, nil)
	late.follow(second)
	if late.Rates[0] != (Rates{}) {
		t.Errorf("after a long time without a sample: %+v", late.Rates[0])
	}
	other := sample(11*time.Second, []core.TubeRow{tubeRow(1, "a", 9999)})
	other.follow(second)
	if other.Rates[0] != (Rates{}) {
		t.Errorf("with another number of shards: %+v", other.Rates[0])
	}
}

// TestRatesComeNearTheTruth: a steady flow of all four kinds is what is shown in the end,
// and rest is shown as rest.
func TestRatesComeNearTheTruth(t *testing.T) {
	row := tubeRow(1, "a", 0)
	v := &TubeSample{At: time.Now(), Rows: []core.TubeRow{row}, Rates: make([]Rates, 1), ends: []int{1}}
	step := func() {
		next := &TubeSample{At: v.At.Add(5 * time.Second), Rows: []core.TubeRow{row}, Rates: make([]Rates, 1), ends: []int{1}}
		next.follow(v)
		v = next
	}
	for range 100 {
		row.Total += 50
		row.Deletes += 20
		row.Events[flow.Reserve] += 30
		row.Events[flow.Timeout] += 5
		step()
	}
	want := Rates{Put: 10, Reserve: 6, Delete: 4, Timeout: 1}
	got := v.Rates[0]
	for _, d := range []float32{got.Put - want.Put, got.Reserve - want.Reserve, got.Delete - want.Delete, got.Timeout - want.Timeout} {
		if math.Abs(float64(d)) > 0.01 {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	for range 1000 {
		step()
	}
	if v.Rates[0] != (Rates{}) {
		t.Errorf("at rest: %+v", v.Rates[0])
	}
	old := v
	row.Oldest = 5
	step()
	if !v.shows(old) {
		t.Error("an age makes another sample of it")
	}
	row.Ready++
	old = v
	step()
	if v.shows(old) {
		t.Error("a job more makes no other sample")
	}
}
