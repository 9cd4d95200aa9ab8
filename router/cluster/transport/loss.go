package transport

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"time"
)

// A loss is what is wrong with the connection to a node. A node that is started again, or begins
// anew, is gone for a moment, and nobody need do anything: that is told once, quietly. An operator
// is to act on what lasts, and on what does not pass by itself, as a certificate that is refused.
// The zero value: nothing is wrong.
type loss struct {
	text   string    // as it was told last; empty: the connection is there
	since  time.Time // when it was lost
	warned bool      // that it lasts was told
}

// patience is how long a node is gone before that is more than a start of it.
const patience = 10 * time.Second

// Why a connection has ended.
var (
	errClosed  = errors.New("it has closed the connection")
	errAnew    = errors.New("it is connected to anew")
	errUnshown = errors.New("it has closed the connection without showing who it is")
)

// note takes in why there is no connection, and says whether and how that is to be told.
func (l *loss) note(err error, now time.Time) (level slog.Level, tell bool) {
	if l.since.IsZero() {
		l.since = now
	}
	isNew := l.text != err.Error()
	l.text = err.Error()
	switch {
	case now.Sub(l.since) >= patience:
		tell = isNew || !l.warned
		l.warned = true
		return slog.LevelWarn, tell
	case passes(err):
		return slog.LevelInfo, isNew
	}
	return slog.LevelWarn, isNew
}

// passes reports whether an error is one of those of a node that ends and starts.
func passes(err error) bool {
	var refused *Refused
	var op *net.OpError
	switch {
	case errors.As(err, &refused):
		return refused.Reason == errNoMember.Error()
	case errors.As(err, &op):
		return op.Op == "dial" || op.Op == "read" || op.Op == "write"
	}
	for _, one := range []error{errClosed, errAnew, errUnshown, io.EOF, net.ErrClosed, os.ErrDeadlineExceeded} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
