// Package space is the arithmetic of a journal's space: how much of its segments is free, what
// may use it, and when to prepare or give up a segment. It does no I/O and takes the time as an
// argument, so all of it can be tested with numbers alone.
//
// # What must hold
//
// The server must detect a full disk before it accepts a job, and deletes must have room even
// then. So segments are filled with zeros before they are used, which reserves their bytes, and
// the last of these bytes are a reserve:
//
//	├──────── written ────────┤├─ pending ─┤├─ promised ─┤├─ available ─┤├─ reserve ─┤
//	                           ├───────────────────── free ──────────────────────────┤
//
//	free       bytes in segments that are not written yet
//	pending    bytes in Logs, or taken from there, that are not written yet
//	promised   bytes for bodies that are being received; a Claim holds each share
//	available  bytes that can still be promised, or used by changes in one piece
//	reserve    bytes for deletes, the ends of pauses, and compaction only
//
// Changes that need space are accepted while bytes are available (Sums.Pressure). Changes that
// free space are always accepted, and may use the reserve.
//
// # How large the reserve is
//
// It covers the most expensive way to empty a full disk. A client deletes all jobs, each with
// its own batch; all pauses end; and to give up the oldest segment, its live jobs are copied to
// the end first:
//
//	reserve = a segment            the live jobs of the oldest one, at most
//	        + slack                see below
//	        + deleteShare × jobs   a Delete for each
//	        + pauses               the record that ends each
//
// A segment's worth of copies does not fit exactly into a segment's worth of room: a record does
// not continue in the next segment, so two ends stay empty, each shorter than the largest record.
// And several threads may be admitted at once, each by a sum that does not include the others yet:
// in practice two more of the largest. Hence slack is four of the largest records. If fewer bytes
// live than a segment has, the difference counts as slack already.
//
// # How large the directory may be
//
//	bound = 2 × (live + promised) + 3 segments + slack
//
// Compaction gives up the oldest segment while the closed ones hold more than 1.5 times the live
// bytes plus half a segment. There are also the current segment, the next one, and at most one
// that compaction fills before it gives a segment up. The two rules leave no gap: whenever another
// segment would break the bound (Sums.AnotherAllowed says no), giving one up is worth it
// (Sums.Compactable, when it is urgent, says yes). Otherwise a journal at its bound could neither
// grow nor shrink, and its clients would wait for ever. TestNeverStuck checks that for up to one
// spare. With two spares there is room for clients, unless the deletes of very many small jobs
// reserve it. A round of compaction may also be known to be fruitless. The keeper handles both:
// if nothing can be given up and clients wait, it breaks the bound.
//
// # Several threads
//
// Shards add to pending, sessions claim, the committer writes and the keeper prepares, all
// concurrently and without a common lock. A Ledger's counters are atomic. A byte is added to
// pending before it leaves promised, and leaves free before it leaves pending. Ledger.Sums reads
// in the order promised, pending, free, so it may count a moving byte twice, but never misses one.
// So available bytes really exist, and a race costs at worst a short Wait.
package space
