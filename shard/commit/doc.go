// Package commit is the seam between those who change jobs and what makes the changes
// last. Shards and sessions know of durability what is here, and nothing else; segment
// files (package journal) are behind it today, and a log that is replicated may be later.
//
// What passes the seam are records (package record), never operations. A record says what
// has become of a job, so to read it again gives the same job on any machine and at any
// time. An operation would not: submissions draw ids from a counter that all shards share
// while they are applied, and which of several sleeping workers is told depends on what
// sessions do meanwhile. So whatever stands behind the seam stores, sends and replays
// records in the order in which a Log took them, and the core that made them is the only
// one that ever decides.
package commit
