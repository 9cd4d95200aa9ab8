package binlog

import (
	"fmt"
)

// A replay is the state of the jobs after some of the records.
type replay struct {
	Contents
	live    map[uint64]*entry
	tubes   map[string]string // one string for each name
	orders  int64             // jobs seen so far
	salvage bool
}

// file replays file i of the log.
func (r *replay) file(s *scanner, i int) error {
	bad := s.header()
	if s.err != nil {
		return s.err
	}
	if bad != "" {
		switch {
		case s.zeroFrom(0):
			// A server was killed before it wrote the header.
			r.damage(s, 0, s.size, "no header, only zeros", true)
			return s.err
		case !r.salvage:
			return damage{Path: s.path, Reason: bad}
		}
		r.damage(s, 0, min(headerSize, s.size), bad, false)
	}
	for off := min(headerSize, s.size); ; {
		rec, bad := s.parse(off)
		if s.err != nil {
			return s.err
		}
		if bad == "" {
			bad = r.apply(s, &rec, i)
		}
		if bad == "" {
			r.Records++
			off = rec.next
			continue
		}
		if s.zeroFrom(off) {
			return s.err
		}
		if s.torn(off) {
			r.damage(s, off, s.size, "a record half written, then only zeros", true)
			return s.err
		}
		if off == headerSize {
			bad += " (in the first record: perhaps written by a 32-bit beanstalkd, which is not supported)"
		}
		if !r.salvage {
			if s.err != nil {
				return s.err
			}
			return damage{Path: s.path, Offset: off, Reason: bad}
		}
		next := r.resync(s, off)
		r.damage(s, off, next, bad, false)
		off = next
	}
}

// resync finds the next record after the damage at off. If no record of the file was read yet, the
// header may be damaged: then resync tries the other version, once.
func (r *replay) resync(s *scanner, off int64) int64 {
	next := s.resync(off + 1)
	if off > headerSize || s.swapped {
		return next
	}
	s.swapped = true
	was := s.format
	s.format = &format7
	if was == &format7 {
		s.format = &format5
	}
	if other := s.resync(off); other < next {
		return other
	}
	s.format = was
	return next
}

// damage adds the damage of the skipped bytes from off to next.
func (r *replay) damage(s *scanner, off, next int64, reason string, torn bool) {
	r.Damages = append(r.Damages, damage{Path: s.path, Offset: off, Reason: reason, Torn: torn, Skipped: next - off})
}

// apply applies rec of file i. bad is the reason if the record is invalid; then nothing is changed.
func (r *replay) apply(s *scanner, rec *record, i int) (bad string) {
	id := rec.job.ID
	e, full := r.live[id], len(rec.tube) > 0
	switch {
	case e == nil:
	case e.bodySize != rec.bodySize:
		return "the job had a body of another size before"
	case full && e.job.Tube != string(rec.tube):
		return "the job was in another tube before"
	}
	r.HighestID = max(r.HighestID, id)
	if rec.state == stateDeleted {
		delete(r.live, id)
		return ""
	}
	if e == nil {
		if !full {
			// Its full record was in a removed file, so the job has ended.
			return ""
		}
		e = &entry{order: r.orders}
		e.job.Tube = r.tube(rec.tube)
		r.orders++
		r.live[id] = e
	}
	tube := e.job.Tube
	e.job, e.bodySize = rec.job, rec.bodySize
	e.job.Tube = tube
	if full {
		e.file, e.bodyAt, e.format = i, rec.bodyAt, s.format
	}
	return ""
}

// tube returns name as a string that jobs share. Names of tubes without jobs are sometimes removed,
// since some clients use a new tube for each reply.
func (r *replay) tube(name []byte) string {
	t, ok := r.tubes[string(name)]
	if !ok {
		if len(r.tubes) > 2*len(r.live)+1000 {
			clear(r.tubes)
		}
		t = string(name)
		r.tubes[t] = t
	}
	return t
}

// A damage is a place in a file with bytes that beanstalkd does not write. As an error it is the
// damage that ended the reading.
type damage struct {
	Path   string
	Offset int64 // of the record, in bytes from the start of the file
	Reason string
	// Torn: the file ends here with an incomplete record, with only zeros after it: a server was
	// killed within a put that it had not answered. No error; reading goes on with the next file.
	Torn bool
	// Skipped is how many bytes were skipped before a record was found
	// again, or the end of the file.
	Skipped int64
}

func (d damage) Error() string {
	return fmt.Sprintf("%s: offset %d: %s", d.Path, d.Offset, d.Reason)
}
