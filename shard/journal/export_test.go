package journal

// What tests see besides; they are in a package of their own because package
// shard imports this one.

// Begun is the number of the last commit begun.
func (j *Journal) Begun() uint64 { return j.begun.Load() }

// DurableCommit is the last commit known to be durable, whatever the policy.
func (j *Journal) DurableCommit() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.durable
}

// Idle reports whether no log waits to be written.
func (j *Journal) Idle() bool { return j.queue.Load() == nil }

// Pending is the bytes in Logs, about.
func (j *Journal) Pending() int64 { return j.pending.Load() }

// SegmentName is the name of a segment's file.
func SegmentName(number uint64) string { return segmentName(number) }

// End is where the next batch goes.
func (j *Journal) End() (segment uint64, at int64) { return j.cur.number, j.cur.at }

// Batches are the offsets of a segment's batches, and of their ends without
// the padding.
func Batches(number uint64, data []byte) (at [][2]int64) {
	id, _, _, _ := parseHeader(data)
	for off := int64(headerSize); ; {
		b, ok := batchAt(data, off, id, number)
		if !ok {
			return at
		}
		at = append(at, [2]int64{off, off + batchHead + int64(len(b.records))})
		off += int64(b.size)
	}
}

// Redress gives the bytes of one segment the header of another.
func Redress(data []byte, number uint64) {
	id, _, created, _ := parseHeader(data)
	copy(data, appendHeader(nil, id, number, created))
}

// SetVersion writes a version into a header.
func SetVersion(data []byte, v uint32) { le.PutUint32(data[8:], v) }

// HeaderSize is where the first batch of a segment is.
const HeaderSize = headerSize

// Sync makes durable what is written, as the timer does.
func (j *Journal) Sync() error { return j.sync() }

// SettleTold has the log told of what it was to be told later.
func SettleTold(j *Journal) {
	j.told.at = j.told.at.Add(-tellEvery)
	j.tellSpace()
}
