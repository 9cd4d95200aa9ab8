// Package commit makes changes of jobs durable. Data flows one way:
//
//	shard ── Begin, records, End ──► Log ┐
//	shard ── Begin, records, End ──► Log ┼─► committer ─► stager ─► sequencer ─► segment files
//	shard ── Begin, records, End ──► Log ┘       ▲     numbered        │        (package wal)
//	                                             │     batches         │
//	                                             └──── acknowledges ◄──┘
//	session ◄── may this reply leave? ─────── Storage
//	        ◄── may this change be made? ────
//
// There are two sequencers. The wal.Writer of a server that is alone writes batches to its own
// files. The replicated sequencer of one server of several proposes each batch as an entry; the
// entries come back in one order for all servers, and wal.Entries stores them.
//
// A change has a number before it is safe: the number of the commit that takes its record. A
// reply that shows the change carries this number, and is sent once Storage.Acked has reached
// it. Meanwhile shards and sessions continue. Several commits may be in progress.
//
// # Records, never operations
//
// The Logs hold records (package record). A record contains the new state of a job, so a replay
// gives the same job on any machine and at any time. An operation would not: submissions draw
// ids from a counter that all shards share, and which of several sleeping workers gets a job
// depends on the sessions. So all code behind a Log stores, sends and replays records in the
// order of the Log, and only the core that made them makes decisions.
//
// # One order of commits
//
// All shards share one sequence of commits, and all changes up to one number are safe. So code
// that depends on several changes keeps only the highest number: a job keeps the number of its
// last record, a reply the number of its job, a session the number of its replies, and compaction
// asks whether a job's last record is younger than a segment. If slots were replicated in several
// groups with separate commits, each of these numbers would need the name of its group. Nothing
// supports that.
package commit
