package main

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"time"

	"polystalk/codec/gearman"
	"polystalk/loadtest/bench"
)

const (
	// kickedTube is the tube with kicks of a number of jobs. Kicks in doubt may affect any of its
	// jobs, so the history can judge little about them.
	kickedTube = 0
	// longDelay is longer than any run: such a job waits to be kicked.
	longDelay = 2 * time.Hour
	// longTTR, in seconds, is longer than any reservation.
	longTTR = 600
)

// newBody returns a body for t: usually short, sometimes of any length up to a server's default
// limit.
func newBody(rng *rand.Rand, t token) []byte {
	n := minBody + rng.IntN(200)
	switch rng.IntN(400) {
	case 0:
		n = minBody + rng.IntN(65_000)
	case 1, 2, 3, 4:
		n = minBody + rng.IntN(4_000)
	}
	b := make([]byte, n)
	for i := minBody; i < n; i++ {
		b[i] = byte(rng.Uint32())
	}
	bench.PutStamp(b, uint64(t))
	return b
}

// produce puts jobs, up to depth in one write.
func (w *crew) produce(c *conn, rng *rand.Rand, depth int) error {
	for range 200 { // then it dials another node
		if live := w.h.countsNow().live; depth > 1 && live > w.stock {
			if w.sleep(5 * time.Millisecond); w.ctx.Err() != nil {
				return nil
			}
			continue
		} else if live > 2*w.stock {
			w.sleep(10 * time.Millisecond) // the clients that measure pauses put slowly
		}
		tube := rng.IntN(tubes)
		if rng.IntN(5) < w.failing() {
			tube = failingTube
		}
		c.say("use %s\r\n", w.names[tube])
		if err := c.ask("USING"); err != nil {
			return err
		}
		for range 8 {
			err := w.put(c, 1+rng.IntN(depth), func(t token) put {
				p := put{tube: tube, pri: rng.Uint32N(1000), ttr: longTTR, body: newBody(rng, t)}
				switch rng.IntN(100) {
				case 0, 1, 2:
					p.delay = time.Duration(1+rng.IntN(3)) * time.Second
				case 3:
					p.delay = longDelay
				case 4, 5, 6, 7:
					p.ttr = 1 + rng.Uint32N(2)
				}
				c.say("put %d %d %d %d\r\n%s\r\n", p.pri, p.delay/time.Second, p.ttr, len(p.body), p.body)
				return p
			}, func() (uint64, error) {
				switch word, err := c.read("put", 0); {
				case err != nil:
					return 0, err
				case word == "INSERTED":
					return c.Reply.Num, nil
				case word == "OUT_OF_MEMORY" || word == "DRAINING" || word == "INTERNAL_ERROR":
					return 0, nil
				}
				return 0, wrong("put", c.Reply.Line)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// put puts n jobs in one write. draw draws a job and appends its request. read reads an answer and
// returns the job's id; 0: the put was refused.
func (w *crew) put(c *conn, n int, draw func(t token) put, read func() (uint64, error)) error {
	tokens, puts := make([]token, n), make([]put, n)
	for i := range n {
		tokens[i] = w.h.newToken()
		puts[i] = draw(tokens[i])
		w.h.putting(tokens[i], puts[i], bench.Now())
	}
	if err := c.send(); err != nil {
		return err
	}
	for i, t := range tokens {
		id, err := read()
		if err != nil {
			return err
		}
		if id == 0 {
			w.h.refused(t)
			w.sleep(10 * time.Millisecond)
			continue
		}
		w.h.inserted(t, id, c.call())
		if puts[i].delay == longDelay {
			w.keep(waitingJob{t, id})
		}
	}
	return nil
}

var background = []gearman.Type{gearman.SubmitJobBG, gearman.SubmitJobHighBG, gearman.SubmitJobLowBG}

// submit submits background jobs, several in one write.
func (w *crew) submit(c *conn, rng *rand.Rand) error {
	for {
		if w.h.countsNow().live > w.stock {
			if w.sleep(5 * time.Millisecond); w.ctx.Err() != nil {
				return nil
			}
			continue
		}
		err := w.put(c, 1+rng.IntN(depth), func(t token) put {
			p := put{tube: tubes + rng.IntN(functions), body: newBody(rng, t), foreign: true}
			unique := ""
			if rng.IntN(2) == 0 {
				unique = strconv.FormatUint(uint64(t), 10)
			}
			c.packet(background[rng.IntN(len(background))], w.names[p.tube], unique, string(p.body))
			return p
		}, func() (uint64, error) {
			switch err := c.readPacket(); {
			case err != nil:
				return 0, err
			case c.Msg.Type == gearman.JobCreated:
				return idOf(c.Msg.Args[0])
			case c.Msg.Type == gearman.Error:
				return 0, nil
			}
			return 0, wrong("SUBMIT_JOB_BG", c.Msg.Type)
		})
		if err != nil {
			return err
		}
	}
}

// idOf returns the job's id in a handle: the number after the last colon.
func idOf(handle []byte) (uint64, error) {
	id, err := strconv.ParseUint(string(handle[bytes.LastIndexByte(handle, ':')+1:]), 10, 64)
	if err != nil {
		return 0, wrong("a request of Gearman", handle)
	}
	return id, nil
}

// grab does background jobs of all functions. A completion has no answer, so each of its deletes
// stays in doubt.
func (w *crew) grab(c *conn, rng *rand.Rand) error {
	for _, name := range w.names[tubes:failingTube] {
		c.packet(gearman.CanDo, name)
	}
	for w.ctx.Err() == nil {
		c.packet(gearman.GrabJob)
		if err := c.send(); err != nil {
			return err
		}
		err := c.readPacket()
		for err == nil && (c.Msg.Type == gearman.Noop || c.Msg.Type == gearman.Error) {
			// A wake-up, or the error for a completed job that the worker had lost.
			err = c.readPacket()
		}
		if err != nil {
			return err
		}
		switch c.Msg.Type {
		case gearman.JobAssign:
			handle := string(c.Msg.Args[0])
			id, err := idOf(c.Msg.Args[0])
			if err != nil {
				return err
			}
			t, ok := c.holder.reserved(id, c.Data, c.call())
			if rng.IntN(50) == 0 {
				w.sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			}
			if rng.IntN(200) == 0 {
				return nil // the server gives the job to another worker
			}
			c.packet(gearman.WorkComplete, handle, "done")
			if ok {
				c.holder.doubted(t, op{kind: opDelete}, bench.Now())
			}
		case gearman.NoJob:
			c.packet(gearman.PreSleep)
			if err := c.send(); err != nil {
				return err
			}
			if err := c.readPacket(); err != nil { // without a wake-up in time the client dials again
				return err
			}
			if c.Msg.Type != gearman.Noop {
				return wrong("PRE_SLEEP", c.Msg.Type)
			}
		default:
			return wrong("GRAB_JOB", c.Msg.Type)
		}
	}
	return nil
}
