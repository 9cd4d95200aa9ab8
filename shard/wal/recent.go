package wal

// recentBytes is how many bytes of the newest entries are cached in memory, so that a follower
// with a small lag causes no reads from the disk.
const recentBytes = 16 << 20

// A recent is a cache of the newest entries of a log, without gaps.
type recent struct {
	list  []Entry
	bytes int
}

// add adds an entry, which replaces those with its index or a higher one.
func (r *recent) add(x *Entry) {
	n := len(r.list)
	for n > 0 && r.list[n-1].Index >= x.Index {
		n--
		r.bytes -= r.list[n].size()
		r.list[n] = Entry{}
	}
	r.list = r.list[:n]
	if n > 0 && r.list[n-1].Index != x.Index-1 {
		r.list, r.bytes = nil, 0
	}
	r.list = append(r.list, *x)
	r.bytes += x.size()
	for r.bytes > recentBytes && len(r.list) > 1 {
		r.pop()
	}
}

// pop forgets the oldest entry.
func (r *recent) pop() {
	r.bytes -= r.list[0].size()
	r.list[0] = Entry{}
	r.list = r.list[1:]
}

// drop forgets the entries before first.
func (r *recent) drop(first uint64) {
	for len(r.list) > 0 && r.list[0].Index < first {
		r.pop()
	}
}

// from returns the entries from lo up to hi-1: at least one, and at most about max bytes. It
// returns none if lo is not cached.
func (r *recent) from(lo, hi uint64, max int) []Entry {
	if len(r.list) == 0 || lo < r.list[0].Index || lo > r.list[len(r.list)-1].Index {
		return nil
	}
	list := r.list[lo-r.list[0].Index:]
	list = list[:min(uint64(len(list)), hi-lo)]
	for n, bytes := 0, 0; n < len(list); n++ {
		if bytes += list[n].size(); bytes > max && n > 0 {
			list = list[:n]
		}
	}
	return append([]Entry(nil), list...)
}

// size is the approximate size of an entry in memory.
func (x *Entry) size() int { return len(x.Data) + 64 }
