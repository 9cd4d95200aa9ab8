package access

import (
	"crypto/sha256"
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

// pipeWithin is the timeout for the writer of a pipe.
const pipeWithin = 2 * time.Second

// ReadSecret reads a file of at most most bytes. The file may be a pipe, such as a shell's
// <(COMMAND). A pipe without a writer, or with a slow writer, yields an empty text or an error,
// so that it cannot block the start or a reload.
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
		return nil, fmt.Errorf("%s is not a file", path)
	}
	f.SetReadDeadline(time.Now().Add(pipeWithin)) // fails for a regular file, which never blocks
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(text) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}
