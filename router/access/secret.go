package access

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// A digest is the SHA-256 of a token.
type digest [sha256.Size]byte

// DigestOf returns the digest of a token.
func DigestOf(token string) digest { return sha256.Sum256([]byte(token)) }

const (
	// pipeWithin is the timeout for the writer of a pipe.
	pipeWithin = 2 * time.Second
	// fileMax is the size of the largest file, in bytes. It bounds the time to read a file that was
	// named by mistake.
	fileMax = 1 << 20
)

var (
	errIrregular = errors.New("it is not a regular file, which a reload could read again")
	errTooLarge  = fmt.Errorf("it has more than %d bytes", fileMax)
)

// ReadFile reads a small file. If pipes is set, the file may be a pipe, such as a shell's <(COMMAND).
// A pipe without a writer, or with a slow writer, yields an empty text or an error, so that it cannot
// block the start or a reload.
func ReadFile(path string, pipes bool) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !pipes && info.Mode()&fs.ModeNamedPipe != 0 {
		err = errIrregular
	}
	if err != nil {
		return nil, err
	}
	f.SetReadDeadline(time.Now().Add(pipeWithin)) // fails for a regular file, which never blocks
	text, err := io.ReadAll(io.LimitReader(f, fileMax+1))
	if err == nil && len(text) > fileMax {
		err = errTooLarge
	}
	return text, err
}
