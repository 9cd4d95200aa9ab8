package commit

import (
	"errors"

	"polystalk/shard/record"
	"polystalk/shard/wal"
	"polystalk/shard/wal/space"
)

// Options configures a Journal.
type Options struct {
	wal.Options
	Shards int

	// Notify is called when Acked or Pressure has changed, by the goroutines of the storage.
	// It must not block.
	Notify func()
	// Fail is called once, with the error that has ended the storage.
	Fail func(*Failure)

	// Proposer makes the journal the log of one server of several, with the number Node.
	// Nil: the server is alone.
	Proposer Proposer
	Node     uint64
}

// A Journal is the Storage of one directory. It makes commits; a sequencer orders and stores them:
// the wal.Writer of a server that is alone, or a Proposer. Recover, Open and Lead come first, in
// this order.
//
//	committer  numbers commits: passes records from the Logs to the stager, acknowledges
//	stager     puts records into numbered batches, and gives those to the sequencer
//	gate       tells shards and sessions when there is no space
//	WAL        stores batches, and gives up old ones
type Journal struct {
	*wal.WAL
	*committer
	*gate
	opts   Options
	ledger *space.Ledger
	stager *stager

	leading bool
	quit    chan struct{} // closed to end the committer's goroutine
	ended   chan struct{} // closed once it has ended
}

var _ Storage = (*Journal)(nil)

// ProposeFloor adds a Floor at index to the next commit. The WAL calls it.
func (j *Journal) ProposeFloor(index uint64) { j.stager.floor.Store(index) }

// Learn applies a Floor of another server, and updates the sums of live jobs. The WAL calls it.
func (j *Journal) Learn(f *record.Floor) {
	j.stager.raise(&f.Globals)
	j.stager.count(j.logs)
}

// New returns a Journal. Call Recover next, then Open and Lead, or Start.
func New(o Options) *Journal {
	o.Replicated = o.Proposer != nil
	j := &Journal{opts: o, gate: &gate{tell: o.Notify}, stager: &stager{}, quit: make(chan struct{}), ended: make(chan struct{})}
	size := max(o.SegmentSize, wal.SegmentMin)
	j.committer = newCommitter(committerOptions{
		sink: j.stager, logs: o.Shards, step: appendStep(size, o.Shards),
		here: !o.Replicated && o.Sync != wal.SyncAlways && !o.Manual, prompt: j.prompt,
		appended: j.appended, acked: j.acked, failed: j.failed,
	})
	j.WAL = wal.New(o.Options, j)
	j.ledger = j.Ledger()
	j.gate.ledger, j.gate.committer, j.stager.ledger = j.ledger, j.committer, j.ledger
	j.stager.to = j.Writer()
	if o.Replicated {
		j.stager.to = &replicated{o.Proposer, j.ledger}
	}
	if o.First > 1 {
		j.resume(o.First-1, o.First-1) // Recover of an existing journal replaces this
	}
	return j
}

// appendStep is how many bytes a Log collects before it adds them to the Ledger, which all shards
// share. All bytes that are not added yet are a small part of a segment.
func appendStep(segment int64, shards int) int {
	return min(16<<10, int(segment)/16/max(shards, 1))
}

// prompt implements committerOptions.prompt. The Logs must fit into the segments that are open:
// only the committer's goroutine may wait for a segment, and the caller may be the keeper.
func (j *Journal) prompt() bool {
	size := max(j.opts.SegmentSize, wal.SegmentMin)
	unknown := size/16 + int64(j.opts.Shards*appendStep(size, j.opts.Shards))
	return j.Writer().Prompt(j.ledger.Sums().Pending + unknown)
}

// appended implements committerOptions.appended.
func (j *Journal) appended(n int64) {
	j.ledger.Append(n)
	j.tightenPressure()
}

// acked implements committerOptions.acked.
func (j *Journal) acked() {
	j.UpdatePressure()
	j.notifyAcked()
	j.WakeIfTight()
}

// failed implements committerOptions.failed.
func (j *Journal) failed(f *Failure) {
	j.Interrupt()
	if j.opts.Fail != nil && !errors.Is(f, ErrStopped) {
		j.opts.Fail(f)
	}
}

// Log returns the log of shard i.
func (j *Journal) Log(i int) *Log { return j.logs[i] }

// Notified implements Storage.
func (j *Journal) Notified() uint64 { return j.notified.Load() }

// Here implements Storage.
func (j *Journal) Here() bool { return j.committer.opts.here }

// HighID returns the highest id that a job has had.
func (j *Journal) HighID() uint64 { return j.stager.highestID() }

// RaiseID prevents that ids up to n are given to new jobs. Call it before Lead.
func (j *Journal) RaiseID(n uint64) { j.stager.globals.HighID = max(j.stager.globals.HighID, n) }

// Imported returns the number of the last imported binlog file of beanstalkd.
func (j *Journal) Imported() uint64 { return j.stager.globals.Imported }

// SetImported records that binlog file n was imported, and waits until that is durable. The Logs
// must have the jobs of the file.
func (j *Journal) SetImported(n uint64) error {
	first := uint64(0)
	if e := j.Entries(); e != nil {
		first = max(1, e.First())
	}
	j.exclude(func() { j.stager.setImported(n, first) })
	return j.Durable()
}

// Recover reads the journal; see wal.WAL.Recover. Numbers of commits continue after the indexes
// of the entries that were read: the Commit of a recovered record is the index of its entry, which
// is the same on all servers.
func (j *Journal) Recover(p wal.Replayer) (*wal.Recovered, error) {
	r, err := j.WAL.Recover(p)
	if err == nil && r.Segments > 0 {
		j.stager.globals, j.stager.headed = r.Globals, r.Headed
		j.resume(r.LastBatch, r.LastCommit)
	}
	return r, err
}

// resume continues the numbers of commits and batches after the last ones.
func (j *Journal) resume(batch, commit uint64) {
	j.stager.resume(batch)
	j.committer.resume(commit)
}

// Start is Open and Lead, for a server that follows no other. After an error the Journal is closed.
func (j *Journal) Start() error {
	err := j.Open()
	if err == nil {
		err = j.Lead()
	}
	if err != nil {
		j.Close() // there is nothing to write, so ignore its error
	}
	return err
}

// Lead begins to commit the Logs and to give up old segments. The cores must have been replayed.
func (j *Journal) Lead() error {
	j.stager.count(j.logs)
	switch {
	case j.Entries() != nil:
		j.leadEntries()
	case j.AtBeginning():
		j.stager.stageGlobals() // the highest id is known only now
	}
	if err := j.WAL.Lead(); err != nil {
		return err
	}
	j.leading = true
	if !j.opts.Manual {
		go func() {
			defer close(j.ended)
			j.committer.serve(j.quit)
		}()
	}
	return nil
}

// Close makes a last commit, if the server is alone and leads, makes it durable unless the
// policy is SyncNever, and closes the files. Nothing may be appended any more. One server of
// several cannot commit here: to hand over without loss, call Durable before.
func (j *Journal) Close() error {
	if !j.opts.Manual {
		close(j.quit)
	}
	j.Stop()
	if j.leading && !j.opts.Manual {
		<-j.ended
	}
	err := j.Err()
	if err == nil && j.leading && j.Entries() == nil {
		err = j.Commit()
	}
	return errors.Join(err, j.WAL.Close(err == nil))
}

// Stats implements Storage.
func (j *Journal) Stats() Stats {
	return Stats{Stats: j.WAL.Stats(), Records: j.stager.records.Load(), Commits: j.Acked(), Sizes: j.stager.sizes.Read()}
}
