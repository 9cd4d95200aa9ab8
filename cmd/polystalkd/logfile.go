package main

import (
	"errors"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
)

// A logFile is the file of --log-file. It may be moved away at any time; reopen creates a new
// one. Several goroutines may write.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File
}

// openLogFile opens the file for appending. A new file belongs to the account acct, which
// opens it again after a rotation.
func openLogFile(path string, acct *account) (*logFile, error) {
	l := &logFile{path: path}
	f, err := openOwnFile(path, openAppend|os.O_EXCL, logFileMode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return l, l.reopen()
	case err != nil:
		return nil, err
	}
	if acct != nil {
		if err := f.Chown(acct.UID, acct.GID); err != nil && os.Geteuid() == 0 {
			f.Close()
			return nil, err
		}
	}
	l.use(f)
	return l, nil
}

const (
	logFileMode = 0o644
	openAppend  = os.O_WRONLY | os.O_APPEND | os.O_CREATE
)

// reopen opens the file at the path again. On an error the old file stays in use.
func (l *logFile) reopen() error {
	f, err := openOwnFile(l.path, openAppend, logFileMode)
	if err != nil {
		return err
	}
	l.use(f)
	return nil
}

func (l *logFile) use(f *os.File) {
	// The runtime writes a crash to the file too, since a daemon has no stderr. After an
	// error it writes to stderr alone.
	debug.SetCrashOutput(f, debug.CrashOptions{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	l.file = f
}

// Write implements io.Writer.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Write(p)
}
