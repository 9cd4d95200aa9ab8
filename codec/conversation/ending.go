package conversation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// depart closes a connection. One that waits and has sent commands behind its
// reserve shuts down its sending side first and hears the replies: with nobody
// there to hear them, how many of the commands run depends on when the
// network says so.
func (g *play) depart(i int) error {
	if len(g.k.conns[i].waiting) > 1 {
		return g.halfClose(i)
	}
	g.note(i, "! close")
	return g.close(i)
}

// close closes a connection and waits until both servers have noticed.
func (g *play) close(i int) error {
	for n := range g.sides {
		if err := g.sides[n].conns[i].Close(); err != nil {
			return err
		}
		g.sides[n].conns[i] = nil
	}
	g.k.closed(i)
	return g.gone()
}

// gone waits until no more connections are counted than are open.
func (g *play) gone() error {
	open := uint64(1)
	for _, c := range g.k.conns {
		if c.open {
			open++
		}
	}
	for end := time.Now().Add(replyMax); ; time.Sleep(100 * time.Microsecond) {
		body, err := g.agree()
		if err != nil {
			return err
		}
		if n, _ := number(body, "current-connections"); n == open {
			return g.settle()
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d connections are open, both count\n%s", open, body)
		}
	}
}

// halfClose shuts down the sending side: who waits gets TIMED_OUT, the rest of
// its pipeline runs, and the server closes.
func (g *play) halfClose(i int) error {
	for n := range g.sides {
		if err := g.sides[n].conns[i].HalfClose(); err != nil {
			return err
		}
	}
	g.note(i, "! halfclose")
	waiting := g.k.conns[i].waiting
	g.k.conns[i].waiting = nil
	if err := g.answers(i, waiting, nil); err != nil {
		return err
	}
	if err := g.end(i); err != nil {
		return err
	}
	g.note(i, "! close")
	return g.close(i)
}

// end checks that both servers close a connection and say nothing more.
func (g *play) end(i int) error {
	for n := range g.sides {
		reply, err := g.sides[n].conns[i].Reply(replyMax)
		if !errors.Is(err, io.EOF) || len(reply) > 0 {
			return fmt.Errorf("%s should have closed %c: got %q, %v", sideName(n), 'a'+i, clip(reply), err)
		}
	}
	return nil
}

// cleanUp compares all that can be seen, closes the session's connections and
// deletes its jobs: nothing may be left.
func (g *play) cleanUp() error {
	for i := range g.k.conns {
		for g.k.conns[i].open && g.k.contested(i) {
			// Whoever waits for it goes first.
			for j := range g.k.conns {
				if len(g.k.conns[j].waiting) > 0 {
					if err := g.depart(j); err != nil {
						return err
					}
				}
			}
		}
		if g.k.conns[i].open {
			if err := g.depart(i); err != nil {
				return err
			}
		}
	}
	asks := []string{"list-tubes\r\n"}
	for _, t := range tubeNames[:g.s.Tubes] {
		asks = append(asks, "stats-tube "+t+"\r\n")
	}
	for _, id := range g.k.live {
		asks = append(asks, fmt.Sprintf("stats-job %d\r\n", id), fmt.Sprintf("peek %d\r\n", id))
	}
	for _, id := range g.k.live {
		asks = append(asks, fmt.Sprintf("delete %d\r\n", id))
	}
	asks = append(asks, "list-tubes\r\n")
	for _, ask := range asks {
		if err := g.ask(ask); err != nil {
			return err
		}
	}
	// A pause of the default tube is all that could outlive a session.
	if err := g.ask("pause-tube default 0\r\n"); err != nil {
		return err
	}
	body, err := g.agree()
	if err != nil {
		return err
	}
	for _, line := range []string{"current-jobs-ready: 0", "current-jobs-reserved: 0", "current-jobs-delayed: 0", "current-jobs-buried: 0", fmt.Sprintf("current-tubes: %d", 1+g.tubesKept()), "current-connections: 1", "current-waiting: 0"} {
		if !containsLine(body, line) {
			return fmt.Errorf("after everything was deleted, not %s in\n%s", line, bytes.TrimSpace(body))
		}
	}
	return nil
}

// tubesKept is how many tubes are the companion's.
func (p *Pair) tubesKept() int {
	if p.companion == nil {
		return 0
	}
	return len(p.companion.Tubes())
}

// ask compares one reply on the control connections.
func (g *play) ask(what string) error {
	var got [2][]byte
	for n := range g.sides {
		ask := what
		if n == 1 {
			_, ask = g.renames.request(what, g.k.last)
		}
		reply, err := g.sides[n].control.Ask(ask)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", sideName(n), ask, err)
		}
		got[n] = reply
	}
	got[1] = g.renames.reply(got[0], got[1])
	if why := compareReply(got[0], got[1], g.Unquoted, asked{kept: g.Kept}); why != "" {
		return fmt.Errorf("%q at the end: %s", what, why)
	}
	return nil
}
