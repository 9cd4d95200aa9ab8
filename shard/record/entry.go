package record

// The log of one server of several has three further kinds of records. They concern no tube;
// their slot is zero.
//
//	Entry  index u64 | term u64 | commit u64 | kind u8 | a membership change
//	Floor  first needed index u64 | highest id u64 | imported u64
//	Epoch  node u64 | time i64 | format u32
//
// Each batch of such a journal is one entry of the log, and begins with an Entry. The log is never
// truncated: an entry replaces every earlier one with its index or a higher one. So the end of a
// journal may hold entries that are not committed, and never will be.
const (
	EntrySize = headSize + 8 + 8 + 8 + 1
	FloorSize = headSize + 24
	EpochSize = headSize + 20

	// ChangeMax is the maximum size of a membership change, in bytes.
	ChangeMax = 16 << 10

	// Format is the Format of this program's Epochs: it knows the kinds of records up to Epoch.
	Format = 1
)

// EntryKind is the kind of an entry.
type EntryKind uint8

// The kinds of entries, with the numbers that raft uses.
const (
	Normal   EntryKind = iota // records, which follow in the batch; perhaps none
	Change                    // a membership change, in the first version of raft's message
	ChangeV2                  // a membership change, in the second version
)

// An Entry is the first record of a batch: it says which entry of the log the batch is.
type Entry struct {
	Index, Term uint64
	Commit      uint64 // no entry up to here will be replaced
	Kind        EntryKind
	Change      []byte // the message of a change; empty for Normal
}

// Append appends an Entry.
func (h *Entry) Append(b []byte) []byte {
	b = head(b, EntrySize+len(h.Change), KindEntry, 0, 0)
	b = le.AppendUint64(b, h.Index)
	b = le.AppendUint64(b, h.Term)
	b = le.AppendUint64(b, h.Commit)
	return append(append(b, byte(h.Kind)), h.Change...)
}

// parse decodes an Entry after its head, and reports whether it is valid. An unknown EntryKind
// comes from a newer version.
func (h *Entry) parse(b []byte) bool {
	if len(b) < EntrySize-headSize {
		return false
	}
	*h = Entry{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), EntryKind(b[24]), b[25:]}
	return h.Index > 0 && h.Kind <= ChangeV2 && (h.Kind != Normal || len(h.Change) == 0) && len(h.Change) <= ChangeMax
}

// ParseEntry decodes the Entry at the beginning of a batch's records into h, and returns the
// records after it. It reports false if there is no Entry. h.Change aliases b, which a checksum
// must have verified.
func ParseEntry(h *Entry, b []byte) (rest []byte, ok bool) {
	if len(b) < EntrySize || KindOf(b) != KindEntry {
		return b, false
	}
	n := Len(b)
	if n < EntrySize || n > len(b) || b[5] != 0 || !h.parse(b[headSize:n]) {
		return b, false
	}
	return b[n:], true
}

// A Floor says that no entry before Index is about a live job or a current pause. Globals repeats
// the Globals of those entries.
type Floor struct {
	Index uint64
	Globals
}

// Append appends a Floor.
func (f *Floor) Append(b []byte) []byte {
	b = head(b, FloorSize, KindFloor, 0, 0)
	b = le.AppendUint64(b, f.Index)
	b = le.AppendUint64(b, f.HighID)
	return le.AppendUint64(b, f.Imported)
}

// An Epoch says that another server writes the log from here on, or the same one after a restart.
// Bodies that are incomplete there stay incomplete.
type Epoch struct {
	Node   uint64
	Time   int64  // its beginning, by the clock of that server: nanoseconds since the Unix epoch
	Format uint32 // see Format
}

// Append appends an Epoch.
func (r *Epoch) Append(b []byte) []byte {
	b = head(b, EpochSize, KindEpoch, 0, 0)
	b = le.AppendUint64(b, r.Node)
	b = le.AppendUint64(b, uint64(r.Time))
	return le.AppendUint32(b, r.Format)
}

// parseCluster decodes an Entry, a Floor or an Epoch after its head, and reports whether it is
// valid.
func (r *Record) parseCluster(b []byte) bool {
	switch r.Kind {
	case KindEntry:
		r.Entry = new(Entry)
		return r.Entry.parse(b)
	case KindFloor:
		if len(b) != FloorSize-headSize {
			return false
		}
		r.Floor = &Floor{le.Uint64(b), Globals{le.Uint64(b[8:]), le.Uint64(b[16:])}}
	case KindEpoch:
		if len(b) != EpochSize-headSize {
			return false
		}
		r.Epoch = &Epoch{le.Uint64(b), int64(le.Uint64(b[8:])), le.Uint32(b[16:])}
	}
	return true
}
