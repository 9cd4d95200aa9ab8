package binlog

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Contents are the live jobs of a log.
type Contents struct {
	Files     int
	Records   int64
	BodyBytes int64 // of all live jobs together, without CR LF
	// HighestID is the highest id of any record, 0 if there is none: all ids up to it were used.
	HighestID uint64
	// Damages are the damages that were skipped, in order: torn ends of files,
	// and with Salvage all others.
	Damages []damage

	paths []string
	jobs  []*entry // by order
}

// An entry is a live job with the place of its body.
type entry struct {
	job      Job // no Body
	order    int64
	bodyAt   int64
	bodySize int64 // with CR LF
	file     int   // index in paths
	format   *format
}

// Options configures how a log is read.
type Options struct {
	// Salvage continues after damage, at the next bytes that look like a record. A lost record may
	// have been a delete: so jobs can come back, or be in an older state.
	Salvage bool
}

// ReadDir replays the log in dir as beanstalkd does at its start. The caller must hold the
// directory's lock (see Lock) while it uses the Contents, since the bodies stay in the files.
// Damage is an error of type damage, unless opt.Salvage is set. A file that cannot be read is always
// an error.
func ReadDir(dir string, opt Options) (*Contents, error) {
	files, err := Files(dir)
	if err != nil {
		return nil, err
	}
	r := replay{live: make(map[uint64]*entry), tubes: make(map[string]string), salvage: opt.Salvage}
	var buf []byte
	for i, f := range files {
		s, err := openSource(f.Path, buf)
		if err != nil {
			return nil, err
		}
		err = r.file(&scanner{source: s}, i)
		buf = s.close()
		if err != nil {
			return nil, err
		}
		r.paths = append(r.paths, f.Path)
	}
	r.Files = len(files)
	r.jobs = make([]*entry, 0, len(r.live))
	for _, e := range r.live { // sorted below
		r.jobs = append(r.jobs, e)
		r.BodyBytes += e.bodySize - 2
	}
	slices.SortFunc(r.jobs, func(a, b *entry) int { return cmp.Compare(a.order, b.order) })
	return &r.Contents, nil
}

// Len returns the number of live jobs.
func (c *Contents) Len() int { return len(c.jobs) }

// Jobs yields the live jobs in the order of their first full records, in which beanstalkd restores
// them, including buried ones. alloc returns memory for a Body of a size in bytes; nil: new memory,
// which the caller owns. An error ends the sequence: a file vanished, could not be read, or
// changed since ReadDir. Jobs may be called again.
func (c *Contents) Jobs(alloc func(size int) []byte) iter.Seq2[Job, error] {
	if alloc == nil {
		alloc = func(size int) []byte { return make([]byte, size) }
	}
	return func(yield func(Job, error) bool) {
		s, file := &source{}, -1
		defer func() { s.close() }()
		for _, e := range c.jobs {
			if e.file != file {
				next, err := openSource(c.paths[e.file], s.close())
				if err != nil {
					yield(Job{}, err)
					return
				}
				s, file = next, e.file
			}
			job := e.job
			var err error
			if job.Body, err = e.body(s, alloc); err != nil {
				yield(Job{}, err)
				return
			}
			if !yield(job, nil) {
				return
			}
		}
	}
}

// body reads the entry's body, and checks that its record is still there.
func (e *entry) body(s *source, alloc func(int) []byte) ([]byte, error) {
	end := e.bodyAt + e.bodySize
	changed := end > s.size
	if !changed {
		r, bad := e.format.decode(s.at(e.bodyAt-e.format.recSize, e.format.recSize))
		changed = bad != "" || r.job.ID != e.job.ID || r.bodySize != e.bodySize || string(s.at(end-2, 2)) != "\r\n"
	}
	if s.err == nil && changed {
		return nil, fmt.Errorf("%s changed while it was read: job %d is no longer at offset %d", s.path, e.job.ID, e.bodyAt)
	}
	if s.err != nil {
		return nil, s.err
	}
	b := alloc(int(e.bodySize - 2))
	s.read(b, e.bodyAt)
	return b, s.err
}

// A State is a job's state in a log, with the number that it has there. A reserved job (2) is read
// as Ready.
type State uint8

const (
	Ready   State = 1
	Buried  State = 3
	Delayed State = 4
)

// States that only records have.
const (
	stateDeleted  = 0
	stateReserved = 2
)

func (s State) String() string {
	switch s {
	case Ready:
		return "ready"
	case Buried:
		return "buried"
	case Delayed:
		return "delayed"
	}
	return "unknown"
}

// A Job is one job with everything that beanstalkd keeps of it across a restart.
type Job struct {
	ID       uint64 // from 1
	Tube     string
	Pri      uint32
	State    State
	Delay    time.Duration // the last one that a client has set
	TTR      time.Duration
	Created  int64 // Unix ns
	Deadline int64 // Unix ns, when a delayed job becomes ready, perhaps long ago; else 0

	// Counters. beanstalkd adds one to Buries when it reads a buried job; here it is the number in
	// the log.
	Reserves, Timeouts, Releases, Buries, Kicks uint32

	Body []byte // without the CR LF that follows it on disk
}
