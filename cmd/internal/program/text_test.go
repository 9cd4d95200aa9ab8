package program

import (
	"strings"
	"testing"
)

// TestWriterPassesNothingHidden, and keeps the meaning of JSON, wherever a write ends.
func TestWriterPassesNothingHidden(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\n日本": "a\tb\n日本", "\x1b[2J\r\x07": `\x1B[2J\x0D\x07`, "\u202e\u2066\x7f\u009b": `\u202E\u2066\u007F\u009B`,
		"\U000e0001": `\uDB40\uDC01`, "\xff\xc3a": `\xFF\xC3a`, "\ufffd": "\ufffd",
	} {
		for size := 1; size <= len(text); size++ {
			var b strings.Builder
			w := &Writer{W: &b}
			for at := 0; at < len(text); at += size {
				if n, err := w.Write([]byte(text[at:min(len(text), at+size)])); err != nil || n == 0 {
					t.Fatal(n, err)
				}
			}
			if b.String() != want {
				t.Errorf("%q, %d octets at a time: %q, want %q", text, size, b.String(), want)
			}
		}
	}
}
