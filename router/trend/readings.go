package trend

import (
	"context"
	"math"
	"slices"
	"time"

	"polystalk/router/admin"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// ServerLayout names the figures of the server, in the order of serverReading.
var ServerLayout = &Layout{
	Gauges: []string{
		"ready", "urgent", "delayed", "reserved", "buried", "tubes", "job_body_bytes", "oldest_ready_seconds",
		"memory_mapped_bytes", "connections", "producers", "workers", "waiting",
		"journal_bytes", "journal_live_bytes", "journal_pending_bytes",
	},
	Counters: []string{
		"put", "reserve", "delete", "release", "bury", "kick", "timeout", "return", "flush",
		"commands", "connections_accepted", "journal_records",
	},
	Times: []string{"wait", "run"},
}

// TubeLayout names the figures of a tube, in the order of tubeReading.
var TubeLayout = &Layout{
	Gauges:   []string{"ready", "delayed", "reserved", "buried", "job_body_bytes", "oldest_ready_seconds"},
	Counters: []string{"put", "reserve", "delete", "timeout"},
	Times:    []string{"wait", "run"},
}

const (
	// flowsAtOnce is the largest number of tubes with their histograms in memory.
	flowsAtOnce = 64
	// chooseEvery is the time between two choices among many tubes, because comparing all tubes
	// takes as long as sampling them.
	chooseEvery = 30 * time.Second
)

// serverReading makes a reading; tubes may be nil, or older than v.
func serverReading(v *admin.Sample, tubes *admin.TubeSample) *reading {
	unknown := math.NaN()
	bytes, oldest := unknown, unknown
	if tubes != nil {
		bytes, oldest = 0, 0
		for i := range tubes.Rows {
			bytes += float64(tubes.Rows[i].Bytes)
			oldest = max(oldest, inSeconds(tubes.Rows[i].Oldest))
		}
	}
	files, live, pending, records := unknown, unknown, unknown, unknown
	if j := v.Journal; j != nil {
		files, live, pending, records = float64(j.Bytes), float64(j.Live), float64(j.Pending), float64(j.Records)
	}
	commands := uint64(0)
	for _, n := range v.Sums.Commands {
		commands += n
	}
	j, s, f := &v.Jobs, v.Sums, &v.Flow
	event := func(e stats.Event) float64 { return float64(f.Events[e]) }
	return &reading{
		At: v.At,
		Gauges: []float64{
			float64(j.Ready), float64(j.Urgent), float64(j.Delayed), float64(j.Reserved), float64(j.Buried), float64(v.Tubes), bytes, oldest,
			float64(j.MappedBytes), float64(s.Connections), float64(s.Producers), float64(s.Workers), float64(s.Waiting),
			files, live, pending,
		},
		Counters: []float64{
			float64(f.Puts), event(stats.Reserve), float64(f.Deletes), event(stats.Release), event(stats.Bury), event(stats.Kick), event(stats.Timeout), event(stats.Return), event(stats.Flush),
			float64(commands), float64(s.TotalConnections), records,
		},
		Times: []stats.Times{f.Wait, f.Run},
	}
}

// recordTubes adds the chosen tubes.
func (w *Watch) recordTubes(ctx context.Context, v *admin.TubeSample) {
	most := w.history.Most()
	if len(v.Rows) <= 2*most || w.chosenMost != most || v.At.Sub(w.chosen) >= chooseEvery {
		w.chosen, w.chosenMost = v.At, most
		var names []string
		for _, i := range w.choice.Of(v) {
			names = append(names, v.Rows[i].Name)
		}
		w.history.place(v.At, names)
	}
	kept := w.history.Kept()
	var rows []int
	for i := range v.Rows {
		if _, ok := slices.BinarySearch(kept, v.Rows[i].Name); ok {
			rows = append(rows, i)
		}
	}
	flows := make([]core.Flow, min(flowsAtOnce, len(rows)))
	for list := range slices.Chunk(rows, flowsAtOnce) {
		if w.source.Flows(ctx, v, list, flows) != nil {
			return
		}
		for n, i := range list {
			w.history.add(&v.Rows[i].Name, tubeReading(v.At, &v.Rows[i], &flows[n]))
		}
	}
}

// tubeReading makes a reading; the histograms are slightly newer than the row.
func tubeReading(at time.Time, t *core.TubeRow, f *core.Flow) *reading {
	return &reading{
		At:       at,
		Gauges:   []float64{float64(t.Ready), float64(t.Delayed), float64(t.Reserved), float64(t.Buried), float64(t.Bytes), inSeconds(t.Oldest)},
		Counters: []float64{float64(t.Total), float64(t.Events[stats.Reserve]), float64(t.Deletes), float64(t.Events[stats.Timeout])},
		Times:    []stats.Times{f.Wait, f.Run},
	}
}

func inSeconds(t core.Time) float64 { return float64(t) / float64(core.Second) }
