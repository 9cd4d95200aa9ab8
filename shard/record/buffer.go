package record

// A Buffer collects the records of one core until a commit takes them. The core appends; a Log
// (package commit) decides when a commit empties it.
type Buffer struct {
	// Data holds the records without the bodies in Refs.
	Data []byte
	// Refs are parts of large bodies, in order: each must be inserted before Data[At:]. They are
	// not copied, since they never change.
	Refs []Ref

	// Ahead is the time of day minus the core's time, in nanoseconds: records contain the time
	// of day.
	Ahead int64

	// Commit is the number of the commit that makes records appended now durable, or a higher one.
	Commit uint64
	// Tight says that there is only room for records that free space: a record of a change that
	// no command has asked for is left out. Full says that the disk is full: then a record that a
	// command can do without is left out too.
	Tight, Full bool
	// Live is the size of a Copy of each live job, in bytes, and Jobs their number. No job has had
	// an id above HighID.
	Live   int64
	Jobs   int64
	HighID uint64
	// Largest is the size of the largest record of a job so far, in bytes.
	Largest int64
	// Pauses is the size of the records that will end all current pauses, and of the current set of
	// policies, in bytes.
	Pauses int64
	// Records counts the appended records.
	Records uint64
}

// A Ref is a part of a body.
type Ref struct {
	At    int
	Piece []byte
}

// Put appends a job. Its body is in pieces, or in j.Body if there are no pieces.
func (b *Buffer) Put(j *Job, slot uint16, pieces [][]byte) {
	b.Records++
	if len(pieces) == 0 {
		b.Data = j.AppendPut(b.Data, slot, 0)
		return
	}
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	b.Data = j.AppendPut(b.Data, slot, size)
	for _, p := range pieces {
		for len(p) > 0 {
			n := min(len(p), ChunkMax)
			b.Data = AppendChunkHead(b.Data, slot, j.ID, n)
			b.Refs = append(b.Refs, Ref{len(b.Data), p[:n]})
			p = p[n:]
		}
	}
}

// Update appends a job's new state.
func (b *Buffer) Update(j *Job, slot uint16) {
	b.Records++
	b.Data = j.appendUpdate(b.Data, slot)
}

// Delete appends a job's end.
func (b *Buffer) Delete(id uint64, slot uint16) {
	b.Records++
	b.Data = AppendDelete(b.Data, slot, id)
}

// Pause appends a tube's pause.
func (b *Buffer) Pause(tube string, slot uint16, until, length int64) {
	b.Records++
	b.Data = appendPause(b.Data, slot, tube, until, length)
}

// Policies appends a set of policies.
func (b *Buffer) Policies(set []Policy) {
	b.Records++
	b.Data = AppendPolicies(b.Data, set)
}

// Next cuts the first record off data and refs, which come from a Buffer; base bytes of its Data
// were cut off before. ref is the part of a body at the end of the record, or nil.
func Next(data []byte, refs []Ref, base int) (rec, ref []byte, restData []byte, restRefs []Ref) {
	n := Len(data)
	if len(refs) > 0 && data[4] == byte(KindChunk) && refs[0].At == base+chunkSize {
		return data[:chunkSize], refs[0].Piece, data[chunkSize:], refs[1:]
	}
	return data[:n], nil, data[n:], refs
}
