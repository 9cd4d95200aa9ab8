package main

import (
	"errors"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
)

// A logFile is the file of --log-file. It can be moved away at any time: reopen
// makes a new one. Several goroutines may write.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File
}

// openLogFile opens the file for appending, and makes it as who's: after a rotation
// that account opens it.
func openLogFile(path string, who *account) (*logFile, error) {
	l := &logFile{path: path}
	f, err := openOwnFile(path, openAppend|os.O_EXCL, logFileMode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return l, l.reopen()
	case err != nil:
		return nil, err
	}
	if who != nil {
		if err := f.Chown(who.UID, who.GID); err != nil && os.Geteuid() == 0 {
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

// reopen opens whatever has the path now. On an error the old file stays in use.
func (l *logFile) reopen() error {
	f, err := openOwnFile(l.path, openAppend, logFileMode)
	if err != nil {
		return err
	}
	l.use(f)
	return nil
}

func (l *logFile) use(f *os.File) {
	// What the runtime has to say about a crash would be lost with a daemon's stderr.
	// An error leaves it on stderr alone.
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
