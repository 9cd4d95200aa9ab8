package output

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"polystalk/cmd/internal/terminal"
)

// Binary reports whether a part of a body is to be kept from a terminal.
func Binary(b []byte) bool {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return utf8.FullRune(b[i:]) // else a character begins of which the rest is to come
		}
		if terminal.Hidden(r) && r != '\n' && r != '\r' && r != '\t' {
			return true
		}
		i += n
	}
	return false
}

// safeJSON writes the characters of a document that are not to be seen as escapes. It means
// the same then: they can stand in its strings alone.
func safeJSON(document []byte) []byte {
	text := string(document)
	if utf8.ValidString(text) && strings.IndexFunc(text, unseen) < 0 {
		return document
	}
	var b []byte
	for _, r := range text {
		switch {
		case unseen(r) && r > 0xFFFF:
			high, low := (r-0x10000)>>10+0xD800, (r-0x10000)&0x3FF+0xDC00
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		case unseen(r):
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// unseen are hidden characters but for the space that JSON may have between its parts.
func unseen(r rune) bool { return terminal.Hidden(r) && r != '\n' && r != '\r' && r != '\t' }
