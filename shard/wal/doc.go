// Package wal is the write-ahead log: it stores batches of records in segment files, reads them
// back at a start, and gives up segments that no live job needs. Package commit makes commits
// and proposals, and uses a WAL through its methods.
//
//	commit.stager ─► writer.Write, End            (a server that is alone)
//	consensus     ─► Entries.Append, Entries.Sync (one server of several)
//	                     │
//	                     ▼
//	   [segment 7][segment 8][segment 9 ···|   ][segment 10, empty]
//	        ▲                                        ▲
//	        └──── keeper: copies live jobs from the oldest to the end,
//	              uses its file again for the next one
//
// One log serves all shards, because an fdatasync costs the same for one record and for a thousand.
//
// To give up a segment is to remove its file or use it again. Always the oldest segment is given
// up. So the disk holds the end of the history without gaps: a Delete never goes before the Put
// that it ends, no record needs to know where others are, and a missing file is noticed. The
// price is that long-lived jobs are copied once for every equal amount of garbage.
//
// Space: the directory holds at most twice the size of the live jobs plus three segments and
// four of the largest records. Space is prepared before it is used, so the server detects a full
// disk before it accepts a job, and deletes still have room. Package space has the arithmetic.
//
// # Ownership
//
// Three goroutines run a log. The committer's makes commits; if a commit needs only a write, the
// goroutine that waits for it may make it (commit.Storage.CommitHere). The keeper's prepares
// segments, gives up old ones and measures the disk. With SyncEvery a third one syncs. Each part
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
// when copies must be durable. They cannot deadlock, because a keeper that waits still prepares
// segments for a starved committer (keeper.feedCommitter). Shards never wait: they append to
// memory.
//
// # Start
//
//	Recover ─► the cores, or Replays that stay open, hold what the files hold
//	Open    ─► there is a segment for new batches; the keeper prepares others
//	Lead    ─► commits are made, and old segments given up
//
// A server that follows another may be open for long before it leads: its leader decides what
// its segments hold.
//
// # One server of several
//
// With Options.Replicated several servers share the log, and agree on one order of entries. Each
// entry is a batch that begins with an Entry (package record). The number of a batch counts the
// batches in this machine's files; the index of its entry is the same on all servers. The
// goroutine that appends entries owns the current segment. A proposed batch stays pending in the
// Ledger until it is written here.
//
// The log is never truncated: an entry replaces all earlier entries with its index or a higher
// one, when entries are read (history) and found (entryIndex). So a crash leaves the files in no
// state that a server alone could not leave. Each batch contains the last entry that was known to
// be committed when it was written. A recovery applies the entries up to there, and leaves the
// rest to consensus. Without consensus the rest counts as committed too. A batch without an Entry
// was written by a server alone: it is the next entry, and committed.
//
// A segment is given up in two steps (lowering), and every server gives up its own. Once the
// leader's copies are committed, it proposes a Floor. Then a server with the committed Floor on
// its own disk does not need entries below it. A follower counts the live jobs at each Floor, so
// its directory keeps the bound too. A directory may be at its bound while a Floor is not yet
// committed; then a starved writer gets another segment all the same. A server that catches up
// may have written several Floors that it has not applied, and may exceed its bound by that.
//
// # What waits for what
//
// The preparer has no goroutine: the keeper runs it. Once the keeper has ended, the goroutine that
// makes a commit and needs a segment runs it. These are all waits, except for locks and timed
// pauses of the keeper:
//
//	what                 on                until                          woken by
//	keeper               its waker         there may be something to do   WAL.WakeKeeper, WakeIfTight; Writer.Rotate,
//	                                                                      Writer.awaitSpare; by itself every fullRetry
//	committer            Committer.Wake    a commit is to be made         commit.Log.Request, CommitHere; watermark.await; the keeper's timer
//	maker of a commit    segments.changed  the next segment is open       segments.add, preparer.openNext; the end of the keeper
//	keeper, Durable      segments.changed  a commit is committed          watermark.reach; WAL.Stop, which ends the waiting
//	appender of entries  like the maker of a commit above; that one then waits only in Proposer.Propose
//	the same keeper      segments.changed  the maker of a commit starves  Writer.awaitSpare; then the keeper serves it
//	syncEvery            Writer.dirty      something is not synced        Writer.End
//	sessions             Options.Notify    a commit is acked, or there    commit.gate
//	                                       may be room
//
// A waker holds one wake-up, so it may be woken before its goroutine waits. segments.changed is
// one condition variable for three conditions: it is always broadcast, and each waiter checks its
// own. A failure broadcasts as well, and ends all waiting for good.
//
// To request is to ask for a commit. To wake is to make a goroutine check for work. To notify is
// to tell sessions that they may continue. To tend is to do the keeper's work once.
//
// # A torn end
//
// If kill -9 or a power cut ends the process within a write, the last batch or several unsynced
// ones may be incomplete: a checksum is wrong, or a batch is missing. That is a torn end, and with
// SyncAlways no reply that depends on it was sent. The next start cuts it off. The history is the
// batches with successive numbers before it. Zeros overwrite the rest (adopt.go), and a log
// message reports it.
//
// It is a torn end only if no readable batch behind it says, in synced, that a missing batch was
// durable. Otherwise it is Damage, and the start fails (recovery.verdict in recovery.go). No batch
// can say so about the last batch, so damage to that one looks like a torn end.
//
// # Errors
//
// A failed write or sync is never retried: the kernel may have dropped the data that it could not
// write, and would then report success. The journal stops for good, acknowledges nothing more,
// and calls Committer.Fail.
//
// # Proof
//
// The next process runs on the same kernel. Pages that could not be written back are still in its
// page cache, where they count as clean: reads return them, no sync writes them, and at any moment
// the kernel may drop them and read the disk instead. So a recovery does not rely on what it can
// read, but on what is proven to be on the disk. It writes everything else again, byte for byte
// in its place, before anything is appended behind it.
//
// The proof of a batch is a later batch that says, in synced, that the first one was durable when
// the later one was written. It says so only after every file with a batch up to the first one
// was synced without an error, through descriptors that were opened before those batches were
// written; and Linux reports an error to each descriptor that was open at the time. The later
// batch need not be on the disk itself. So with SyncAlways at most the last commit is unproven,
// acknowledged or not. With SyncEvery it is what was written since the last sync but one, so
// within about twice Options.Every. With SyncNever it is up to unsyncedMax segments, since only
// compaction syncs. SyncNever's guarantee against a power cut is weaker. But a hole in unproven
// batches, before batches that claim to follow durable ones, would be damage under any policy.
// The last batch of a journal is never proven, so every start rewrites something.
//
// A power cut or a second error may interrupt the rewriting without harm: a sector holds its old
// bytes or the new ones, as after the first write, and no proven byte is changed. The next start
// does it again. The zeros behind the end are not proven either: a recovery that could not write
// them back may have left them in the page cache only. A stale batch there could one day follow a
// new one. So zeros are written again in the current segment, in rewritten segments, and in the
// first spare, where a torn end may have begun. If the bytes differ when they are read again to
// be rewritten, the start ends with an error; the next start finds what the disk has.
//
// A name is proven by a sync of the directory. A segment is used only after that, but a process
// may have ended between the two. So a recovery always begins with a sync of the directory. It
// also makes durable a removal that an earlier process did not complete.
//
// So with SyncAlways no acknowledged change is lost, after any sequence of failed flushes, ends of
// the process and power cuts. With the other policies the same holds except for changes that are
// acknowledged and not synced yet: a power cut may remove them from the end on, and so may a
// failed flush if the kernel drops the pages before the next start. There is no defence against a
// disk that falsely reports that it has written.
package wal
