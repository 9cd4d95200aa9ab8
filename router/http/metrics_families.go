package http

import (
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// Prefix is that of all names.
const Prefix = "polystalk_"

// Events are the names of what is counted of jobs, besides puts and deletes.
var Events = [stats.Events]string{
	stats.Reserve: "reserve", stats.Release: "release", stats.Bury: "bury", stats.Kick: "kick",
	stats.Timeout: "timeout", stats.Return: "return", stats.Flush: "flush",
}

// A series is one of a family of numbers.
type series struct {
	value string // of the family's label; empty: it has none
	of    func(t *core.TubeRow) float64
}

// A family is one of numbers; each of its tubes has all the series.
type family struct {
	group   string // by which it is asked for
	name    string
	help    string
	counter bool
	label   string // besides tube; empty: there is one series
	series  []series
}

// The groups of tubeFamilies.
const (
	jobs    = "jobs"
	events  = "events"
	age     = "age"
	latency = "latency"
)

// Groups are the groups, for who asks for some.
var Groups = []string{jobs, events, age, latency}

func numberOf(of func(t *core.TubeRow) uint64) func(t *core.TubeRow) float64 {
	return func(t *core.TubeRow) float64 { return float64(of(t)) }
}

var tubeFamilies = []family{
	{group: jobs, name: "tube_jobs", help: "Jobs of a tube, by their state.", label: "state", series: []series{
		{"ready", numberOf(func(t *core.TubeRow) uint64 { return t.Ready })},
		{"delayed", numberOf(func(t *core.TubeRow) uint64 { return t.Delayed })},
		{"reserved", numberOf(func(t *core.TubeRow) uint64 { return t.Reserved })},
		{"buried", numberOf(func(t *core.TubeRow) uint64 { return t.Buried })},
	}},
	{group: jobs, name: "tube_job_body_bytes", help: "Bytes of the bodies of a tube's jobs.", series: []series{
		{"", numberOf(func(t *core.TubeRow) uint64 { return t.Bytes })},
	}},
	{group: jobs, name: "tube_clients", help: "Connections that put into a tube, that reserve from it, and that wait for a job of it.", label: "role", series: []series{
		{"using", numberOf(func(t *core.TubeRow) uint64 { return t.Using })},
		{"watching", numberOf(func(t *core.TubeRow) uint64 { return t.Watching })},
		{"waiting", numberOf(func(t *core.TubeRow) uint64 { return t.Waiting })},
	}},
	{group: jobs, name: "tube_paused", help: "Whether reserve is kept from a tube.", series: []series{
		{"", func(t *core.TubeRow) float64 {
			if t.PauseLeft > 0 {
				return 1
			}
			return 0
		}},
	}},
	{group: age, name: "tube_oldest_ready_age_seconds", help: "How long the job of a tube is ready that is so for longest; 0 if none is.", series: []series{
		{"", func(t *core.TubeRow) float64 { return float64(t.Oldest) / float64(core.Second) }},
	}},
	{group: events, name: "tube_job_events_total", help: "What happened to jobs of a tube.", counter: true, label: "event", series: eventSeries()},
}

func eventSeries() []series {
	list := []series{
		{"put", numberOf(func(t *core.TubeRow) uint64 { return t.Total })},
		{"delete", numberOf(func(t *core.TubeRow) uint64 { return t.Deletes })},
	}
	for e, name := range Events {
		list = append(list, series{name, numberOf(func(t *core.TubeRow) uint64 { return t.Events[e] })})
	}
	return list
}

// A timesFamily is a family of histograms.
type timesFamily struct {
	name, help string
	of         func(f *core.Flow) *stats.Times
}

var histograms = []timesFamily{
	{"tube_job_wait_seconds", "How long jobs of a tube were ready before they were reserved.", func(f *core.Flow) *stats.Times { return &f.Wait }},
	{"tube_job_run_seconds", "How long reservations of a tube's jobs took, however they ended.", func(f *core.Flow) *stats.Times { return &f.Run }},
}

// A tube's histograms have bounds of 4^-4 to 4^7 seconds, by four: every second of those that
// are counted.
const (
	firstBound = 3
	lastBound  = 25
)

// cumulative calls f for each bound, in seconds, with how many lengths of time do not exceed
// it, and returns how many there are.
func cumulative(t *stats.Times, f func(bound float64, n uint64)) (all uint64) {
	for b, k := range t.N {
		all += k
		if b >= firstBound && b <= lastBound && (b-firstBound)%2 == 0 {
			f(stats.FlowBound(b)/1e9, all)
		}
	}
	return all
}
