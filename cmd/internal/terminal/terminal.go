// Package terminal keeps what others have written from changing how a terminal shows the rest:
// control characters, and characters that turn the direction of text, become escapes.
package terminal

import (
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Hidden reports whether a character is not to be seen, or changes how others are seen.
func Hidden(r rune) bool { return !unicode.IsPrint(r) && r != utf8.RuneError }

// Safe returns s with escapes, on one line.
func Safe(s string) string {
	b, _ := appendSafe(nil, []byte(s), true)
	return string(b)
}

// appendSafe appends b with escapes. Line ends and tabs become escapes on one line, and stay
// otherwise. The end of b that may begin a character is left if more is to come.
func appendSafe(dst, b []byte, oneLine bool) (safe, left []byte) {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1 && !oneLine && !utf8.FullRune(b):
			return dst, b
		case r == utf8.RuneError && n == 1:
			dst = fmt.Appendf(dst, `\x%02X`, b[0])
		case !oneLine && (r == '\n' || r == '\t'), !Hidden(r):
			dst = append(dst, b[:n]...)
		case oneLine && r == '\n':
			dst = append(dst, `\n`...)
		case oneLine && r == '\r':
			dst = append(dst, `\r`...)
		case oneLine && r == '\t':
			dst = append(dst, `\t`...)
		case r < ' ', r < 0x80 && oneLine:
			dst = fmt.Appendf(dst, `\x%02X`, r)
		default:
			// As JSON has it: these may stand in the strings of a document as they are.
			for _, half := range utf16.AppendRune(nil, r) {
				dst = fmt.Appendf(dst, `\u%04X`, half)
			}
		}
		b = b[n:]
	}
	return dst, nil
}

// A Writer passes text on with escapes. Line ends and tabs stay.
type Writer struct {
	W     io.Writer
	begun []byte // the beginning of a character that is not complete
}

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (int, error) {
	safe, left := appendSafe(nil, slices.Concat(w.begun, b), false)
	w.begun = slices.Clone(left)
	if _, err := w.W.Write(safe); err != nil {
		return 0, err
	}
	return len(b), nil
}
