package member

import (
	"fmt"
	"time"

	"polystalk/router/cluster/transport"
)

const (
	// endingSoon is how long before the certificate ends operators are told.
	endingSoon = 21 * 24 * time.Hour
	// endingAgain is how often they are.
	endingAgain = 24 * time.Hour
	// endingEvery is how often it is looked at: SIGHUP may have brought another.
	endingEvery = time.Minute
)

// What the log says of the certificate.
const (
	endsSoon = "the certificate of the cluster ends soon: from then on other servers do not believe this one when they are connected to anew"
	hasEnded = "the certificate of the cluster has ended: other servers do not believe this one any more when they are connected to anew"
)

// An endingWatch is what was said of when the certificate ends. The zero value is nothing.
type endingWatch struct {
	of    transport.Ending
	said  time.Time // that it ends soon; zero: never
	ended bool      // that it has ended was said
}

// look gives what is to be said at now; empty: nothing is. Of another certificate all is said anew.
func (w *endingWatch) look(of transport.Ending, now time.Time) string {
	if of != w.of {
		*w = endingWatch{of: of}
	}
	switch {
	case !now.Before(of.At):
		if w.ended {
			return ""
		}
		w.ended = true
		return hasEnded
	case of.At.Sub(now) > endingSoon, !w.said.IsZero() && now.Sub(w.said) < endingAgain:
		return ""
	}
	w.said = now
	return endsSoon
}

// remedyOf is what an operator does about a file that ends.
func remedyOf(flag string) string {
	if flag == "cluster-ca" {
		return "give all servers another certificate of the authority, then send each SIGHUP"
	}
	return "have the authority sign it again, then send SIGHUP"
}

// watchEnding tells operators before the certificate ends, and when it does. It is a goroutine, and
// ends with Close.
func (m *Member) watchEnding() {
	tick := time.NewTicker(endingEvery)
	defer tick.Stop()
	for w := new(endingWatch); ; {
		of := m.ways.security.Ending()
		if msg := w.look(of, time.Now()); msg != "" {
			m.log.Warn(msg, "from", m.o.Config.Origin(of.Flag), "file", of.File, "until", of.At.UTC(), "remedy", remedyOf(of.Flag))
		}
		select {
		case <-m.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Disbelieved implements admin.Cluster.
func (m *Member) Disbelieved() string {
	if m.ways.security == nil {
		return ""
	}
	return disbelieved(m.ways.security.Ending(), time.Now())
}

// disbelieved says that the certificate has ended; empty: it has not.
func disbelieved(of transport.Ending, now time.Time) string {
	if now.Before(of.At) {
		return ""
	}
	return fmt.Sprintf("--%s %q was valid until %s, and other servers do not believe this one any more: %s",
		of.Flag, of.File, of.At.UTC().Format("2006-01-02 15:04:05 UTC"), remedyOf(of.Flag))
}
