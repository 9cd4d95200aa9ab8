package router

import (
	"time"

	"polystalk/shard/core"
)

// A client that submits a foreground job and waits for it is sent two packets:
// JOB_CREATED, which it does nothing about, and the result. To write to a socket
// is two thirds of what such a job costs, so a busy loop keeps JOB_CREATED back
// until there is something else to say, for lateMax at most: 3 writes a job
// become 2. A client that was seen to go on before the result, as one that
// submits several jobs does, is answered at once from then on.
const (
	lateMax = core.Time(2 * time.Millisecond)
	// busyGap between a loop's callbacks, on average, makes it a busy one. A
	// client and a worker that have the loop to themselves leave longer gaps.
	busyGap = core.Time(20 * time.Microsecond)
	// gapWeight is how many callbacks that average is over.
	gapWeight = 8
)

// lateness is what keeps JOB_CREATED of a session back.
type lateness struct {
	kept    []byte    // output; nothing else is to be sent before it
	since   core.Time // when that began
	alone   int       // the loop's output up to here is a JOB_CREATED and nothing else
	running bool      // a foreground job was created and has not ended
	eager   bool      // the client has gone on in the meantime
}

// A lateSession is a session with output kept back since then, unless it was sent
// and there is other since.
type lateSession struct {
	s     *session
	since core.Time
}

// seen notes that the client has sent a message.
func (n *lateness) seen() { n.eager = n.eager || n.running }

// created notes that a JOB_CREATED was written to the loop's output from there on.
func (n *lateness) created(l *loop, from int) {
	if from == 0 && !n.eager {
		n.alone = len(l.out)
	}
	n.running = true
}

// ended notes that the client has heard the end of a job.
func (n *lateness) ended() { n.running = false }

// keepLate keeps the loop's output for s back if it is of that kind and the loop
// is busy.
func (l *loop) keepLate(s *session) bool {
	n := &s.gear.late
	alone := n.alone
	n.alone = 0
	if alone != len(l.out) || l.gap > busyGap || l.runAfter == nil || s.eof || s.leaving {
		return false
	}
	n.kept = append(n.kept, l.out...)
	n.since = l.batch.Now
	if len(l.late) == 0 {
		l.unfinished.Add(1)
		l.lookLate(lateMax)
	}
	l.late = append(l.late, lateSession{s, n.since})
	return true
}

// sendKept sends what was kept back, and p behind it.
func (g *gearSession) sendKept(p []byte) {
	n := &g.late
	n.alone = 0
	if len(n.kept) > 0 && len(p) <= togetherMax {
		n.kept = append(n.kept, p...)
		p = nil
	}
	g.s.conn.Write(n.kept)
	n.kept = n.kept[:0]
	g.s.conn.Write(p)
}

// togetherMax bytes are copied to be sent with what was kept back.
const togetherMax = 4 << 10

// lookLate has sendLate called d from now.
func (l *loop) lookLate(d core.Time) {
	l.lateDue = l.batch.Now + d
	l.runAfter(time.Duration(d))
}

// sendLate sends what was kept back for long enough.
func (l *loop) sendLate() {
	if len(l.late) == 0 || l.batch.Now < l.lateDue {
		return
	}
	i := 0
	for ; i < len(l.late); i++ {
		e := l.late[i]
		if g := e.s.gear; len(g.late.kept) > 0 && g.late.since == e.since {
			if l.batch.Now-e.since < lateMax {
				break
			}
			g.sendKept(nil)
		}
	}
	k := copy(l.late, l.late[i:])
	clear(l.late[k:])
	if l.late = l.late[:k]; k == 0 {
		l.unfinished.Add(-1)
		return
	}
	l.lookLate(max(l.late[0].since+lateMax-l.batch.Now, lateStep))
}

// lateStep is the least time between two looks at what is kept back.
const lateStep = core.Time(200 * time.Microsecond)
