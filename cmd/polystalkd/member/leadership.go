package member

import (
	"log/slog"
	"time"

	"polystalk/router/cluster"
)

// For how long no server leads until an operator is told: an election takes one to two timeouts,
// and sometimes a second one.
const (
	leaderlessMin      = 10 * time.Second
	leaderlessTimeouts = 4
)

// A leadership is what a server that follows has said of who leads. Its methods are called by one
// at a time.
type leadership struct {
	leader, term uint64
	alarm        *time.Timer // that none does for long; nil: one does
}

// note says once who leads, each time that this is another server, or the same by another election;
// and that none does, if that lasts. Of itself a server says more once it serves.
func (l *leadership) note(v cluster.View, self uint64, log *slog.Logger, wait time.Duration) {
	if v.Leader == 0 {
		if l.alarm == nil {
			l.alarm = time.AfterFunc(wait, func() {
				log.Warn("no server of the cluster leads: clients wait until a majority of those that vote can talk to each other", "for", wait)
			})
		}
		return
	}
	l.end()
	if v.Leader == l.leader && v.Term == l.term {
		return
	}
	l.leader, l.term = v.Leader, v.Term
	if v.Leader == self {
		return
	}
	name := hex(v.Leader)
	if one := v.Members.Find(v.Leader); one != nil {
		name = one.Name
	}
	log.Info("another server leads: clients are handed to it", "node", name, "term", v.Term)
}

// end calls the alarm off.
func (l *leadership) end() {
	if l.alarm != nil {
		l.alarm.Stop()
		l.alarm = nil
	}
}
