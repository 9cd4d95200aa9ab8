package conversation

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A token is a piece of a transcript's text: bytes that stand for themselves,
// or a placeholder.
type token struct {
	kind tokenKind
	lit  []byte // tokenLiteral
	name string // tokenID
	num  int64  // tokenNear
}

type tokenKind int

const (
	tokenLiteral tokenKind = iota
	tokenNumber
	tokenAny
	tokenNear
	tokenSize
	tokenID
)

// repeatMax bounds {n*text}: large enough for a body above the default
// max-job-size, small enough that a slip of the pen does not eat the machine.
const repeatMax = 16 << 20

// compile resolves escapes and placeholders.
func compile(text string) ([]token, error) {
	var tokens []token
	var lit []byte
	flush := func() {
		if len(lit) > 0 {
			tokens = append(tokens, token{kind: tokenLiteral, lit: lit})
			lit = nil
		}
	}
	for text != "" {
		switch text[0] {
		case '\\':
			b, n, err := unescape(text)
			if err != nil {
				return nil, err
			}
			lit = append(lit, b)
			text = text[n:]
		case '<':
			name, rest, ok := strings.Cut(text[1:], ">")
			if !ok || name == "" {
				return nil, fmt.Errorf("unclosed <name> in %q", text)
			}
			flush()
			tokens = append(tokens, token{kind: tokenID, name: name})
			text = rest
		case '{':
			inner, rest, ok := strings.Cut(text[1:], "}")
			if !ok {
				return nil, fmt.Errorf("unclosed {placeholder} in %q", text)
			}
			t, err := placeholder(inner)
			if err != nil {
				return nil, err
			}
			if t.kind == tokenLiteral {
				lit = append(lit, t.lit...)
			} else {
				flush()
				tokens = append(tokens, t)
			}
			text = rest
		default:
			lit = append(lit, text[0])
			text = text[1:]
		}
	}
	flush()
	return tokens, nil
}

func placeholder(inner string) (token, error) {
	switch {
	case inner == "n":
		return token{kind: tokenNumber}, nil
	case inner == "any":
		return token{kind: tokenAny}, nil
	case inner == "size":
		return token{kind: tokenSize}, nil
	case strings.HasPrefix(inner, "near "):
		n, err := strconv.ParseInt(inner[len("near "):], 10, 64)
		return token{kind: tokenNear, num: n}, err
	}
	count, what, ok := strings.Cut(inner, "*")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 0 || n*len(what) > repeatMax {
		return token{}, fmt.Errorf("no such placeholder: {%s}", inner)
	}
	return token{kind: tokenLiteral, lit: bytes.Repeat([]byte(what), n)}, nil
}

func unescape(text string) (b byte, n int, err error) {
	if len(text) < 2 {
		return 0, 0, fmt.Errorf("lone backslash at the end")
	}
	switch text[1] {
	case 'r':
		return '\r', 2, nil
	case 'n':
		return '\n', 2, nil
	case 't':
		return '\t', 2, nil
	case '0':
		return 0, 2, nil
	case '\\', '{', '<':
		return text[1], 2, nil
	case 'x':
		if len(text) >= 4 {
			v, err := strconv.ParseUint(text[2:4], 16, 8)
			return byte(v), 4, err
		}
	}
	return 0, 0, fmt.Errorf("no such escape: %q", text[:2])
}

// escape writes bytes as transcript text; the inverse of compile on literals.
// Long runs of one byte become a repeat.
func escape(b []byte) string {
	var s strings.Builder
	for i := 0; i < len(b); {
		run := 1
		for i+run < len(b) && b[i+run] == b[i] {
			run++
		}
		if run > 40 && b[i] > ' ' && b[i] < 0x7f && !strings.ContainsRune(`\{}<*`, rune(b[i])) {
			fmt.Fprintf(&s, "{%d*%c}", run, b[i])
			i += run
			continue
		}
		switch c := b[i]; {
		case c == '\r':
			s.WriteString(`\r`)
		case c == '\n':
			s.WriteString(`\n`)
		case c == '\t':
			s.WriteString(`\t`)
		case c == 0:
			s.WriteString(`\0`)
		case c == '\\' || c == '{' || c == '<':
			s.WriteByte('\\')
			s.WriteByte(c)
		case c < ' ' || c >= 0x7f || (c == ' ' && i == len(b)-1):
			fmt.Fprintf(&s, `\x%02x`, c)
		default:
			s.WriteByte(c)
		}
		i++
	}
	return s.String()
}

// A binding maps the <names> of a transcript to the ids a server gave out.
type binding map[string]string

// expand renders text for sending.
func (v binding) expand(text string) ([]byte, error) {
	tokens, err := compile(text)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, t := range tokens {
		switch t.kind {
		case tokenLiteral:
			out = append(out, t.lit...)
		case tokenID:
			id, ok := v[t.name]
			if !ok {
				return nil, fmt.Errorf("<%s> is sent before it was received", t.name)
			}
			out = append(out, id...)
		default:
			return nil, fmt.Errorf("placeholder in what is sent: %q", text)
		}
	}
	return out, nil
}

// match compares one line with its pattern and binds new names. size is the
// number that {size} stood for, or -1.
func (v binding) match(text string, line []byte) (size int, err error) {
	tokens, err := compile(text)
	if err != nil {
		return -1, err
	}
	size = -1
	rest := line
	for i, t := range tokens {
		switch t.kind {
		case tokenLiteral:
			if !bytes.HasPrefix(rest, t.lit) {
				return size, mismatch(text, line)
			}
			rest = rest[len(t.lit):]
		case tokenAny:
			end := len(rest)
			if i+1 < len(tokens) && tokens[i+1].kind == tokenLiteral {
				if end = bytes.Index(rest, tokens[i+1].lit); end < 0 {
					return size, mismatch(text, line)
				}
			}
			rest = rest[end:]
		default:
			digits := rest[:countDigits(rest)]
			n, err := strconv.ParseInt(string(digits), 10, 64)
			if err != nil && t.kind != tokenNumber && t.kind != tokenID || len(digits) == 0 {
				return size, mismatch(text, line)
			}
			switch t.kind {
			case tokenNear:
				if n < t.num-1 || n > t.num+1 {
					return size, mismatch(text, line)
				}
			case tokenSize:
				size = int(n)
			case tokenID:
				if known, ok := v[t.name]; !ok {
					v[t.name] = string(digits)
				} else if known != string(digits) {
					return size, fmt.Errorf("%w (<%s> is %s)", mismatch(text, line), t.name, known)
				}
			}
			rest = rest[len(digits):]
		}
	}
	if len(rest) > 0 {
		return size, mismatch(text, line)
	}
	return size, nil
}

func countDigits(b []byte) int {
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return n
}

func mismatch(want string, got []byte) error {
	return fmt.Errorf("got  %s\n\twant %s", abbreviate(escape(got)), abbreviate(want))
}

func abbreviate(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s … (%d bytes)", s[:most], len(s))
}
