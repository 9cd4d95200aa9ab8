package record

// The log of one server of several has three kinds of records besides. They concern no tube;
// their slot is zero.
//
//	Entry  index u64 | term u64 | commit u64 | kind u8 | a change of members
//	Floor  first index that is needed u64 | highest id u64 | imported u64
//	Epoch  node u64 | time i64 | format u32
//
// Each batch of such a journal is one entry of the log, and begins with an Entry. Nothing is
// ever cut off: an entry replaces every earlier one with its index or a higher one. So the end
// of a journal may hold entries that are not committed, and never will be.
const (
	EntrySize = headSize + 8 + 8 + 8 + 1
	FloorSize = headSize + 24
	EpochSize = headSize + 20

	// ChangeMax bounds the bytes of a change of members, which names a few of them.
	ChangeMax = 16 << 10

	// Format is what Epoch tells of this program: it has the kinds of records up to Epoch.
	Format = 1
)

// EntryKind says what an entry of a log is.
type EntryKind uint8

// The kinds of entries. They are numbered as raft's are.
const (
	Normal   EntryKind = iota // records, which follow in the batch; perhaps none
	Change                    // of members, in the first version of raft's message
	ChangeV2                  // of members, in the second
)

// An Entry says which entry of a log the batch is that begins with it.
type Entry struct {
	Index, Term uint64
	Commit      uint64 // no entry up to here is ever replaced
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

// parse decodes what follows the head, and reports whether it has the shape of an Entry. An
// unknown kind of entry is a newer version's.
func (h *Entry) parse(b []byte) bool {
	if len(b) < EntrySize-headSize {
		return false
	}
	*h = Entry{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), EntryKind(b[24]), b[25:]}
	return h.Index > 0 && h.Kind <= ChangeV2 && (h.Kind != Normal || len(h.Change) == 0) && len(h.Change) <= ChangeMax
}

// ParseEntry decodes the Entry with which the records of a batch begin, into h, and returns
// what follows it. It reports false if they begin with another record, or with none. h.Change
// aliases b, which a checksum vouches for.
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

// A Floor says that no entry before Index tells of anything that lives. Globals repeats what the
// States among them said.
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

// An Epoch says that another server writes the log from here on, or the same one after another
// start. Bodies that are in part there never become whole.
type Epoch struct {
	Node   uint64
	Time   int64  // when it began, by the clock of that server: nanoseconds since the Unix epoch
	Format uint32 // see Format
}

// Append appends an Epoch.
func (r *Epoch) Append(b []byte) []byte {
	b = head(b, EpochSize, KindEpoch, 0, 0)
	b = le.AppendUint64(b, r.Node)
	b = le.AppendUint64(b, uint64(r.Time))
	return le.AppendUint32(b, r.Format)
}

// parseCluster decodes what follows the head of an Entry, a Floor or an Epoch, and reports
// whether it has the shape of one.
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
