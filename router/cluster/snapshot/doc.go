// Package snapshot transfers whole journals: to a server that joins a cluster, to a server that
// needs entries that the leader's log no longer has, and into a backup.
//
// A journal is its own snapshot: compaction keeps the end of the history, from which all live jobs
// can be recovered. The sender copies its segments byte for byte while its journal grows, and the
// receiver starts from them.
//
//	new server                      leader
//	NodeID   a random ID, kept
//	ask    ── POST /cluster/join ─► Handler   adds a learner: cluster.Add
//	       ◄── cluster, leader ────
//	Fetch  ── stream: Journal ────► Source    pins its journal, and sends it with the members
//	       ◄── segments ───────────
//	       ─── "whole" ───────────►           keeps the pin until the server has caught up
//	Install, cluster.state
//
// A server that has fallen behind begins with Fetch, and follows meanwhile. Then it stops,
// exchanges its journal (Exchange), and starts again. Package exchange makes that safe: a
// crash at any moment leaves one of the two journals.
//
// # What never happens
//
// A server with an empty directory never votes under an ID that has voted: the ID of a joining
// server is random, and belongs to a learner until the server has caught up. After a crash the next
// start continues under the same ID, which has never acknowledged anything.
//
// Exchange never replaces a log by an older one. It compares the last entries as raft does for
// votes. The fetched journal has all entries committed in terms before its last one. In that term
// the shorter log is a prefix of the longer one. A server with entries of a later term keeps its
// own.
//
// # Frames
//
//	type u8 | length u32 | crc u32 | length bytes
//
// Numbers are little-endian. The checksum is a CRC-32C of the rest of the frame.
//
//	hello    "polysnap" | version u8 | bytes u64     estimate of all bytes
//	note     bytes                                    the members
//	segment  number u64                               a segment begins
//	piece    bytes                                    the next bytes of the segment
//	end      segments u64 | bytes u64                 that was all
//	failed   text                                     the sender has failed, for this reason
//
// The sender sends whole batches up to the end of its journal. Some may not be committed. A backup
// must not contain those: see SendOptions.Confirm.
package snapshot
