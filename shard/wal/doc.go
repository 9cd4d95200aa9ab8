// Package wal keeps jobs across the end of the process: it is a commit.Storage
// of files. The cores of all shards append records (package record) to Logs, one
// committer (package commit) has them written to one sequence of segment files and
// made durable, and who waits for that is told.
//
//	core ─► Log ┐
//	core ─► Log ┼─► committer: one write, one fdatasync ─► Acked, Notify
//	core ─► Log ┘        │
//	                   stager: records become batches, with numbers
//	                     │
//	                   writer
//	                     ▼
//	   [segment 7][segment 8][segment 9 ···|   ][segment 10, empty]
//	        ▲                                        ▲
//	        └──── keeper: copies what lives in the oldest to the end,
//	              uses its file again for the next one
//
// One journal serves all shards, because an fdatasync costs the same for one
// record and for a thousand. Commits are numbered; a reply that depends on
// a commit leaves once Acked has reached its number.
//
// Segments are given up from the oldest on, never from the middle. So what is
// on disk is always the end of the history: a Delete is never gone before the
// Put that it ends, no record needs to know where others are, and a missing
// file is a gap that shows. The price is that long-lived jobs are copied once
// for as many bytes of garbage as there are of them.
//
// Space: the directory holds at most twice the size of the live jobs plus three
// segments and four of the largest records. Space is prepared before it is used,
// so a disk that is full shows before a job is accepted, in Pressure, and a delete
// still finds room. How that adds up stands in package space.
//
// # Who does what
//
// Three goroutines run a journal. The committer's makes commits when it is woken; where
// a commit is only a write, who waits for it may make it instead (commit.Committer). The
// keeper's prepares segments, gives up old ones and measures the disk. With SyncEvery a
// third one syncs. What they share is little, and each thing has one owner:
//
//	commit.Committer   the order of commits, Acked, Pressure; anyone reads those
//	stager             batches until they are written; who makes a commit
//	writer             the current segment, what is synced; who makes a commit, and who syncs
//	watermark          up to where commits are committed; those two and the keeper, with a lock
//	segments           the lists of files, with a lock
//	preparer, keeper   spare files, compaction, the quota; the keeper
//	space.Ledger       how much there is and whose it is; anyone, by atomic counters
//	gate               Pressure, as the Ledger has it, and who is notified of it
//	report             what the operator was told
//	Entries            where the entries of a log are, and the newest of them; anyone, with a lock
//	Pin                which segments somebody reads, who waits for nobody; with segments' lock
//
// The committer may wait for the keeper, when no segment is prepared, and the keeper for
// the committer, when copies are to be durable. So that they never wait for each other,
// the keeper serves a starved committer while it waits (keeper.feedCommitter). Shards never
// wait: they append to memory.
//
// # What begins when
//
//	Recover ─► what the files hold is in the cores, or in Replays that stay open
//	Open    ─► there is a segment to go on in; the keeper has others ready, and no more
//	Lead    ─► commits are made, and old segments given up
//
// A journal whose server follows another may be open for long before it leads: what its
// segments hold is not for it to decide then. Start is Open and Lead in a row.
//
// # What is local
//
// The stager knows neither segments nor disks. It asks its sequencer how large the next batch
// may be, gives batches to it in their order, and has it end commits: the writer, whose room
// is that of the current segment, so that space is counted while segments are filled. The log
// that several machines keep has another sequencer, with room that depends on no
// segment, so that a batch is the same on all of them. Likewise compaction does not wait for a
// sync, but for the watermark.
//
// # One of several
//
// With Options.Proposer a journal is the log of a server that is one of several, who agree on
// one order of entries. What agrees on it is not here: it is given what is to be committed, by
// the Proposer, and comes back with entries to write, in Entries, which are its own and those of
// others. Each entry is a batch that begins with an Entry (package record). A batch's own number
// counts what is in this machine's files; the index of its entry is everybody's.
//
//	Logs ─► committer ─► stager ─► proposing ─► Proposer ◄─► the others
//	                                               │
//	                     Journal.Committed ◄───────┴─► Entries.Append, Sync ─► writer
//
// Nothing is ever cut off: an entry takes the place of all earlier ones with its index or a
// higher one, as those are read (history) and found (package index). So there is no state of
// the files between two that a crash could leave, beyond those of a journal that is one
// server's alone. A batch says up to where entries were known to be committed when it was
// written. A recovery applies what that proves, and leaves the rest to whoever agrees; without a
// Proposer the rest counts as committed too, since nobody else can know better. A batch without
// an Entry is of a server that was alone: the entry behind the one before, and committed.
//
// The committer does not write then. Whoever appends entries does, and has the current segment
// for himself. What was proposed stays pending in the Ledger until it is written here.
//
// A segment is given up in two steps (lowering), so that every machine does it with its own
// segments: once the leader's copies are committed, it proposes a Floor; and nobody needs what
// is below one that is committed, and is on his own disk. Whoever follows looks at what lives
// each time, so that his directory keeps the bound as well; where it is held by a Floor that is
// on its way, who must write gets another segment all the same, as without a leader. That is so
// for who catches up: there may be several Floors in what it has written and not applied yet,
// which is what it may have beyond its bound.
//
// # Who waits for what
//
// The preparer has no goroutine: its work is done by the keeper's, or, when that has ended,
// by who makes a commit and needs a segment. Locks, and pauses of the keeper that end by
// themselves, aside, these are all that wait:
//
//	who                 on                until                          is woken by
//	keeper              its waker         there may be something to do   Journal.acked, Fits, Claim, Release; writer.rotate,
//	                                                                     writer.awaitSpare; by itself every fullRetry
//	committer           Committer.wake    a commit is to be made         Committer.Request, CommitHere; watermark.await; the keeper's timer
//	who makes a commit  segments.changed  the next segment is open       segments.add, preparer.openNext; the end of the keeper
//	keeper, Durable     segments.changed  a commit is committed          watermark.reach; Journal.Close, which ends the waiting
//	who appends entries as who makes a commit, who waits for no segment then, but in Proposer.Propose
//	the same keeper     segments.changed  who makes a commit is starved  writer.awaitSpare; then the keeper serves it
//	syncEvery           writer.dirty      something is not synced        writer.end
//	sessions            Options.Notify    a commit is acked, or there    gate.notifyAcked, gate.notify
//	                                      may be room
//
// A waker holds one wake-up, so it may be woken before it waits. segments.changed is one
// condition variable for three conditions: it is always broadcast, and who is woken looks
// whether its own has come. A failure of the journal broadcasts as well, and ends all
// waiting for good.
//
// To request is to see to it that a commit is made. To wake is to have a goroutine look. To
// notify is to tell sessions that they may go on. To tend is to do the keeper's work once.
//
// # A torn end
//
// A process that ends within a write, by kill -9 or a power cut, leaves the last batch, or
// several that were not synced, in part: a checksum does not hold, or of several one is
// missing. That is a torn end, and with SyncAlways no reply that depends on it has left. The
// next start cuts it off: the batches before it, which follow on each other by number, are
// the history, what follows is overwritten with zeros (adopt.go), and the log says so.
//
// It is one only if no batch that can still be read behind it says, in synced, that what is
// missing was durable. If one does, that is Damage, and stops the start (recovery.verdict in
// recover.go). Nobody says so of the last batch: damage to that looks like a torn end.
//
// # Errors
//
// After an error of a write or a sync nothing is tried again, since the kernel
// may have dropped what it could not write and would report success: the
// journal stops for good, acknowledges nothing more, and says so to Fail.
//
// # Proof
//
// The process that starts next meets the same kernel. What could not be written
// back is still in memory, where it counts as clean: it is read, no sync will
// write it, and at any moment it may be forgotten and what the disk has be read
// instead. So a recovery asks not what it can read but what is proven to be on
// the disk, and it brings everything else there, by writing it again, byte for
// byte to where it is, before anything is appended behind it.
//
// The proof of a batch is a later one that says, in synced, that it was durable
// when that one was written. That is so only after every file with a batch up to
// it was synced without an error, through descriptors that were opened before
// those batches were written, and Linux tells each descriptor of an error of its
// time. It does not matter whether the later batch is itself on the disk. So with
// SyncAlways not more than the last commit is unproven, which may have been
// acknowledged or not; with SyncEvery what was written since the last sync but
// one, so within about twice Options.Every; with SyncNever up to unsyncedMax
// segments, since nothing is synced but for compaction: their guarantee is weaker
// against a power cut, but a hole in what is not proven, with batches behind it
// that claim to follow on what is durable, would be damage under any policy. The
// last batch of a journal is never proven, so no start is without this.
//
// To write the same bytes again harms nothing if it is interrupted, by a power
// cut or a second error: a sector holds its old bytes or the new ones, as after the
// first try, and no proven byte is changed. It is begun again by the next start.
// Nor can what follows the end be trusted to be the zeros it is read as, since
// they may be those of a recovery that could not write them back either: a stale
// batch there would one day follow on a new one. They are written again in the
// current segment, in those that are written again, and in the first spare, where
// a torn end may have begun. Bytes that are not the same when they are read again
// to be written end the start with an error; the next one finds what the disk has.
//
// A name is proven by a sync of the directory. A segment is used only after that,
// but a process may have ended between the two. So a recovery begins with a sync
// of the directory, whatever it finds there; a removal that a process before did
// not see through is as durable after that as a segment's name.
//
// What can be relied on is then, with SyncAlways, everything acknowledged,
// whatever number of failed flushes, ends of the process and power cuts follow on
// each other; with the others the same but for what is acknowledged and not yet
// synced, which a power cut may take from the end on, and which a failed flush
// may take if memory is wanted elsewhere before the next start. It is not
// defended against a disk that says it has written what it has not.
package wal
