package gearman

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"polystalk/codec/beanstalk"
)

const hexDigits = "0123456789abcdef"

// AppendQuoted appends the name of a function as lists for beanstalkd clients show it: unchanged
// if it is a valid tube name, else in double quotes, which no tube name has. Inside, quote and
// backslash have a backslash before them, tab, line end and carriage return are \t \n \r, and any
// other byte that is no part of a printable character is \x and two digits. AppendUnquoted is the
// inverse.
func AppendQuoted(dst, name []byte) []byte {
	if beanstalk.ValidTubeName(name) {
		return append(dst, name...)
	}
	dst = append(dst, '"')
	for len(name) > 0 {
		r, n := utf8.DecodeRune(name)
		switch c := name[0]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case n > 1 && unicode.IsPrint(r), c >= ' ' && c < 0x7f:
			dst = append(dst, name[:n]...)
		default:
			for _, c := range name[:n] {
				dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
			}
		}
		name = name[n:]
	}
	return append(dst, '"')
}

// appendListed appends a name, or a unique, unchanged as in gearmand's lists. It uses AppendQuoted
// for a name with a control byte, which a program could take for the end of a line or column, and
// for a name that already looks like a result of AppendQuoted, so that no two names look the same.
func appendListed(dst []byte, name string) []byte {
	if breaksLines(name) {
		return AppendQuoted(dst, []byte(name))
	}
	return append(dst, name...)
}

// breaksLines reports whether a program could misread name in a list. Unicode's line separators
// count, since some libraries split lines at them.
func breaksLines(name string) bool {
	if name != "" && name[0] == '"' {
		if inside, ok := AppendUnquoted(nil, []byte(name)); ok && breaksLines(string(inside)) {
			return true
		}
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c < ' ' || c == 0x7f:
			return true
		case c >= utf8.RuneSelf:
			return strings.ContainsFunc(name[i:], endsLine)
		}
	}
	return false
}

// endsLine reports whether a program may take r for the end of a line or word.
func endsLine(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) }

// AppendUnquoted appends the name that s represents. Not ok, and nothing appended: s is neither a
// valid tube name nor a string in double quotes with escapes of AppendQuoted. It also accepts
// escapes where AppendQuoted would not use them.
func AppendUnquoted(dst, s []byte) (name []byte, ok bool) {
	if beanstalk.ValidTubeName(s) {
		return append(dst, s...), true
	}
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return dst, false
	}
	s = s[1 : len(s)-1]
	name = dst
	for len(s) > 0 {
		c, n, ok := unescape(s)
		if !ok {
			return dst, false
		}
		name = append(name, c)
		s = s[n:]
	}
	return name, true
}

// unescape reads the first byte of s, which takes n bytes if it is escaped.
func unescape(s []byte) (c byte, n int, ok bool) {
	if s[0] != '\\' {
		return s[0], 1, s[0] != '"'
	}
	if len(s) < 2 {
		return 0, 0, false
	}
	switch s[1] {
	case '"', '\\':
		return s[1], 2, true
	case 't':
		return '\t', 2, true
	case 'n':
		return '\n', 2, true
	case 'r':
		return '\r', 2, true
	case 'x':
		if len(s) < 4 {
			return 0, 0, false
		}
		high, ok1 := hexDigit(s[2])
		low, ok2 := hexDigit(s[3])
		return high<<4 | low, 4, ok1 && ok2
	}
	return 0, 0, false
}

func hexDigit(c byte) (v byte, ok bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}
