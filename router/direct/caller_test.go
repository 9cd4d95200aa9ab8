package direct

import (
	"bytes"
	"testing"
	"time"

	"polystalk/shard"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// TestNamesAndBodiesArrive: an operation's name and body reach its shard, and the reply reaches
// the caller, whether the shard is free or busy.
func TestNamesAndBodiesArrive(t *testing.T) {
	h := newHouse(t, 4)
	c := h.caller()
	small := bytes.Repeat([]byte("small "), 100)
	large := core.Large{bytes.Repeat([]byte{'l'}, slab.MaxSize), []byte("arge")}
	for _, busy := range []bool{false, true} {
		sent := c.batch.Sent
		// do runs the operation. A busy shard is released when the message should be in it.
		do := func(i int) *core.Reply {
			if !busy {
				return c.Do(i)
			}
			sh, b := h.m.Shard(i), &shard.Batch{Home: nobody{}}
			sh.OwnPatiently(b)
			h.clock.Stamp(b)
			time.AfterFunc(5*time.Millisecond, func() { sh.Release(b) })
			return c.Do(i)
		}
		i := h.m.OfTube([]byte(tubeName(1)))
		c.Op().Use([]byte(tubeName(1)), 0)
		r := do(i)
		if r.Face == nil || r.Face.Name() != tubeName(1) {
			t.Fatalf("busy %v: the tube is %+v", busy, r.Face)
		}
		used := r.Tube
		ids := [2]core.JobID{}
		for k := range ids {
			ids[k] = h.m.Numbers(i).NextID()
			if k == 0 {
				c.Op().Put(used, ids[k], 0, 0, 60, small, nil)
			} else {
				c.Op().Put(used, ids[k], 0, 0, 60, nil, large)
			}
			if r := do(i); r.Status != core.StatusOK {
				t.Fatalf("busy %v: put: status %d", busy, r.Status)
			}
		}
		c.Op().Peek(0, ids[0])
		if r := do(i); r.Status != core.StatusFound || !bytes.Equal(r.Body, small) {
			t.Errorf("busy %v: the small job: status %d, %d bytes", busy, r.Status, len(r.Body))
		}
		c.Op().Peek(0, ids[1])
		if r := do(i); r.Status != core.StatusFound || r.Large.Len() != large.Len() {
			t.Errorf("busy %v: the large job: status %d, %d bytes", busy, r.Status, r.Large.Len())
		}
		c.Op().Unuse(used)
		do(i)
		if busy && c.batch.Sent == sent {
			t.Error("no shard was sent a message")
		}
	}
	if n := c.Counts(); n.Ready != 4 {
		t.Errorf("%d jobs are ready, want 4", n.Ready)
	}
}
