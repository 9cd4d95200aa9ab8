package wal

// What tests see besides; they are in a package of their own because package
// shard imports this one.

// DurableCommit is the last commit known to be durable, whatever the policy.
func (j *WAL) DurableCommit() uint64 {
	j.segments.mu.Lock()
	defer j.segments.mu.Unlock()
	return j.watermark.committed
}

// Pending is the bytes in Logs, about.
func (j *WAL) Pending() int64 { return j.ledger.Sums().Pending }

// End is where the next batch goes.
func (j *WAL) End() (segment uint64, at int64) { return j.segments.cur.number, j.segments.cur.at }

// Batches are the offsets of a segment's batches, and of their ends without the padding.
func Batches(number uint64, data []byte) (at [][2]int64) {
	h, _ := parseHeader(data)
	for b := range batches(data, headerSize, h.id, number) {
		at = append(at, [2]int64{b.offset, b.offset + BatchHead + int64(len(b.records))})
	}
	return at
}

// Redress gives the bytes of one segment the header of another.
func Redress(data []byte, number uint64) {
	h, _ := parseHeader(data)
	h.number = number
	copy(data, appendHeader(nil, &h))
}

// SetVersion writes a version into a header.
func SetVersion(data []byte, v uint32) { le.PutUint32(data[8:], v) }

// HeaderSize is where the first batch of a segment is.
const HeaderSize = headerSize

// Sync makes durable what is written, as the timer does.
func (j *WAL) Sync() error { return j.writer.sync() }

// SettleTold has the operator told of what he was to be told later.
func (j *WAL) SettleTold() {
	r := j.keeper.report
	r.at = r.at.Add(-saidEvery)
	r.tellSpace()
}

// Version is that in a header.
func Version(data []byte) uint32 { return le.Uint32(data[8:]) }

// SetFirst writes a header that says that the journal begins with a batch.
func SetFirst(data []byte, first uint64) {
	h, _ := parseHeader(data)
	h.first = first
	copy(data, appendHeader(nil, &h))
}
