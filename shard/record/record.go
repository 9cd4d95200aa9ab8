// Package record is the format of the journal's records, from which a shard's jobs can be restored.
// It only encodes and decodes; it knows no file (package wal) and no state machine (package core).
//
// A record starts with eight bytes; all numbers are little-endian:
//
//	length u32 | kind u8 | flags u8 | slot u16
//
// length is the size of the whole record. slot is the slot of the tube: a replay sends each record
// to the shard that owns the slot, even if the number of shards has changed. The rest depends on
// the kind:
//
//	Put     id u64 | created i64 | due i64 | pri, delay, ttr u32 | n u8 | tube | body
//	Copy    the same with state u8 | reserves … kicks 5 × u32 before n
//	Chunk   id u64 | a part of a body
//	Update  id u64 | due i64 | pri, delay u32 | state u8 | 5 × u32
//	Delete  id u64
//	Pause   until i64 | length i64 | tube
//	State   highest id u64 | imported u64
//
// Policies is in policy.go: a journal without policies has none.
// Entry, Floor and Epoch are in entry.go: the journal of a server alone has none.
//
// A Put or Copy with flagSubmitted is of a job that was submitted to a function, and not put.
// After n it continues with
//
//	high u8 | unique u8 | reducer u8 | how u8 | lost u32 | tube | unique | reducer | body
//
// where n and high are the low and the high byte of the length of tube, which may
// be any bytes or none. An Update with the flag ends with lost u32.
//
// A Put or Copy with FlagChunked has the body's length (u64) in place of the
// body; Chunks of the same job follow, perhaps with records of other jobs between
// them. The job does not exist before its last Chunk.
//
// Moments are nanoseconds since the Unix epoch, by the time of day when the record was made. due
// of a ready job is the moment since which it is ready, if that is known; a Put has none. due of
// a buried job is only for the order of burials, and never decreases, even if a clock is set back.
// Lengths of time are nanoseconds too; delay and ttr are seconds.
//
// The last record of a job counts; records of a job without a Put or Copy are ignored. A record
// describes the result of an operation, never the operation: so a replay needs nothing but records,
// and may begin with a Copy of each job. Package core explains why operations cannot be replayed.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind is the kind of a record.
type Kind uint8

// The kinds of records.
const (
	KindPut    Kind = iota + 1 // a new job
	KindCopy                   // a job in its current state
	KindChunk                  // a part of a large body
	KindUpdate                 // a job's new state, priority, delay and counters
	KindDelete                 // the end of a job
	KindPause                  // the pause of a tube, or (until 0) its end
	KindState                  // the Globals; starts every segment

	// Only in the log of one server of several; see Entry, Floor and Epoch. Their slot is zero.
	KindEntry // index and term of the entry; starts every batch
	KindFloor // the entries before an index are not needed
	KindEpoch // another server writes the log

	KindPolicies // the policies of all tubes; the core of slot zero records them
)

// FlagChunked marks a Put or Copy with a body that follows in Chunks.
const FlagChunked = 1 << 0

// flagSubmitted marks a record of a submitted job.
const flagSubmitted = 1 << 1

// The bits of how.
const (
	howByBody   = 1 << 0
	howJoinable = 1 << 1
)

// Job states as recorded. A reserved job is recorded as ready: reservations end with the process.
const (
	Ready   = 1
	Buried  = 3
	Delayed = 4
)

// Sizes in bytes.
const (
	headSize      = 8
	putSize       = headSize + 8 + 8 + 8 + 12 + 1
	copySize      = putSize + 1 + 20
	chunkSize     = headSize + 8
	submittedSize = 8 // added to a Put or Copy, without unique and reducer
	lostSize      = 4 // added to an Update
	UpdateSize    = headSize + 8 + 8 + 8 + 1 + 20
	DeleteSize    = headSize + 8
	pauseSize     = headSize + 16
	StateSize     = headSize + 16

	// ChunkMax is the maximum part of a body in one Chunk.
	ChunkMax = 64 << 10
	// MaxSize is the maximum size of a record: a body above ChunkMax is in Chunks.
	MaxSize = copySize + submittedSize + 1<<16 - 1 + 2*255 + ChunkMax
)

// A Job is the content of a Put or Copy.
type Job struct {
	ID              uint64
	Created         int64
	Due             int64 // delayed: when it becomes ready; buried or ready: since when; ready: zero if unknown
	Pri, Delay, TTR uint32
	State           uint8
	Counts          Counts
	Tube            []byte
	Submitted       *Submitted // nil: it was put
	Body            []byte
}

// Submitted is the additional part of a submitted job. Its slices are at most 255 bytes.
type Submitted struct {
	Unique, Reducer []byte
	ByBody          bool // submissions with the same body join it
	Joinable        bool // submissions can join it
	Lost            uint32
}

// Size returns how many bytes it adds to a Copy.
func (s *Submitted) Size() int { return submittedSize + len(s.Unique) + len(s.Reducer) }

// Counts are a job's counters.
type Counts struct {
	Reserves, Timeouts, Releases, Buries, Kicks uint32
}

// JobSize returns the size of a Copy of a job with its Chunks, in bytes. tube and body are the
// lengths of its tube's name and of its body.
func JobSize(tube, body int) int64 {
	n := int64(copySize + tube)
	if body <= ChunkMax {
		return n + int64(body)
	}
	return n + 8 + int64(body) + int64((body+ChunkMax-1)/ChunkMax)*chunkSize
}

// le is the byte order of all numbers.
var le = binary.LittleEndian

// head appends the eight bytes with which a record of n bytes begins.
func head(b []byte, n int, k Kind, flags uint8, slot uint16) []byte {
	b = le.AppendUint32(b, uint32(n))
	b = append(b, byte(k), flags)
	return le.AppendUint16(b, slot)
}

// fixed appends the beginning of every Put and Copy.
func (j *Job) fixed(b []byte) []byte {
	b = le.AppendUint64(b, j.ID)
	b = le.AppendUint64(b, uint64(j.Created))
	b = le.AppendUint64(b, uint64(j.Due))
	b = le.AppendUint32(b, j.Pri)
	b = le.AppendUint32(b, j.Delay)
	return le.AppendUint32(b, j.TTR)
}

// AppendPut appends a Put, or a Copy if j is buried or has counters. chunked is the
// length of a body that follows in Chunks; j.Body is empty then.
func (j *Job) AppendPut(b []byte, slot uint16, chunked int) []byte {
	kind, n := KindPut, putSize
	if j.State != Ready && j.State != Delayed || j.Counts != (Counts{}) {
		kind, n = KindCopy, copySize
	}
	flags := uint8(0)
	n += len(j.Tube) + len(j.Body)
	if chunked > 0 {
		flags = FlagChunked
		n += 8
	}
	if j.Submitted != nil {
		flags |= flagSubmitted
		n += j.Submitted.Size()
	}
	b = head(b, n, kind, flags, slot)
	if kind == KindPut && j.State == Ready {
		// In a Put, a due of zero means that the job is ready.
		due := j.Due
		j.Due = 0
		b = j.fixed(b)
		j.Due = due
	} else {
		b = j.fixed(b)
	}
	if kind == KindCopy {
		b = j.Counts.append(append(b, j.State))
	}
	b = append(b, byte(len(j.Tube)))
	if s := j.Submitted; s == nil {
		b = append(b, j.Tube...)
	} else {
		b = s.append(append(b, byte(len(j.Tube)>>8)), j.Tube)
	}
	if chunked > 0 {
		return le.AppendUint64(b, uint64(chunked))
	}
	return append(b, j.Body...)
}

// append appends the part of a submitted job's Put or Copy between n and the body.
func (s *Submitted) append(b, tube []byte) []byte {
	how := byte(0)
	if s.ByBody {
		how |= howByBody
	}
	if s.Joinable {
		how |= howJoinable
	}
	b = le.AppendUint32(append(b, byte(len(s.Unique)), byte(len(s.Reducer)), how), s.Lost)
	b = append(b, tube...)
	b = append(b, s.Unique...)
	return append(b, s.Reducer...)
}

// append appends the counters.
func (c *Counts) append(b []byte) []byte {
	b = le.AppendUint32(b, c.Reserves)
	b = le.AppendUint32(b, c.Timeouts)
	b = le.AppendUint32(b, c.Releases)
	b = le.AppendUint32(b, c.Buries)
	return le.AppendUint32(b, c.Kicks)
}

// LargestOf returns the size of the largest record of a job, in bytes. size is its JobSize, and
// body the size of its body.
func LargestOf(size int64, body int) int64 {
	if body > ChunkMax {
		return max(size-JobSize(0, body), chunkSize+ChunkMax)
	}
	return size
}

// AppendChunkHead appends the beginning of a Chunk of n bytes, which follow.
func AppendChunkHead(b []byte, slot uint16, id uint64, n int) []byte {
	return le.AppendUint64(head(b, chunkSize+n, KindChunk, 0, slot), id)
}

// appendUpdate appends j's ID, Due, Pri, Delay, State and Counts.
func (j *Job) appendUpdate(b []byte, slot uint16) []byte {
	size, flags := UpdateSize, uint8(0)
	if j.Submitted != nil {
		size, flags = UpdateSize+lostSize, flagSubmitted
	}
	b = head(b, size, KindUpdate, flags, slot)
	b = le.AppendUint64(b, j.ID)
	b = le.AppendUint64(b, uint64(j.Due))
	b = le.AppendUint32(b, j.Pri)
	b = le.AppendUint32(b, j.Delay)
	b = j.Counts.append(append(b, j.State))
	if j.Submitted != nil {
		b = le.AppendUint32(b, j.Submitted.Lost)
	}
	return b
}

// AppendDelete appends a Delete.
func AppendDelete(b []byte, slot uint16, id uint64) []byte {
	return le.AppendUint64(head(b, DeleteSize, KindDelete, 0, slot), id)
}

// PauseSize returns the size of a Pause. tube is the length of the tube's name, in bytes.
func PauseSize(tube int) int64 { return int64(pauseSize + tube) }

// appendPause appends a Pause of a tube for length until a moment, or its end (zero, zero).
func appendPause(b []byte, slot uint16, tube string, until, length int64) []byte {
	b = head(b, pauseSize+len(tube), KindPause, 0, slot)
	b = le.AppendUint64(b, uint64(until))
	b = le.AppendUint64(b, uint64(length))
	return append(b, tube...)
}

// Globals is the content of a State: facts about the whole journal.
type Globals struct {
	HighID   uint64 // no job has had a higher id
	Imported uint64 // number of the last imported file of beanstalkd; zero: none
}

// Append appends a State.
func (g *Globals) Append(b []byte) []byte {
	b = head(b, StateSize, KindState, 0, 0)
	b = le.AppendUint64(b, g.HighID)
	return le.AppendUint64(b, g.Imported)
}

// A Record is one decoded record; slices alias the input.
type Record struct {
	Kind     Kind
	Chunked  uint64 // length of the body that follows in Chunks; zero: none
	Slot     uint16
	Job      // ID of all that name a job; Body of a Chunk too; Tube of a Pause
	Until    int64
	Length   int64
	Globals  Globals
	Entry    *Entry   // of an Entry
	Floor    *Floor   // of a Floor
	Epoch    *Epoch   // of an Epoch
	Policies []Policy // of a Policies

	// Commit is not in the record. The reader of a journal sets it to the index of the entry.
	Commit uint64
}

// Errors of Parse.
var (
	errShort = errors.New("a record ends before it is complete")
	errShape = errors.New("a record has the wrong length for its kind")
)

// Parse decodes the record at the start of b into r and returns its length. A checksum has verified
// the bytes of a journal, so an error means a bug of the writer, or a record of a newer version.
func Parse(r *Record, b []byte) (n int, err error) {
	if len(b) < headSize {
		return 0, errShort
	}
	size := uint64(le.Uint32(b))
	if size < headSize || size > uint64(len(b)) {
		return 0, errShort
	}
	n = int(size)
	*r = Record{Kind: Kind(b[4]), Slot: le.Uint16(b[6:])}
	flags := b[5]
	b = b[headSize:n]
	if flags&^allowed(r.Kind) != 0 {
		return 0, fmt.Errorf("a record of kind %d has unknown flags %#x: it is from a newer version", r.Kind, flags)
	}
	ok := false
	switch r.Kind {
	case KindPut, KindCopy:
		ok = r.parseJob(b, flags)
	case KindChunk:
		if ok = len(b) >= chunkSize-headSize; ok {
			r.ID, r.Body = le.Uint64(b), b[8:]
		}
	case KindUpdate:
		if flags&flagSubmitted != 0 && len(b) == UpdateSize-headSize+lostSize {
			r.Submitted = &Submitted{Lost: le.Uint32(b[UpdateSize-headSize:])}
			b = b[:UpdateSize-headSize]
		}
		if ok = len(b) == UpdateSize-headSize && (flags == 0) == (r.Submitted == nil); ok {
			r.ID, r.Due = le.Uint64(b), int64(le.Uint64(b[8:]))
			r.Pri, r.Delay, r.Job.State = le.Uint32(b[16:]), le.Uint32(b[20:]), b[24]
			r.Counts.parse(b[25:])
			ok = knownState(r.Job.State)
		}
	case KindDelete:
		if ok = len(b) == DeleteSize-headSize; ok {
			r.ID = le.Uint64(b)
		}
	case KindPause:
		if ok = len(b) > pauseSize-headSize; ok {
			r.Until, r.Length, r.Tube = int64(le.Uint64(b)), int64(le.Uint64(b[8:])), b[16:]
		}
	case KindState:
		if ok = len(b) == StateSize-headSize; ok {
			r.Globals = Globals{le.Uint64(b), le.Uint64(b[8:])}
		}
	case KindEntry, KindFloor, KindEpoch:
		ok = r.parseCluster(b)
	case KindPolicies:
		var err error
		if r.Policies, err = parsePolicies(b); err != nil {
			return 0, err
		}
		ok = true
	default:
		return 0, fmt.Errorf("a record is of the unknown kind %d: it is from a newer version", r.Kind)
	}
	if !ok {
		return 0, errShape
	}
	return n, nil
}

// allowed are the flags that records of a kind may have.
func allowed(k Kind) uint8 {
	switch k {
	case KindPut, KindCopy:
		return FlagChunked | flagSubmitted
	case KindUpdate:
		return flagSubmitted
	}
	return 0
}

// parseJob decodes a Put or Copy after its head, and reports whether it is valid.
func (r *Record) parseJob(b []byte, flags uint8) bool {
	fixed := putSize - headSize
	if r.Kind == KindCopy {
		fixed = copySize - headSize
	}
	if len(b) < fixed {
		return false
	}
	r.ID = le.Uint64(b)
	r.Created, r.Due = int64(le.Uint64(b[8:])), int64(le.Uint64(b[16:]))
	r.Pri, r.Delay, r.TTR = le.Uint32(b[24:]), le.Uint32(b[28:]), le.Uint32(b[32:])
	r.Job.State = Ready
	if r.Kind == KindCopy {
		r.Job.State = b[36]
		r.Counts.parse(b[37:])
	} else if r.Due != 0 {
		r.Job.State = Delayed
	}
	name := int(b[fixed-1])
	b = b[fixed:]
	if r.ID == 0 || !knownState(r.Job.State) {
		return false
	}
	if flags&flagSubmitted != 0 {
		if len(b) < submittedSize {
			return false
		}
		name |= int(b[0]) << 8
		s := &Submitted{Lost: le.Uint32(b[4:]), ByBody: b[3]&howByBody != 0, Joinable: b[3]&howJoinable != 0}
		unique, reducer := int(b[1]), int(b[2])
		b = b[submittedSize:]
		if len(b) < name+unique+reducer {
			return false
		}
		r.Tube, b = b[:name], b[name:]
		s.Unique, s.Reducer = b[:unique], b[unique:unique+reducer]
		r.Submitted, r.Body = s, b[unique+reducer:]
	} else {
		if len(b) < name || name == 0 {
			return false
		}
		r.Tube, r.Body = b[:name], b[name:]
	}
	if flags&FlagChunked != 0 {
		if len(r.Body) != 8 {
			return false
		}
		r.Chunked, r.Body = le.Uint64(r.Body), nil
		return r.Chunked > 0
	}
	return true
}

// parse decodes the counters; b must hold all of them.
func (c *Counts) parse(b []byte) {
	c.Reserves, c.Timeouts, c.Releases = le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])
	c.Buries, c.Kicks = le.Uint32(b[12:]), le.Uint32(b[16:])
}

// knownState reports whether a job may be recorded in that state.
func knownState(s uint8) bool { return s == Ready || s == Buried || s == Delayed }

// Len is the length of the record at the start of b, which must hold a head.
func Len(b []byte) int { return int(le.Uint32(b)) }

// KindOf is the kind of the record at the start of b, which must hold a head that Parse would
// accept, or that a checksum has verified.
func KindOf(b []byte) Kind { return Kind(b[4]) }

// HasSlot reports whether records of the kind belong to a slot, and so to one shard. The others are
// at the beginning of a batch.
func (k Kind) HasSlot() bool { return k < KindState || k == KindPolicies }

// IDOf is the id of a record that names a job; see KindOf.
func IDOf(b []byte) uint64 { return le.Uint64(b[headSize:]) }

// SlotOf is the slot of the record at the start of b; see KindOf.
func SlotOf(b []byte) uint16 { return le.Uint16(b[6:]) }
