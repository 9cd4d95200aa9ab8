// Package again has the process execute itself anew: with the same id, the same command line
// and the same listening sockets, and nothing else of what it was. Clients that connect
// meanwhile wait in the backlog.
//
// A server of a cluster does so where its shards hold what may never come to be, or its
// journal was exchanged: the way back is then that of any start. To start a second process
// would do the same, but whoever looks after the first one, be it a service manager or a
// script with a file of its id, would take it for ended.
package again

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"polystalk/cmd/polystalkd/listen"
)

// Variable has what one life leaves to the next.
const Variable = "POLYSTALKD_AGAIN"

// A Legacy is what one life of the process leaves to the next.
type Legacy struct {
	Sockets  *listen.Kept
	StartDir string // the working directory of the first life, for paths that are relative to it
	Short    int    // how many lives in a row, up to this one, were short
}

// Take is what the life before this one has left; nil: there was none. It is called once,
// before the environment is read for anything else.
func Take() (*Legacy, error) {
	text, ok := os.LookupEnv(Variable)
	if !ok {
		return nil, nil
	}
	os.Unsetenv(Variable)
	l := &Legacy{Sockets: new(listen.Kept)}
	if err := json.Unmarshal([]byte(text), l); err != nil {
		return nil, fmt.Errorf("variable %s: %w: it is the program's own: leave it out", Variable, err)
	}
	return l, nil
}

const (
	// shortLife is what a life has to last so that the next begins at once.
	shortLife = time.Minute
	pauseMin  = 100 * time.Millisecond
	pauseMax  = 10 * time.Second
)

// Pause is how long to wait before the next life, after this one has lasted for so long; last
// is what the one before it left, nil if there was none. The first time it is nothing: a
// process that cannot get on must not keep a processor busy with starting, but one that was
// deposed is wanted soon.
func Pause(last *Legacy, lasted time.Duration) (pause time.Duration, short int) {
	if last == nil || lasted >= shortLife {
		return 0, 0
	}
	short = last.Short + 1
	return min(pauseMin<<min(short-1, 20), pauseMax), short
}

// Exec begins the next life. It returns only with an error; the process is to end then.
func (l *Legacy) Exec() error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	path, err := program()
	if err != nil {
		return err
	}
	if err := l.Sockets.Pass(); err != nil {
		return err
	}
	return os.NewSyscallError("exec "+path, syscall.Exec(path, os.Args, append(os.Environ(), Variable+"="+string(text))))
}
