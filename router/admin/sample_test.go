package admin

import (
	"math"
	"slices"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

func tubeRow(id core.TubeID, name string, puts uint64) core.TubeRow {
	return core.TubeRow{TubeStats: core.TubeStats{Name: name, Total: puts}, ID: id}
}

// TestRatesFollowTheTube: a tube keeps its rates by shard, id and name, whatever tubes come and go.
func TestRatesFollowTheTube(t *testing.T) {
	at := time.Now()
	sample := func(after time.Duration, shards ...[]core.TubeRow) *TubeSample {
		v := &TubeSample{At: at.Add(after)}
		for _, rows := range shards {
			v.Rows = append(v.Rows, rows...)
			v.ends = append(v.ends, len(v.Rows))
		}
		return v
	}
	first := sample(0, []core.TubeRow{tubeRow(1, "a", 10), tubeRow(2, "gone", 10), tubeRow(5, "b", 10)}, []core.TubeRow{tubeRow(1, "c", 10)})
	second := sample(10*time.Second, []core.TubeRow{tubeRow(1, "a", 20), tubeRow(2, "new", 30), tubeRow(3, "newer", 30), tubeRow(5, "b", 5)}, []core.TubeRow{tubeRow(1, "c", 110)})
	first.follow(nil)
	second.follow(first)
	part := 1 - math.Exp(-10.0/60)
	for i, want := range []float64{1 * part, 0, 0, 0, 10 * part} {
		if got := float64(second.Rates[i].Put); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %v puts a second, want %v", second.Rows[i].Name, got, want)
		}
	}
	late := sample(10*time.Second+ratesForgotten+1, []core.TubeRow{tubeRow(1, "a", 9999)}, nil)
	late.follow(second)
	if late.Rates[0] != (wire.Rates{}) {
		t.Errorf("after a long time without a sample: %+v", late.Rates[0])
	}
	other := sample(11*time.Second, []core.TubeRow{tubeRow(1, "a", 9999)})
	other.follow(second)
	if other.Rates[0] != (wire.Rates{}) {
		t.Errorf("with another number of shards: %+v", other.Rates[0])
	}
}

// TestRatesConverge: a steady flow shows as its rates in the end, and an idle tube as zero.
func TestRatesConverge(t *testing.T) {
	row := tubeRow(1, "a", 0)
	v := &TubeSample{At: time.Now(), Rows: []core.TubeRow{row}, ends: []int{1}}
	v.follow(nil)
	step := func() {
		next := &TubeSample{At: v.At.Add(5 * time.Second), Rows: []core.TubeRow{row}, ends: []int{1}}
		next.follow(v)
		v = next
	}
	for range 100 {
		row.Total += 50
		row.Deletes += 20
		row.Events[stats.Reserve] += 30
		row.Events[stats.Timeout] += 5
		step()
	}
	want := wire.Rates{Put: 10, Reserve: 6, Delete: 4, Timeout: 1}
	got := v.Rates[0]
	for _, d := range []float32{got.Put - want.Put, got.Reserve - want.Reserve, got.Delete - want.Delete, got.Timeout - want.Timeout} {
		if math.Abs(float64(d)) > 0.01 {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	for range 1000 {
		step()
	}
	if v.Rates[0] != (wire.Rates{}) {
		t.Errorf("at rest: %+v", v.Rates[0])
	}
}

// TestRowsThatChange: a row has the number of the sample in which it last changed. The sample has
// a new number if a row has changed, is new or is gone. Time alone changes nothing.
func TestRowsThatChange(t *testing.T) {
	v := &TubeSample{At: time.Now(), ends: []int{0}}
	v.follow(nil)
	v.Number = 6
	step := func(rows ...core.TubeRow) {
		next := &TubeSample{At: v.At.Add(time.Second), Rows: rows, ends: []int{len(rows)}}
		next.follow(v)
		v = next
	}
	wants := func(number uint64, changed ...uint64) {
		t.Helper()
		if v.Number != number || !slices.Equal(v.Changed, changed) {
			t.Errorf("number %d, changed %v, want %d, %v", v.Number, v.Changed, number, changed)
		}
	}
	a, b, c := tubeRow(1, "a", 0), tubeRow(2, "b", 0), tubeRow(3, "c", 0)
	step(a, b)
	wants(7, 7, 7)
	step(a, b)
	wants(7, 7, 7)
	b.Ready = 1
	step(a, b)
	wants(8, 7, 8)
	b.Oldest += 5
	a.Pause, a.PauseLeft = 10, 10
	step(a, b)
	wants(9, 9, 8)
	a.PauseLeft = 9
	step(a, b)
	wants(9, 9, 8)
	a.PauseLeft = 0
	step(a, b)
	wants(10, 10, 8)
	step(b)
	wants(11, 8)
	step(b, c)
	wants(12, 8, 12)
	step(b, tubeRow(3, "d", 0))
	wants(13, 8, 13)
	step(b, tubeRow(3, "d", 0))
	wants(13, 8, 13)
}

// TestForeseenOfAMovingJob: like the core, a dry run reports that no verb changes a job that is
// being moved, with or without force.
func TestForeseenOfAMovingJob(t *testing.T) {
	row := core.JobRow{JobStats: core.JobStats{State: core.Reserved}, Moving: true}
	for _, v := range []core.Verb{core.VerbDelete, core.VerbKick, core.VerbBury, core.VerbRelease, core.VerbSet} {
		for _, force := range []bool{false, true} {
			a := Verb{core.Action{Verb: v, Force: force, Changes: core.ChangePri}}
			if why := a.Foresee(&row); why != core.StatusMoving {
				t.Errorf("%s, forced %v: status %d", a.Name(), force, why)
			}
		}
	}
}
