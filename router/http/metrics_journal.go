package http

import (
	"polystalk/shard/commit"
	"polystalk/shard/stats"
)

// The bounds of a sync that are shown are 61 µs to 16 s, those of commits 1 to 65536 records.
const (
	firstSync   = 2
	lastSync    = 11
	firstCommit = 0
	lastCommit  = 8
)

// journal emits the tubeFamilies of the journal.
func (e emitter) journal(j *commit.Stats, pressure commit.Pressure) {
	for _, b := range []struct {
		kind string
		n    int64
	}{{"files", j.Bytes}, {"live", j.Live}, {"pending", j.Pending}, {"promised", j.Promised}} {
		e.gauge("journal_bytes", "Bytes of the journal: its files, what jobs that live take of them, what is not written yet, what bodies that are received will take.", float64(b.n), label{"kind"}, b.kind)
	}
	e.gauge("journal_room_bytes", "Bytes that can still be written: what is left of files, and what the disk has for more of them.", float64(j.Room), nil)
	e.gauge("journal_segments", "Files of the journal.", float64(j.Segments), nil)
	e.counter("journal_batches_total", "Batches of records written to the journal, since it was made.", float64(j.Batches), nil)
	e.counter("journal_records_total", "Records written to the journal.", float64(j.Records), nil)
	e.counter("journal_written_bytes_total", "Bytes written to the journal.", float64(j.Written), nil)
	e.counter("journal_migrated_records_total", "Records written again, so that an old file could be given up.", float64(j.Migrated), nil)
	e.rare("journal_commit_records", "How many records commits had that had some.", &j.Sizes, float64(j.Sizes.Sum), stats.HistogramBound, firstCommit, lastCommit)
	e.rare("journal_sync_seconds", "How long it took to make what was written durable, each time that this was done.", &j.Syncs, float64(j.Syncs.Sum)/1e9, stats.HistogramSeconds, firstSync, lastSync)
	for i, name := range []string{commit.Open: "open", commit.Wait: "wait", commit.Full: "full"} {
		e.gauge("journal_pressure", "Whether changes are taken: open, not now, or not while the disk is full.", truth(commit.Pressure(i) == pressure), label{"state"}, name)
	}
}
