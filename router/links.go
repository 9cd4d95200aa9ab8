package router

import "polystalk/shard/core"

// link is the session as one shard knows it.
type link struct {
	shard    int
	client   core.ClientID
	watching int    // entries of the watch list there
	held     uint32 // reserved jobs there, as last heard: too high when one ran out
	waiting  bool   // registered there by the reserve under way
}

// linkTo returns the session's link to a shard, nil when it has none.
func (s *session) linkTo(sh int) *link {
	if s.byShard != nil {
		if i := s.byShard[sh]; i > 0 {
			return &s.links[i-1]
		}
		return nil
	}
	for i := range s.links {
		if s.links[i].shard == sh {
			return &s.links[i]
		}
	}
	return nil
}

// linkScan is the number of links up to which walking them is cheapest.
const linkScan = 8

// clientAt is the session's handle in a shard, zero when it has none.
func (s *session) clientAt(sh int) core.ClientID {
	if l := s.linkTo(sh); l != nil {
		return l.client
	}
	return 0
}

// learn notes what a reply from shard sh tells about the session there.
func (s *session) learn(sh int, r *core.Reply) *link {
	s.commit = max(s.commit, r.Commit)
	if r.Client == 0 {
		return nil
	}
	l := s.linkTo(sh)
	if l == nil {
		s.links = append(s.links, link{shard: sh, client: r.Client})
		n := len(s.links)
		l = &s.links[n-1]
		if s.byShard != nil {
			s.byShard[sh] = int32(n)
		} else if n > linkScan {
			s.byShard = make([]int32, len(s.loop.srv.places.Shards()))
			for i := range s.links {
				s.byShard[s.links[i].shard] = int32(i + 1)
			}
		}
	}
	l.held = r.Held
	return l
}
