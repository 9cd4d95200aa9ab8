package output

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe is s as a terminal may have it: what is not to be seen, or changes how the rest is
// seen, is written as an escape, and so are the ends of lines.
func Safe(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02X`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case hidden(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02X`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// hidden reports whether a character is one that is not to be seen, such as those that turn
// the direction of text.
func hidden(r rune) bool { return !unicode.IsPrint(r) && r != utf8.RuneError }

// Binary reports whether a part of a body is to be kept from a terminal.
func Binary(b []byte) bool {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return utf8.FullRune(b[i:]) // else a character begins of which the rest is to come
		}
		if hidden(r) && r != '\n' && r != '\r' && r != '\t' {
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
func unseen(r rune) bool { return hidden(r) && r != '\n' && r != '\r' && r != '\t' }
