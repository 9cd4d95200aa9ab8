package sim

import (
	"polystalk/router/cluster"
	"polystalk/shard/commit"
	"polystalk/shard/record"
)

// proposer returns the proposer for a member's entries.
func (m *member) proposer() commit.Proposer {
	if m.c.fault == floorFirst {
		return &lateCopies{Proposals: m.props, c: m.c}
	}
	return m.props
}

// lateCopies is a faulty proposer. It delays the copies of a compaction until some time after the
// Floor that needs them, so the originals may be deleted before any member has the copies.
type lateCopies struct {
	*cluster.Proposals
	c     *Cluster
	ids   map[uint64]bool // jobs with copies
	held  [][]byte        // their records, in their order
	floor bool            // a Floor went out, behind which they are to come
}

// Propose implements journal.Proposer.
func (h *lateCopies) Propose(data []byte, n uint64) error {
	if h.floor && h.c.rng.IntN(8) == 0 {
		if err := h.release(n); err != nil {
			return err
		}
	}
	var out []byte
	var r record.Record
	for len(data) > 0 {
		size, err := record.Parse(&r, data)
		if err != nil {
			return err
		}
		piece := data[:size:size]
		data = data[size:]
		switch {
		case r.Kind == record.KindCopy, r.Kind == record.KindChunk && h.ids[r.ID]:
			if h.ids == nil {
				h.ids = map[uint64]bool{}
			}
			h.ids[r.ID] = true
			h.held = append(h.held, piece)
			continue
		case r.Kind == record.KindFloor:
			h.floor = true
		case h.ids[r.ID]: // later records of a copied job stay behind the copy
			if err := h.release(n); err != nil {
				return err
			}
		}
		out = append(out, piece...)
	}
	return h.Proposals.Propose(out, n)
}

// release proposes the delayed records.
func (h *lateCopies) release(n uint64) error {
	for _, b := range h.held {
		if err := h.Proposals.Propose(b, n); err != nil {
			return err
		}
	}
	h.held, h.ids, h.floor = nil, nil, false
	return nil
}
