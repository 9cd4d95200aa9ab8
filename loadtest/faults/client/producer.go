package client

import (
	"math/rand/v2"
	"strconv"
	"time"

	"polystalk/loadtest/bench"
	"polystalk/loadtest/faults/history"
)

const (
	// kickedTube is the tube that is kicked by number. Kicks in doubt may concern
	// any of its jobs, so that little can be said of them.
	kickedTube = 0
	// longDelay is longer than any run: such a job waits to be kicked.
	longDelay = 2 * time.Hour
	// longTTR is longer than anybody holds a job.
	longTTR = 600
)

// body is one for t, of 16 bytes and more: mostly short, sometimes of any length up to
// the longest that a server takes by default.
func body(rng *rand.Rand, t history.Token) []byte {
	n := history.MinBody + rng.IntN(200)
	switch rng.IntN(400) {
	case 0:
		n = history.MinBody + rng.IntN(65_000)
	case 1, 2, 3, 4:
		n = history.MinBody + rng.IntN(4_000)
	}
	b := make([]byte, n)
	for i := history.MinBody; i < n; i += 8 {
		v := rng.Uint64()
		for k := i; k < min(n, i+8); k++ {
			b[k], v = byte(v), v>>8
		}
	}
	bench.PutStamp(b, uint64(t))
	return b
}

// tube is any of the beanstalkd clients'.
func (w *Crew) tube(rng *rand.Rand) int { return rng.IntN(w.o.Tubes) }

// produce puts jobs, up to depth in one write.
func (w *Crew) produce(c *conn, rng *rand.Rand, depth int) error {
	h := w.o.History
	for range 200 { // then another node may have its turn
		if depth > 1 && h.Live().Jobs > w.o.Stock {
			w.sleep(5 * time.Millisecond)
			if w.ctx.Err() != nil {
				return nil
			}
			continue
		}
		if h.Live().Jobs > 2*w.o.Stock {
			w.sleep(10 * time.Millisecond) // whoever measures pauses goes on, at leisure
		}
		tube := w.tube(rng)
		c.say("use %s\r\n", w.names[tube])
		if _, err := c.ask(0, "USING"); err != nil {
			return err
		}
		for range 8 {
			if err := w.putSome(c, rng, tube, 1+rng.IntN(depth)); err != nil {
				return err
			}
		}
	}
	return nil
}

// putSome puts n jobs in one write.
func (w *Crew) putSome(c *conn, rng *rand.Rand, tube, n int) error {
	h := w.o.History
	tokens, delays := make([]history.Token, n), make([]time.Duration, n)
	for i := range tokens {
		t := h.Token()
		p := history.Put{Tube: tube, Pri: rng.Uint32N(1000), TTR: longTTR, Body: body(rng, t)}
		switch rng.IntN(100) {
		case 0, 1, 2:
			p.Delay = time.Duration(1+rng.IntN(3)) * time.Second
		case 3:
			p.Delay = longDelay
		case 4, 5, 6, 7:
			p.TTR = 1 + rng.Uint32N(2)
		}
		c.say("put %d %d %d %d\r\n", p.Pri, p.Delay/time.Second, p.TTR, len(p.Body))
		c.out = append(append(c.out, p.Body...), "\r\n"...)
		h.Putting(t, p, bench.Now())
		tokens[i], delays[i] = t, p.Delay
	}
	if err := c.send(); err != nil {
		return err
	}
	for i, t := range tokens {
		r, err := c.read("put", 0)
		if err != nil {
			return err
		}
		call := c.call()
		switch r.word {
		case "INSERTED":
			h.Inserted(t, r.id, call)
			w.Pause.acknowledged(call.Answered)
			if delays[i] == longDelay {
				w.keep(t, r.id)
			}
		case "OUT_OF_MEMORY", "DRAINING", "INTERNAL_ERROR":
			h.Refused(t)
			w.sleep(10 * time.Millisecond)
		default:
			return wrong{"put", r.word + " " + strconv.FormatUint(r.id, 10)}
		}
	}
	return nil
}
