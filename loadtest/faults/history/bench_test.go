package history

import "testing"

// BenchmarkLife is a job's whole life; what stays of it is the record.
func BenchmarkLife(b *testing.B) {
	h := New(Options{Tubes: []string{"a"}})
	s := h.Connect()
	body := bodyOf(1)
	b.ReportAllocs()
	for at := int64(1); b.Loop(); at += 8 {
		t := h.Token()
		copy(body, bodyOf(t))
		h.Putting(t, Put{Pri: 7, TTR: 60, Body: body}, at)
		h.Inserted(t, uint64(t), Call{at + 1, at + 2})
		s.Reserved(uint64(t), body, Call{at + 3, at + 4})
		s.Deleted(t, Call{at + 5, at + 6})
	}
	if len(h.rules) > 0 {
		b.Error(h.rules)
	}
}
