package conversation

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A token is a piece of a pattern: literal bytes, or a placeholder.
type token struct {
	kind   tokenKind
	text   string // tokenLiteral: the bytes; tokenHeader: magic and type; tokenName, tokenVar: the name
	lo, hi int64  // tokenNumber: the bounds; tokenNow: lo seconds from now
}

type tokenKind int

const (
	tokenLiteral tokenKind = iota
	tokenNumber
	tokenAny
	tokenSize
	tokenName
	tokenNow
	tokenVar
	tokenHeader // the header of a packet; its size is computed from the rest
)

// repeatMax bounds {n*text} at a size above any default limit of a body.
const repeatMax = 16 << 20

// compile resolves escapes and placeholders.
func compile(text string) (tokens []token, err error) {
	var lit []byte
	add := func(t token) {
		if t.kind == tokenLiteral {
			lit = append(lit, t.text...)
			return
		}
		if len(lit) > 0 {
			tokens = append(tokens, token{text: string(lit)})
			lit = nil
		}
		tokens = append(tokens, t)
	}
	for text != "" {
		n := 1
		switch text[0] {
		case '\\':
			var c byte
			if c, n, err = unescape(text); err != nil {
				return nil, err
			}
			lit = append(lit, c)
		case '<', '{':
			end := strings.IndexByte(text, map[byte]byte{'<': '>', '{': '}'}[text[0]])
			if end < 2 {
				return nil, fmt.Errorf("unclosed or empty %c in %q", text[0], text)
			}
			t, n2 := token{kind: tokenName, text: text[1:end]}, end+1
			if text[0] == '{' {
				if t, err = placeholder(text[1:end]); err != nil {
					return nil, err
				}
			}
			add(t)
			n = n2
		default:
			lit = append(lit, text[0])
		}
		text = text[n:]
	}
	if len(lit) > 0 {
		tokens = append(tokens, token{text: string(lit)})
	}
	return tokens, nil
}

func placeholder(inner string) (token, error) {
	switch inner {
	case "n":
		return token{kind: tokenNumber, hi: math.MaxInt64}, nil
	case "any":
		return token{kind: tokenAny}, nil
	case "size":
		return token{kind: tokenSize}, nil
	case "version", "host":
		return token{kind: tokenVar, text: inner}, nil
	}
	for prefix, t := range map[string]token{
		"near ": {kind: tokenNumber, lo: -1, hi: 1}, "over ": {kind: tokenNumber, lo: 1, hi: math.MaxInt32}, "now+": {kind: tokenNow},
	} {
		if number, ok := strings.CutPrefix(inner, prefix); ok {
			n, err := strconv.ParseInt(number, 10, 64)
			t.lo, t.hi = t.lo+n, t.hi+n
			return t, err
		}
	}
	count, what, ok := strings.Cut(inner, "*")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 0 || n*len(what) > repeatMax {
		return token{}, fmt.Errorf("no such placeholder: {%s}", inner)
	}
	tokens, err := compile(what)
	if err != nil || len(tokens) != 1 || tokens[0].kind != tokenLiteral {
		return token{}, fmt.Errorf("no text to repeat: {%s} (%w)", inner, err)
	}
	return token{text: strings.Repeat(tokens[0].text, n)}, nil
}

// escapes are the bytes with an escape of one letter.
var escapes = map[byte]byte{'r': '\r', 'n': '\n', 't': '\t', '0': 0, '\\': '\\', '{': '{', '<': '<'}

func unescape(text string) (c byte, n int, err error) {
	if len(text) >= 2 {
		if c, ok := escapes[text[1]]; ok {
			return c, 2, nil
		}
	}
	if len(text) >= 4 && text[1] == 'x' {
		v, err := strconv.ParseUint(text[2:4], 16, 8)
		return byte(v), 4, err
	}
	return 0, 0, fmt.Errorf("no such escape: %q", text[:min(len(text), 4)])
}

// escape is the inverse of compile for literals. Long runs of one byte become a repeat.
func escape(b []byte) string {
	var s strings.Builder
	for i := 0; i < len(b); i++ {
		run := 1
		for i+run < len(b) && b[i+run] == b[i] {
			run++
		}
		switch c := b[i]; {
		case run > 40 && c > ' ' && c < 0x7f && !strings.ContainsRune(`\{}<*`, rune(c)):
			fmt.Fprintf(&s, "{%d*%c}", run, c)
			i += run - 1
		case c == '\\' || c == '{' || c == '<':
			s.WriteByte('\\')
			s.WriteByte(c)
		case c == 0 && (i+1 == len(b) || b[i+1] < '0' || b[i+1] > '9'):
			s.WriteString(`\0`)
		case strings.IndexByte("\r\n\t", c) >= 0:
			s.WriteString(strings.Trim(strconv.Quote(string(rune(c))), `"`))
		case c < ' ' || c >= 0x7f || c == ' ' && i == len(b)-1:
			fmt.Fprintf(&s, `\x%02x`, c)
		default:
			s.WriteByte(c)
		}
	}
	return s.String()
}

// values are the values of a conversation's placeholders.
type values struct {
	vars  map[string]string // version and host
	names map[string]string // the numbers of <names>
	now   func() time.Time
}

// expand renders a pattern for sending.
func (v *values) expand(tokens []token) ([]byte, error) {
	var out []byte
	head := ""
	for _, t := range tokens {
		switch t.kind {
		case tokenLiteral:
			out = append(out, t.text...)
		case tokenHeader:
			head = t.text
		case tokenVar:
			out = append(out, v.vars[t.text]...)
		case tokenNow:
			out = strconv.AppendInt(out, v.now().Unix()+t.lo, 10)
		case tokenName:
			number, ok := v.names[t.text]
			if !ok {
				return nil, fmt.Errorf("<%s> is sent before it was received", t.text)
			}
			out = append(out, number...)
		default:
			return nil, errors.New("placeholder in what is sent")
		}
	}
	if head != "" {
		out = append(binary.BigEndian.AppendUint32([]byte(head), uint32(len(out))), out...)
	}
	return out, nil
}

// The outcomes of match other than success. errMore says that the bytes are the beginning
// of a match.
var (
	errMore     = errors.New("more bytes are needed")
	errMismatch = errors.New("the bytes are others")
)

// match compares the beginning of b with a pattern, and binds names that are new. It
// returns the length of what matches, and the number that {size} stands for, or -1.
func (v *values) match(tokens []token, b []byte) (n, size int, err error) {
	size = -1
	end, rest := -1, b // end is where the packet ends
	for i, t := range tokens {
		switch t.kind {
		case tokenVar:
			t.text = v.vars[t.text]
			fallthrough
		case tokenLiteral:
			if len(rest) < len(t.text) && bytes.HasPrefix([]byte(t.text), rest) {
				return 0, size, errMore
			}
			if !bytes.HasPrefix(rest, []byte(t.text)) {
				return 0, size, errMismatch
			}
			rest = rest[len(t.text):]
		case tokenHeader:
			k := min(len(rest), len(t.text))
			if string(rest[:k]) != t.text[:k] {
				return 0, size, errMismatch
			}
			if len(rest) < len(t.text)+4 {
				return 0, size, errMore
			}
			rest = rest[len(t.text):]
			end = len(t.text) + 4 + int(binary.BigEndian.Uint32(rest))
			if rest = rest[4:]; len(b) < end {
				return 0, size, errMore
			}
			rest = rest[:end-len(t.text)-4]
		case tokenAny:
			k := len(rest)
			if i+1 < len(tokens) {
				if k = bytes.Index(rest, []byte(tokens[i+1].text)); k < 0 {
					return 0, size, errMore
				}
			}
			rest = rest[k:]
		default:
			digits := rest[:countDigits(rest)]
			switch number, err := strconv.ParseInt(string(digits), 10, 64); {
			case len(digits) == len(rest) && end < 0:
				return 0, size, errMore
			case err != nil && (t.kind != tokenNumber || t.hi != math.MaxInt64 || len(digits) == 0):
				return 0, size, errMismatch
			case t.kind == tokenNumber && err == nil && (number < t.lo || number > t.hi):
				return 0, size, errMismatch
			case t.kind == tokenSize:
				size = int(number)
			case t.kind == tokenName:
				if known, ok := v.names[t.text]; ok && known != string(digits) {
					return 0, size, fmt.Errorf("%w: <%s> is %s", errMismatch, t.text, known)
				}
				v.names[t.text] = string(digits)
			}
			rest = rest[len(digits):]
		}
	}
	if end >= 0 && len(rest) > 0 {
		return 0, size, errMismatch
	}
	if end >= 0 {
		return end, size, nil
	}
	return len(b) - len(rest), size, nil
}

func countDigits(b []byte) int {
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return n
}

func clip(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s … (%d bytes)", s[:most], len(s))
}
