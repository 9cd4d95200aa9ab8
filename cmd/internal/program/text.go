package program

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// hidden reports whether a character is invisible or changes how other characters are shown.
func hidden(r rune) bool { return !unicode.IsPrint(r) && r != utf8.RuneError }

// IsText reports whether b is text without hidden characters, except white space.
func IsText(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexFunc(b, func(r rune) bool { return hidden(r) && r != '\n' && r != '\r' && r != '\t' }) < 0
}

// Safe returns s on one line. Control characters, and characters that change the direction of
// text, become escapes.
func Safe(s string) string {
	b, _ := appendSafe(nil, []byte(s), true)
	return string(b)
}

// appendSafe appends b with escapes. With oneLine it also escapes line ends and tabs; without it,
// it returns an incomplete character at the end of b as left, for the next call.
func appendSafe(dst, b []byte, oneLine bool) (safe, left []byte) {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1 && !oneLine && !utf8.FullRune(b):
			return dst, b
		case r == utf8.RuneError && n == 1:
			dst = fmt.Appendf(dst, `\x%02X`, b[0])
		case !oneLine && (r == '\n' || r == '\t'), !hidden(r):
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
			// JSON's escape, because these characters may be in the strings of a document.
			for _, half := range utf16.AppendRune(nil, r) {
				dst = fmt.Appendf(dst, `\u%04X`, half)
			}
		}
		b = b[n:]
	}
	return dst, nil
}

// A Writer writes text with escapes to W. Line ends and tabs stay.
type Writer struct {
	W     io.Writer
	begun []byte // the beginning of a character
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
