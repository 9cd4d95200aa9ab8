package ops

import "polystalk/shard/core"

// A Handle is the client's identity in one shard.
type Handle struct {
	Client   core.ClientID
	Watching int32  // tubes that it watches there, or functions that it works for
	Held     uint32 // reserved jobs there, by the last reply: too high after a timeout
	shard    int16
	Waiting  bool // the current Reserve has queued the client there
}

// Shard returns the index of the shard.
func (k *Handle) Shard() int { return int(k.shard) }

// Handles has the handles of one client, in the order of its first visits to shards. The zero value
// has none.
type Handles struct {
	list    []Handle
	byShard []int32 // positions in list plus one, if it is long
}

// handlesScan is the longest list that is searched without byShard.
const handlesScan = 8

// Len returns the number of shards that know the client.
func (h *Handles) Len() int { return len(h.list) }

// At returns handle number i, which is valid until the next Learn.
func (h *Handles) At(i int) *Handle { return &h.list[i] }

// Hold reports whether the client has reserved jobs, by the last replies.
func (h *Handles) Hold() bool {
	for i := range h.list {
		if h.list[i].Held > 0 {
			return true
		}
	}
	return false
}

// In returns the client's handle in a shard, valid until the next Learn; nil if it has none.
func (h *Handles) In(shard int) *Handle {
	if h.byShard != nil {
		if i := h.byShard[shard]; i > 0 {
			return &h.list[i-1]
		}
		return nil
	}
	for i := range h.list {
		if int(h.list[i].shard) == shard {
			return &h.list[i]
		}
	}
	return nil
}

// Client returns the client's id in a shard, zero if it has none.
func (h *Handles) Client(shard int) core.ClientID {
	if k := h.In(shard); k != nil {
		return k.Client
	}
	return 0
}

// Learn updates the handle in a shard from the shard's reply. shards is the number of shards. It
// returns the handle, or nil if the reply has no client.
func (h *Handles) Learn(shard, shards int, r *core.Reply) *Handle {
	if r.Client == 0 {
		return nil
	}
	k := h.In(shard)
	if k == nil {
		h.list = append(h.list, Handle{shard: int16(shard), Client: r.Client})
		n := len(h.list)
		k = &h.list[n-1]
		if h.byShard != nil {
			h.byShard[shard] = int32(n)
		} else if n > handlesScan {
			h.byShard = make([]int32, shards)
			for i := range h.list {
				h.byShard[h.list[i].shard] = int32(i + 1)
			}
		}
	}
	k.Held = r.Held
	return k
}

// drop forgets the last handle, after its shard has forgotten the client.
func (h *Handles) drop() {
	n := len(h.list) - 1
	if h.byShard != nil {
		h.byShard[h.list[n].shard] = 0
	}
	h.list = h.list[:n]
}
