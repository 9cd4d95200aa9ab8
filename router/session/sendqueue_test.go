package session

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestSendQueueGivesBackWhatItCounts plays random additions and partial writes: the queue returns
// the same bytes, and an empty queue uses no memory of the account.
func TestSendQueueGivesBackWhatItCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	acct := newAccount(1 << 40)
	shared := bytes.Repeat([]byte("shared "), 3000)
	for round := range 300 {
		q := &SendQueue{Account: acct}
		var want, got []byte
		pour := func(most int) {
			var bufs [][]byte
			if rng.IntN(2) == 0 {
				bufs = make([][]byte, 0, 1+rng.IntN(4))
			}
			n := rng.IntN(most + 1)
			left := n
			for _, p := range q.Peek(bufs, most) {
				k := min(left, len(p))
				got = append(got, p[:k]...)
				left -= k
			}
			q.Sent(n - left)
		}
		for range rng.IntN(100) {
			switch rng.IntN(5) {
			case 0:
				q.Add(shared, true)
				want = append(want, shared...)
			case 1, 2:
				p := make([]byte, rng.IntN(1<<rng.IntN(15)))
				for i := range p {
					p[i] = byte(rng.Uint32())
				}
				q.Add(p, false)
				want = append(want, p...)
				clear(p)
			case 3:
				pour(1 << rng.IntN(18))
			}
			if q.bytes != len(want)-len(got) {
				t.Fatalf("%d bytes unsent, want %d", q.bytes, len(want)-len(got))
			}
			if n := acct.Sum(); n < 0 || q.bytes > 0 && n == 0 && acct.parts.Load() == 0 {
				t.Fatalf("%d bytes unsent, %d counted", q.bytes, n)
			}
		}
		if round%3 == 0 {
			q.Drop()
		} else {
			for q.bytes > 0 {
				pour(1 << 20)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("round %d: %d bytes came, other than the %d that went", round, len(got), len(want))
			}
		}
		if n := acct.Sum(); n != 0 || acct.parts.Load() != 0 {
			t.Fatalf("round %d: %d bytes and %d parts are counted for an empty queue", round, n, acct.parts.Load())
		}
	}
}

// TestSmallRepliesShareBlocks: the counted memory is about the size of the replies, also with
// shared bodies between them.
func TestSmallRepliesShareBlocks(t *testing.T) {
	a := newAccount(1 << 40)
	q := &SendQueue{Account: a}
	body := make([]byte, 1000)
	const n = 2000
	for range n {
		q.Add(make([]byte, 40), false)
		q.Add(body, true)
	}
	if got, most := a.Sum(), int64(n*(40+partCost)+2*blockMax); got > most {
		t.Errorf("%d bytes counted for %d small replies, want at most %d", got, n, most)
	}
}
