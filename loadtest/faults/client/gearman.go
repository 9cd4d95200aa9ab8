package client

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"time"

	"polystalk/codec/gearman"
	"polystalk/loadtest/bench"
	"polystalk/loadtest/faults/history"
)

// function is any of the Gearman clients' tubes.
func (w *Crew) function(rng *rand.Rand) int { return w.o.Tubes + rng.IntN(w.o.Functions) }

var background = []gearman.Type{gearman.SubmitJobBG, gearman.SubmitJobHighBG, gearman.SubmitJobLowBG}

// submit submits background jobs, some in one write.
func (w *Crew) submit(c *conn, rng *rand.Rand) error {
	h := w.o.History
	for {
		if h.Live().Jobs > w.o.Stock {
			w.sleep(5 * time.Millisecond)
			if w.ctx.Err() != nil {
				return nil
			}
			continue
		}
		tokens := make([]history.Token, 1+rng.IntN(w.o.Depth))
		for i := range tokens {
			t := h.Token()
			p := history.Put{Tube: w.function(rng), Body: body(rng, t), Foreign: true}
			unique := ""
			if rng.IntN(2) == 0 {
				unique = strconv.FormatUint(uint64(t), 10)
			}
			c.packet(background[rng.IntN(len(background))], w.names[p.Tube], unique, string(p.Body))
			h.Putting(t, p, bench.Now())
			tokens[i] = t
		}
		if err := c.send(); err != nil {
			return err
		}
		for _, t := range tokens {
			m, _, err := c.readPacket(c.patience)
			if err != nil {
				return err
			}
			call := c.call()
			switch m.Type {
			case gearman.JobCreated:
				id, err := idOf(m.Args[0])
				if err != nil {
					return err
				}
				h.Inserted(t, id, call)
				w.Pause.acknowledged(call.Answered)
			case gearman.Error:
				h.Refused(t)
			default:
				return wrong{"SUBMIT_JOB_BG", m.Type.String()}
			}
		}
	}
}

// idOf is the job's id in a handle: what stands behind its last colon.
func idOf(handle []byte) (uint64, error) {
	id, err := strconv.ParseUint(string(handle[bytes.LastIndexByte(handle, ':')+1:]), 10, 64)
	if err != nil {
		return 0, wrong{"a request of Gearman's", string(handle)}
	}
	return id, nil
}

// grab does background jobs of all functions. A completion has no answer, so it is in
// doubt, and for ever.
func (w *Crew) grab(c *conn, rng *rand.Rand) error {
	for _, name := range w.names[w.o.Tubes:] {
		c.packet(gearman.CanDo, name)
	}
	for {
		c.packet(gearman.GrabJob)
		if err := c.send(); err != nil {
			return err
		}
		m, data, err := c.answer()
		if err != nil {
			return err
		}
		switch m.Type {
		case gearman.JobAssign:
			handle := string(m.Args[0])
			id, err := idOf(m.Args[0])
			if err != nil {
				return err
			}
			t, ok := c.session.Reserved(id, data, c.call())
			if rng.IntN(50) == 0 {
				w.sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			}
			if rng.IntN(200) == 0 {
				return nil // the job is somebody else's then
			}
			c.packet(gearman.WorkComplete, handle, "done")
			if ok {
				c.session.DeleteInDoubt(t, bench.Now())
			}
		case gearman.NoJob:
			if err := w.await(c); err != nil {
				return err
			}
		default:
			return wrong{"GRAB_JOB", m.Type.String()}
		}
		if w.ctx.Err() != nil {
			return nil
		}
	}
}

// answer is the next packet that is no wake-up, and no complaint of a completion whose
// job the worker no longer had.
func (c *conn) answer() (*gearman.Message, []byte, error) {
	for {
		m, data, err := c.readPacket(c.patience)
		if err != nil || m.Type != gearman.Noop && m.Type != gearman.Error {
			return m, data, err
		}
	}
}

// await sleeps until there may be a job.
func (w *Crew) await(c *conn) error {
	c.packet(gearman.PreSleep)
	if err := c.send(); err != nil {
		return err
	}
	m, _, err := c.readPacket(c.patience)
	if err != nil {
		return err // nobody has woken it in time: it asks again on another connection
	}
	if m.Type != gearman.Noop {
		return wrong{"PRE_SLEEP", m.Type.String()}
	}
	return nil
}
