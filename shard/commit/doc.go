// Package commit is the seam between those who change jobs and what makes the changes
// last. Shards and sessions know of durability what is here, and nothing else. Behind it are
// segment files (package journal), which may be the log of one server of several.
//
//	shard ── Begin, records, End ──► Log ┐
//	shard ── Begin, records, End ──► Log ┼─► Committer ── Write, Sync ──► Sink
//	shard ── Begin, records, End ──► Log ┘       │  ◄── it is safe, Committed ──
//	                                             ▼
//	session ◄── may this reply leave? ─────── Storage
//	        ◄── may this change be made? ────
//
// A change has a number before it is safe: that of the commit that will take its record.
// A reply that tells of the change carries the number, and leaves once Storage.Acked has
// come to it. Meanwhile shards and sessions go on. To take and to number what the Logs have
// is one step, and to make it safe another: a Sink may have several commits under way.
//
// # Records, never operations
//
// What passes the seam are records (package record). A record says what has become of a
// job, so to read it again gives the same job on any machine and at any time. An operation
// would not: submissions draw ids from a counter that all shards share while they are
// applied, and which of several sleeping workers is told depends on what sessions do
// meanwhile. So whatever stands behind the seam stores, sends and replays records in the
// order in which a Log took them, and the core that made them is the only one that ever
// decides.
//
// # One order of commits
//
// All shards share one sequence of commits, and there is one number up to which all is
// safe. Who depends on several changes relies on that, and keeps the highest of their
// numbers alone: a job that of its last record, a reply that of the job it tells of, a
// session that of the replies it has given, and compaction asks whether a job's last record
// is younger than a segment. Were slots replicated in several groups, each with commits of
// its own, every one of these would be a mark, which names the group with the number, and
// a session would keep the latest mark of each group. Nothing is built for that.
//
// # What is not behind the seam
//
// Three things here have the shape of files, and another storage would have to find an
// answer of its own for each: Storage.Segment and the segments in Stats, which only
// statistics tell of; Stats.Migrated, what of it compaction has copied; and the fields of a
// Claim, which are how package journal counts its tries to make room.
//
// How jobs come back at a start is not part of Storage either. Package restore of the router
// opens the journal, replays it into the cores and takes over beanstalkd's files, and gives
// compaction its way to have a shard record a job again; it knows package journal by name.
package commit
