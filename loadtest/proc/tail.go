package proc

import (
	"cmp"
	"strings"
	"sync"
)

// A Tail keeps the last bytes written to it: what a process said before it
// ended, for the error that reports its end. The zero value is empty. It may be
// written to and read by several goroutines.
type Tail struct {
	mu sync.Mutex
	b  []byte
}

const tailLen = 2000

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - tailLen; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// String returns what was kept, without the space around it.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(strings.TrimSpace(string(t.b)), "(none)")
}
