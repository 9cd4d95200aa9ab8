package session

import (
	"sync/atomic"
	"time"

	"polystalk/shard/stats"
)

// A HandshakeResult says how a TLS handshake has ended.
type HandshakeResult int

// The results.
const (
	HandshakeFull    HandshakeResult = iota
	HandshakeResumed                 // with a ticket of an earlier connection
	HandshakeFailed
	HandshakeTimeout
	HandshakeRefused // it did not begin: its address had too many in progress
	NumHandshakeResults
)

// String returns the result's name in metrics.
func (r HandshakeResult) String() string {
	return [...]string{"full", "resumed", "failed", "timeout", "refused"}[r]
}

// Handshakes counts TLS handshakes. Any goroutine may use it.
type Handshakes struct {
	Pending atomic.Int64
	Results [NumHandshakeResults]atomic.Uint64
	Seconds stats.Histogram // of handshakes that have succeeded
}

// Count counts a handshake that took some time.
func (h *Handshakes) Count(r HandshakeResult, took time.Duration) {
	h.Results[r].Add(1)
	if r <= HandshakeResumed {
		h.Seconds.Took(took)
	}
}
