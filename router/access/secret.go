package access

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// pipeWithin is how long the writer of a pipe has for all of it.
const pipeWithin = 2 * time.Second

// ReadSecret reads a file of at most so many bytes, at the start or when all such files are
// read again. It may be a pipe, as a shell's <(COMMAND) is; without a writer, or with one that
// has nothing to say, that holds up neither the start nor a reload, and with it the signals
// that come meanwhile: it is empty then, or an error.
func ReadSecret(path string, most int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && info.Mode()&fs.ModeNamedPipe == 0 {
		return nil, fmt.Errorf("%s is no file", path)
	}
	f.SetReadDeadline(time.Now().Add(pipeWithin)) // a file has none
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(text) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}
