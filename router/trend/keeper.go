package trend

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"polystalk/router/admin"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// ServerLayout is what is kept of the server.
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

// TubeLayout is what is kept of a tube.
var TubeLayout = &Layout{
	Gauges:   []string{"ready", "delayed", "reserved", "buried", "job_body_bytes", "oldest_ready_seconds"},
	Counters: []string{"put", "reserve", "delete", "timeout"},
	Times:    []string{"wait", "run"},
}

// flowsAtOnce are how many tubes' histograms are in memory at a time.
const flowsAtOnce = 64

// chooseEvery is how often the tubes are chosen that have a place, if there are many: to
// compare all of them takes as long as to look at them.
const chooseEvery = 30 * time.Second

// A keeper keeps the history.
type keeper struct {
	source  Source
	history *History

	mu     sync.Mutex
	choice *Choice   // of the tubes that are to have a place
	chosen time.Time // when that was last made; zero: it is due
}

func newKeeper(source Source, tubes int) *keeper {
	return &keeper{
		source: source, history: newHistory(ServerLayout, TubeLayout, tubes),
		choice: NewChoice(tubes, func(string) bool { return false }),
	}
}

// limit changes how many tubes have a place.
func (k *keeper) limit(tubes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.history.Limit(tubes)
	k.choice.Set(tubes, func(string) bool { return false })
	k.chosen = time.Time{}
}

// read adds what was seen; tubes are nil if they were not looked at.
func (k *keeper) read(ctx context.Context, server *admin.Sample, tubes *admin.TubeSample) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.history.Most() == 0 {
		return
	}
	k.history.Server(serverReading(server, tubes))
	if tubes != nil {
		k.tubes(ctx, tubes)
	}
}

// serverReading is that of the server. Its tubes, if they were looked at, are somewhat older,
// or newer.
func serverReading(v *admin.Sample, tubes *admin.TubeSample) *Reading {
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
	return &Reading{
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

// tubes adds those of a sample that have a place, once those have got one that are to.
func (k *keeper) tubes(ctx context.Context, v *admin.TubeSample) {
	if few := len(v.Rows) <= 2*k.history.Most(); few || k.chosen.IsZero() || v.At.Sub(k.chosen) >= chooseEvery {
		k.chosen = v.At
		var names []string
		for _, i := range k.choice.Of(v) {
			names = append(names, v.Rows[i].Name)
		}
		k.history.Place(v.At, names)
	}
	kept := make(map[string]struct{})
	for _, name := range k.history.Kept() {
		kept[name] = struct{}{}
	}
	var rows []int
	for i := range v.Rows {
		if _, ok := kept[v.Rows[i].Name]; ok {
			rows = append(rows, i)
		}
	}
	flows := make([]core.Flow, min(flowsAtOnce, len(rows)))
	for list := range slices.Chunk(rows, flowsAtOnce) {
		if k.source.Flows(ctx, v, list, flows) != nil {
			return
		}
		for n, i := range list {
			k.history.Tube(v.Rows[i].Name, tubeReading(v, &v.Rows[i], &flows[n]))
		}
	}
}

// tubeReading is that of a tube, whose histograms are somewhat newer.
func tubeReading(v *admin.TubeSample, t *core.TubeRow, f *core.Flow) *Reading {
	return &Reading{
		At:       v.At,
		Gauges:   []float64{float64(t.Ready), float64(t.Delayed), float64(t.Reserved), float64(t.Buried), float64(t.Bytes), inSeconds(t.Oldest)},
		Counters: []float64{float64(t.Total), float64(t.Events[stats.Reserve]), float64(t.Deletes), float64(t.Events[stats.Timeout])},
		Times:    []stats.Times{f.Wait, f.Run},
	}
}

func inSeconds(t core.Time) float64 { return float64(t) / float64(core.Second) }
