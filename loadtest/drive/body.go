package drive

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// StampLen is how many bytes a stamp takes. A stamp is a sequence number or a
// time, in hexadecimal; whoever gets a job back knows which to expect. The
// first bytes of a body are its stamp, cut to the body's length, and the rest is
// a fixed text.
const StampLen = 16

// NewBody is the template of a body of n bytes, to be stamped.
func NewBody(n int) []byte { return bytes.Repeat([]byte("polystalk-load-"), n/15+1)[:n] }

// PutStamp overwrites the beginning of b with a stamp, or with as much of it as
// b has room for.
func PutStamp(b []byte, stamp uint64) {
	var raw [8]byte
	var text [StampLen]byte
	binary.BigEndian.PutUint64(raw[:], stamp)
	hex.Encode(text[:], raw[:])
	copy(b, text[:])
}

// Stamp returns the stamp at the beginning of b.
func Stamp(b []byte) (uint64, error) {
	var raw [8]byte
	if len(b) < StampLen {
		return 0, fmt.Errorf("body of %d bytes has no stamp", len(b))
	}
	if _, err := hex.Decode(raw[:], b[:StampLen]); err != nil {
		return 0, fmt.Errorf("body %.40q has no stamp: %w", b, err)
	}
	return binary.BigEndian.Uint64(raw[:]), nil
}
