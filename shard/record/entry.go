package record

// A journal that is the log of one server of several has three kinds of records besides. They
// concern no tube; their slot is zero.
//
//	Entry  index u64 | term u64 | commit u64 | kind u8 | a change of members
//	Floor  first index that is needed u64 | highest id u64 | imported u64
//	Epoch  node u64 | time i64 | format u32
//
// Each batch of such a journal is one entry of the log, and begins with an Entry. Nothing is
// ever cut off a journal: an entry takes the place of every earlier one with the same index or
// a higher one. commit is up to where entries were known to be committed when the batch was
// written, so the end of a journal may hold entries that are not, and never will be.
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

// A Heading is what an Entry tells: which entry of a log the batch is that begins with it.
type Heading struct {
	Index, Term uint64
	Commit      uint64 // no entry up to here is ever replaced
	Kind        EntryKind
	Change      []byte // the message of a change; empty for Normal
}

// Append appends an Entry.
func (h *Heading) Append(b []byte) []byte {
	b = head(b, EntrySize+len(h.Change), Entry, 0, 0)
	b = le.AppendUint64(b, h.Index)
	b = le.AppendUint64(b, h.Term)
	b = le.AppendUint64(b, h.Commit)
	return append(append(b, byte(h.Kind)), h.Change...)
}

// parse decodes what follows the head, and reports whether it has the shape of one. A kind of
// entry that is not known is a newer version's.
func (h *Heading) parse(b []byte) bool {
	if len(b) < EntrySize-headSize {
		return false
	}
	*h = Heading{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), EntryKind(b[24]), b[25:]}
	return h.Index > 0 && h.Kind <= ChangeV2 && (h.Kind != Normal || len(h.Change) == 0) && len(h.Change) <= ChangeMax
}

// ParseHeading decodes the Entry with which the records of a batch begin, into h, and returns
// what follows it. It reports false if they begin with another record, or with none. h.Change
// aliases b, which a checksum vouches for.
func ParseHeading(h *Heading, b []byte) (rest []byte, ok bool) {
	if len(b) < EntrySize || KindOf(b) != Entry {
		return b, false
	}
	n := Len(b)
	if n < EntrySize || n > len(b) || b[5] != 0 || !h.parse(b[headSize:n]) {
		return b, false
	}
	return b[n:], true
}

// A Bottom is what a Floor tells: nothing that lives is told of before entry Index any more.
// The rest is what a State tells, which may have been given up with what went before.
type Bottom struct {
	Index uint64
	Globals
}

// Append appends a Floor.
func (f *Bottom) Append(b []byte) []byte {
	b = head(b, FloorSize, Floor, 0, 0)
	b = le.AppendUint64(b, f.Index)
	b = le.AppendUint64(b, f.HighID)
	return le.AppendUint64(b, f.Imported)
}

// A Reign is what an Epoch tells: from here on another server has written the log, or the same
// one after another start. Bodies that are in part there never become whole.
type Reign struct {
	Node   uint64
	Time   int64  // when it began, by the clock of that server: nanoseconds since the Unix epoch
	Format uint32 // see Format
}

// Append appends an Epoch.
func (r *Reign) Append(b []byte) []byte {
	b = head(b, EpochSize, Epoch, 0, 0)
	b = le.AppendUint64(b, r.Node)
	b = le.AppendUint64(b, uint64(r.Time))
	return le.AppendUint32(b, r.Format)
}

// parseCluster decodes what follows the head of an Entry, a Floor or an Epoch, and reports
// whether it has the shape of one.
func (r *Record) parseCluster(b []byte) bool {
	switch r.Kind {
	case Entry:
		r.Heading = new(Heading)
		return r.Heading.parse(b)
	case Floor:
		if len(b) != FloorSize-headSize {
			return false
		}
		r.Bottom = &Bottom{le.Uint64(b), Globals{le.Uint64(b[8:]), le.Uint64(b[16:])}}
	case Epoch:
		if len(b) != EpochSize-headSize {
			return false
		}
		r.Reign = &Reign{le.Uint64(b), int64(le.Uint64(b[8:])), le.Uint32(b[16:])}
	}
	return true
}
