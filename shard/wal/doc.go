// Package wal is the write-ahead log: it stores batches of records in segment files, reads them
// back at a start, and gives up what no live job needs. It knows neither commits nor proposals;
// package commit makes those, and sees a WAL through its methods.
//
//	commit.stager ─► writer.Write, Sync           (a server that is alone)
//	consensus     ─► Entries.Append, Entries.Sync (one server of several)
//	                     │
//	                     ▼
//	   [segment 7][segment 8][segment 9 ···|   ][segment 10, empty]
//	        ▲                                        ▲
//	        └──── keeper: copies live jobs from the oldest to the end,
//	              uses its file again for the next one
//
// One log serves all shards, because an fdatasync costs the same for one record and for a
// thousand.
//
// Segments are given up from the oldest on, never from the middle. So the disk always holds the
// end of the history: a Delete never goes before the Put that it ends, no record needs to know
// where others are, and a missing file is a visible gap. The price is that long-lived jobs are
// copied once for every equal amount of garbage.
//
// Space: the directory holds at most twice the size of the live jobs plus three segments and
// four of the largest records. Space is prepared before it is used, so a full disk shows before
// a job is accepted, and a delete still finds room. Package space has the arithmetic.
//
// # Ownership
//
// Three goroutines run a log. The committer's makes commits; where a commit is a mere write, the
// goroutine that waits for it may make it (commit.Storage.CommitHere). The keeper's prepares
// segments, gives up old ones and measures the disk. With SyncEvery a third one syncs. Each thing
// has one owner:
//
//	writer             the current segment: the goroutine that makes a commit, and the one that syncs
//	watermark          the last commit that is durable; writer and keeper, with a lock
//	segments           the lists of files, and the pins of readers; with a lock
//	preparer, keeper   spare files, compaction, the quota; the keeper
//	space.Ledger       the sums; any goroutine, by atomic counters
//	Entries            the index and the newest entries; any goroutine, with a lock
//
// The committer waits for the keeper when no segment is prepared, and the keeper for the committer
// when copies must be durable. They never wait for each other, because a keeper that waits serves
// a starved committer (keeper.feedCommitter). Shards never wait: they append to memory.
//
// # Start
//
//	Recover ─► the cores hold what the files hold, or Replays that stay open do
//	Open    ─► there is a segment to go on in; the keeper prepares others
//	Lead    ─► commits are made, and old segments given up
//
// A server that follows another may be open for long before it leads: its leader decides what
// its segments hold.
//
// # One server of several
//
// With Options.Replicated several servers share the log, and agree on one order of entries. Each
// entry is a batch that begins with an Entry (package record). A batch's own number counts batches
// in this machine's files; the index of its entry is the same everywhere. The goroutine that
// appends entries has the current segment for itself. What was proposed stays pending in the
// Ledger until it is written here.
//
// Nothing is ever cut off: an entry replaces all earlier entries with its index or a higher one,
// when entries are read (history) and found (entryIndex). So a crash leaves no state of the
// files that a server alone could not leave. Each batch says up to which entry all were known to
// be committed when it was written. A recovery applies what that proves, and leaves the rest to
// consensus. Without consensus the rest counts as committed too. A batch without an Entry was
// written by a server alone: it is the entry after the one before, and committed.
//
// A segment is given up in two steps (lowering), and every machine gives up its own. Once the
// leader's copies are committed, it proposes a Floor. No server needs what is below a committed
// Floor that is on its own disk. A follower looks at what lives each time, so its directory keeps
// the bound too. Where a Floor that is on its way keeps a directory at its bound, a starved writer
// gets another segment all the same. A server that catches up may hold several Floors that it has
// written and not applied, and exceeds its bound by that.
//
// # What waits for what
//
// The preparer has no goroutine: the keeper runs it, or, once the keeper has ended, the goroutine
// that makes a commit and needs a segment. Besides locks, and pauses of the keeper that end by
// themselves, these are all waits:
//
//	what                 on                until                          woken by
//	keeper               its waker         there may be something to do   WAL.WakeKeeper, WakeIfTight; Writer.Rotate,
//	                                                                      Writer.awaitSpare; by itself every fullRetry
//	committer            Committer.Wake    a commit is to be made         commit.Log.Request, CommitHere; watermark.await; the keeper's timer
//	maker of a commit    segments.changed  the next segment is open       segments.add, preparer.openNext; the end of the keeper
//	keeper, Durable      segments.changed  a commit is committed          watermark.reach; WAL.Stop, which ends the waiting
//	appender of entries  as the maker of a commit, which waits for no segment then, but in Proposer.Propose
//	the same keeper      segments.changed  the maker of a commit starves  Writer.awaitSpare; then the keeper serves it
//	syncEvery            Writer.dirty      something is not synced        Writer.End
//	sessions             Options.Notify    a commit is acked, or there    commit.gate
//	                                       may be room
//
// A waker holds one wake-up, so it may be woken before its goroutine waits. segments.changed is
// one condition variable for three conditions: it is always broadcast, and each waiter checks its
// own. A failure broadcasts as well, and ends all waiting for good.
//
// To request is to have a commit made. To wake is to have a goroutine look for work. To notify is
// to tell sessions that they may go on. To tend is to do the keeper's work once.
//
// # A torn end
//
// A process that ends within a write, by kill -9 or a power cut, leaves the last batch, or
// several unsynced ones, in part: a checksum is wrong, or a batch is missing. That is a torn end,
// and with SyncAlways no reply that depends on it has left. The next start cuts it off: the
// batches before it, whose numbers follow on each other, are the history; zeros overwrite what
// follows (adopt.go), and the log says so.
//
// It is a torn end only if no readable batch behind it says, in synced, that what is missing was
// durable. If one does, that is Damage, and stops the start (recovery.verdict in recovery.go). No
// batch says so of the last batch: damage to that one looks like a torn end.
//
// # Errors
//
// After an error of a write or a sync nothing is tried again, since the kernel may have dropped
// what it could not write and would report success: the journal stops for good, acknowledges
// nothing more, and calls Committer.Fail.
//
// # Proof
//
// The process that starts next meets the same kernel. What could not be written back is still in
// memory, where it counts as clean: it is read, no sync writes it, and at any moment the kernel
// may forget it and read what the disk has instead. So a recovery asks not what it can read but
// what is proven to be on the disk. It brings everything else there by writing it again, byte for
// byte in its place, before anything is appended behind it.
//
// The proof of a batch is a later batch that says, in synced, that the first one was durable when
// the later one was written. It says so only after every file with a batch up to the first one
// was synced without an error, through descriptors that were opened before those batches were
// written; and Linux reports an error to each descriptor that was open at the time. The later
// batch need not be on the disk itself. So with SyncAlways at most the last commit is unproven,
// acknowledged or not; with SyncEvery what was written since the last sync but one, so within
// about twice Options.Every; with SyncNever up to unsyncedMax segments, since only compaction
// syncs: its guarantee against a power cut is weaker, but a hole in what is not proven, with
// batches behind it that claim to follow on what is durable, would be damage under any policy.
// The last batch of a journal is never proven, so every start rewrites something.
//
// Writing the same bytes again is harmless if a power cut or a second error interrupts it: a
// sector holds its old bytes or the new ones, as after the first try, and no proven byte is
// changed. The next start begins it again. Nor can the zeros behind the end be trusted, since a
// recovery that could not write them back may have left them in memory: a stale batch there would
// one day follow on a new one. Zeros are written again in the current segment, in those that are
// written again, and in the first spare, where a torn end may have begun. If bytes differ when
// they are read again to be written, the start ends with an error; the next start finds what the
// disk has.
//
// A name is proven by a sync of the directory. A segment is used only after that, but a process
// may have ended between the two. So a recovery begins with a sync of the directory, whatever it
// finds there; a removal that an earlier process did not complete is then as durable as a
// segment's name.
//
// So with SyncAlways everything acknowledged can be relied on, after any sequence of failed
// flushes, ends of the process and power cuts. With the other policies the same holds except for
// what is acknowledged and not synced yet: a power cut may take it from the end on, and so may a
// failed flush if memory is wanted elsewhere before the next start. There is no defence against a
// disk that says it has written what it has not.
package wal
