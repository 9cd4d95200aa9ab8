package direct

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// TestJobsArePutShownAndDeleted: with bodies on both sides of what a slab holds.
func TestJobsArePutShownAndDeleted(t *testing.T) {
	h := newHouse(t, 4)
	c := h.caller()
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 1000, slab.MaxSize, slab.MaxSize + 1, pieceMax, 3*pieceMax + 17} {
		body := make([]byte, n)
		for i := range body {
			body[i] = byte(r.Uint32())
		}
		sent := bytes.Clone(body)
		id, _, ok := c.Put([]byte("mail"), 5, 0, 9, sent)
		clear(sent) // it was copied
		if !ok {
			t.Fatalf("%d bytes cannot be put", n)
		}
		s, ok := c.StatsJob(id)
		if !ok || s.Tube != "mail" || s.State != core.Ready || s.Pri != 5 || s.TTR != 9 {
			t.Errorf("%d bytes: %+v", n, s)
		}
		if got, ok := c.Peek(id); !ok || !bytes.Equal(got, body) {
			t.Errorf("%d bytes: %d came back, %t", n, len(got), ok)
		}
		if _, ok := c.DeleteJob(id); !ok {
			t.Errorf("%d bytes: it cannot be deleted", n)
		}
		if _, ok := c.DeleteJob(id); ok {
			t.Errorf("%d bytes: it is deleted twice", n)
		}
		if _, ok := c.Peek(id); ok {
			t.Errorf("%d bytes: it is there", n)
		}
		if _, ok := c.KickJob(id); ok {
			t.Errorf("%d bytes: it is kicked", n)
		}
	}
	if _, ok := c.StatsTube([]byte("mail")); ok {
		t.Error("the tube is still there, with nothing in it")
	}
	if _, ok := c.Pause([]byte("mail"), 9); ok {
		t.Error("a tube is paused that is not there")
	}
	if n, _ := c.Kick([]byte("mail"), 9, goOn); n != 0 {
		t.Errorf("%d jobs of nothing are kicked", n)
	}
}

// goOn is between two visits of a kick that nobody ends.
func goOn() bool { return true }

func TestKickIsDoneInFull(t *testing.T) {
	h := newHouse(t, 2)
	c := h.caller()
	const jobs = 5000 // more than a visit kicks
	for range jobs {
		if _, _, ok := c.Put([]byte("mail"), 0, 1000, 9, nil); !ok {
			t.Fatal("out of memory")
		}
	}
	if n, _ := c.Kick([]byte("mail"), 10, goOn); n != 10 {
		t.Errorf("%d are kicked of 10", n)
	}
	visits := 0
	n, _ := c.Kick([]byte("mail"), 1<<32-1, func() bool {
		visits++
		return visits < 2
	})
	if s, _ := c.StatsTube([]byte("mail")); visits != 2 || n == 0 || n >= jobs-10 || s.Ready != uint64(n)+10 {
		t.Errorf("%d are kicked in %d visits; %+v", n, visits, s)
	}
	if rest, _ := c.Kick([]byte("mail"), 1<<32-1, goOn); rest != jobs-10-n {
		t.Errorf("%d are kicked of %d", rest, jobs-10-n)
	}
	if s, _ := c.StatsTube([]byte("mail")); s.Ready != jobs || s.Delayed != 0 {
		t.Errorf("%+v", s)
	}
}

// TestOperatorsMeet: many at once, over the same tubes, lose no job and have none twice.
func TestOperatorsMeet(t *testing.T) {
	h := newHouse(t, 2)
	const callers, rounds = 8, 300
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			c := h.caller()
			r := rand.New(rand.NewPCG(2, uint64(i)))
			var mine []core.JobID
			for range rounds {
				tube := fmt.Appendf(nil, "t%d", r.IntN(3))
				switch r.IntN(4) {
				case 0, 1:
					id, _, ok := c.Put(tube, r.Uint32N(9), r.Uint32N(2)*1000, 60, tube)
					if !ok {
						t.Error("out of memory")
					}
					mine = append(mine, id)
				case 2:
					c.Kick(tube, 3, goOn)
					c.Pause(tube, r.Uint32N(2))
				default:
					if len(mine) > 0 {
						k := r.IntN(len(mine))
						if _, ok := c.DeleteJob(mine[k]); !ok {
							t.Errorf("job %d is not there", mine[k])
						}
						mine[k] = mine[len(mine)-1]
						mine = mine[:len(mine)-1]
					}
				}
			}
			for _, id := range mine {
				if _, ok := c.DeleteJob(id); !ok {
					t.Errorf("job %d is not there at the end", id)
				}
			}
		})
	}
	wait.Wait()
	if n := h.caller().Counts(); n.Ready+n.Delayed+n.Reserved+n.Buried != 0 || n.Tubes != 0 {
		t.Errorf("what is left: %+v", n)
	}
}
