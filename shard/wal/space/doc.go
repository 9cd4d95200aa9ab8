// Package space is the arithmetic of what a journal may promise: how much of its segments
// is free, what may use it, and when there must be another segment or one less. It knows
// no files and no clock, so all of it can be tested with numbers alone.
//
// # What must hold
//
// A disk that is full must show before a job is accepted, and a delete must find room
// even then. So segments are filled with zeros before they are used, which reserves their
// bytes, and of these bytes the last are kept back:
//
//	├──────── written ────────┤├─ pending ─┤├─ promised ─┤├─ available ─┤├─ reserve ─┤
//	                           ├───────────────────── free ──────────────────────────┤
//
//	free       bytes in segments that are not written yet
//	pending    bytes in Logs, or taken from there, that are not written yet
//	promised   bytes for bodies that are being received; a Claim holds each share
//	available  what may still be promised, or taken in by changes in one piece
//	reserve    what only deletes, the ends of pauses, and compaction may use
//
// Changes that need space are taken while something is available (Sums.Pressure). What
// frees space is always taken, and goes into the reserve if it must.
//
// # How large the reserve is
//
// It pays for the longest way out of a full disk. A client deletes all jobs, each with a
// batch of its own; all pauses end; and to give up the oldest segment, what lives in it is
// copied to the end first:
//
//	reserve = a segment            what lives in the oldest one, at most
//	        + slack                see below
//	        + deleteShare × jobs   one Delete for each
//	        + pauses               the record that ends each
//
// A segment's worth of copies does not fit into a segment's worth of room to the byte: a record
// does not go on in the next segment, so two ends stay empty that are shorter than the largest
// record. And several threads may be let in at once, each by a sum that does not know of the
// others yet: in practice two more of the largest. Hence four. With little alive there is less to
// copy than a segment, and what is missing to one counts as slack already.
//
// # How large the directory may be
//
//	bound = 2 × (live + promised) + 3 segments + slack
//
// Compaction gives up the oldest segment while the closed ones hold more than half as much again
// as lives, and half a segment. Besides, there are the current segment, the next one, and at most
// a segment that compaction writes before it gives anything up. The two rules meet: whenever
// another segment would break the bound (Sums.AnotherAllowed says no), giving one up is worth it
// (Sums.Compactable, when it is urgent, says yes). Otherwise a journal at its bound could neither
// grow nor shrink, and its clients would wait for ever. TestNeverStuck holds the two against each
// other. They meet with one spare at most. With two there is room for clients, unless the deletes
// of very many small jobs reserve it; and a round of compaction may be known to be fruitless. The
// keeper sees both: when nothing can be given up and clients wait, it breaks the bound.
//
// # Several threads
//
// Shards add to pending, sessions claim, the committer writes and the keeper prepares, all at a
// time and without a common lock. A Ledger's counters are atomic, and each byte moves from one to
// the next in the order promised, pending, free: it is added to the next before it is taken off
// the last. A reader in the same order (Ledger.Sums) may count a byte on its way twice, but never
// misses one. So what is seen as available is there, and a race costs a moment's Wait at worst.
package space
