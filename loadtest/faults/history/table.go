package history

// A job is the record of one put, kept for the whole run.
type job struct {
	id       uint64 // 0: never told
	gone     int64  // when DELETED had come; 0: it has not
	reserved int64  // when the latest RESERVED was invoked
	hash     uint32
	size     uint32
	pri, ttr uint32
	tube     uint16
	is       mark
}

// A mark is a set of what is true of a job.
type mark uint16

const (
	isPut          mark = 1 << iota // Putting was told
	isAcknowledged                  // the put
	isRefused                       // the put
	isForeign                       // Gearman's: priority and TTR are not ours
	isDoubtful                      // a delete was sent that may have removed it, or may yet
	isSeen                          // it was there at the end
)

// counts reports whether the job must be there.
func (j *job) counts() bool { return j.gone == 0 && j.is&(isAcknowledged|isDoubtful) == isAcknowledged }

const (
	jobPageBits = 12
	idPageBits  = 12
)

type (
	jobPage [1 << jobPageBits]job
	idPage  [1 << idPageBits]uint32
)

// A table holds all jobs by token, and tokens by id. Ids may be any numbers; where
// they lie close together one takes four bytes.
type table struct {
	pages []*jobPage
	ids   map[uint64]*idPage
}

// at is the record of t.
func (b *table) at(t Token) *job {
	page := int(t >> jobPageBits)
	for page >= len(b.pages) {
		b.pages = append(b.pages, new(jobPage))
	}
	return &b.pages[page][t&(1<<jobPageBits-1)]
}

// byID is the token that id was first seen with: t if it is new.
func (b *table) byID(id uint64, t Token) Token {
	p := b.ids[id>>idPageBits]
	if p == nil {
		p = new(idPage)
		b.ids[id>>idPageBits] = p
	}
	first := &p[id&(1<<idPageBits-1)]
	if *first == 0 {
		*first = uint32(t)
	}
	return Token(*first)
}
