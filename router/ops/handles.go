package ops

import "polystalk/shard/core"

// A Handle is a client as one shard knows it.
type Handle struct {
	Client   core.ClientID
	Watching int32  // tubes that it watches there, or functions that it works for
	Held     uint32 // jobs that it has reserved there, as last heard: too high when one ran out
	shard    int16  // see Shard
	Waiting  bool   // it is in the queues there, for the Reserve under way
}

// Shard is the index of that shard.
func (k *Handle) Shard() int { return int(k.shard) }

// Handles are those of one client, in the order in which shards have come to know it.
// The zero value has none.
type Handles struct {
	list    []Handle
	byShard []int32 // positions in list plus one, once that is long
}

// handlesScan is the number of handles up to which walking them is cheapest.
const handlesScan = 8

// Len is the number of shards that know the client.
func (h *Handles) Len() int { return len(h.list) }

// At is handle number i. It is good until the next Learn or Drop.
func (h *Handles) At(i int) *Handle { return &h.list[i] }

// Hold reports whether any shard was last heard of as having jobs reserved for the client.
func (h *Handles) Hold() bool {
	for i := range h.list {
		if h.list[i].Held > 0 {
			return true
		}
	}
	return false
}

// In is the client's handle in a shard, nil when it has none; good as At's is.
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

// Client is the client's id in a shard, zero when it has none.
func (h *Handles) Client(shard int) core.ClientID {
	if k := h.In(shard); k != nil {
		return k.Client
	}
	return 0
}

// Learn notes what a reply from a shard, one of so many, tells about the client there. It
// returns the handle, or nil when the reply was about no client.
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

// drop forgets the last handle: its shard does not know the client any more.
func (h *Handles) drop() {
	n := len(h.list) - 1
	if h.byShard != nil {
		h.byShard[h.list[n].shard] = 0
	}
	h.list = h.list[:n]
}
