package gearmantest

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// packets are the names that PROTOCOL gives the packet types. They stand here a
// second time, so that a wrong number in the codec is not repeated.
var packets = strings.Fields(`TEXT CAN_DO CANT_DO RESET_ABILITIES PRE_SLEEP UNUSED NOOP SUBMIT_JOB JOB_CREATED GRAB_JOB NO_JOB JOB_ASSIGN
	WORK_STATUS WORK_COMPLETE WORK_FAIL GET_STATUS ECHO_REQ ECHO_RES SUBMIT_JOB_BG ERROR STATUS_RES SUBMIT_JOB_HIGH SET_CLIENT_ID
	CAN_DO_TIMEOUT ALL_YOURS WORK_EXCEPTION OPTION_REQ OPTION_RES WORK_DATA WORK_WARNING GRAB_JOB_UNIQ JOB_ASSIGN_UNIQ SUBMIT_JOB_HIGH_BG
	SUBMIT_JOB_LOW SUBMIT_JOB_LOW_BG SUBMIT_JOB_SCHED SUBMIT_JOB_EPOCH SUBMIT_REDUCE_JOB SUBMIT_REDUCE_JOB_BACKGROUND GRAB_JOB_ALL
	JOB_ASSIGN_ALL GET_STATUS_UNIQUE STATUS_RES_UNIQUE`)

// packetTypes is packets the other way round.
var packetTypes = func() map[string]uint32 {
	types := map[string]uint32{}
	for i, name := range packets {
		types[name] = uint32(i)
	}
	return types
}()

// A text is bytes as a case writes them: a packet, or bare strings.
type text struct {
	magic string // REQ or RES; empty: no packet
	kind  uint32
	parts []part
}

// A part is a string, times times.
type part struct {
	s     string
	times int
}

// parseText reads what stands behind a mark. magic is that of packets which
// are only named.
func parseText(s, magic string) (t text, err error) {
	word, rest, _ := strings.Cut(s, " ")
	if kind, ok := packetTypes[word]; ok && kind > 0 {
		t.magic, t.kind, s = magic, kind, rest
	} else if word == "REQ" || word == "RES" {
		number, rest, _ := strings.Cut(rest, " ")
		kind, err := strconv.ParseUint(number, 0, 32)
		if err != nil {
			return t, err
		}
		t.magic, t.kind, s = word, uint32(kind), rest
	} else if word == "hex" {
		b, err := hex.DecodeString(strings.NewReplacer(" ", "", "|", "").Replace(rest))
		t.parts = []part{{string(b), 1}}
		return t, err
	}
	t.parts, err = parseParts(s)
	if err == nil && len(t.parts) == 0 && t.magic == "" {
		err = errors.New("no bytes")
	}
	return t, err
}

func parseParts(s string) (parts []part, err error) {
	for s = strings.TrimLeft(s, " "); s != ""; s = strings.TrimLeft(s, " ") {
		if s[0] != '"' {
			return nil, fmt.Errorf("not a string: %s", s)
		}
		p := part{times: 1}
		if p.s, s, err = parseString(s[1:]); err != nil {
			return nil, err
		}
		if rest, ok := strings.CutPrefix(s, "*"); ok {
			number, _, _ := strings.Cut(rest, " ")
			if p.times, err = strconv.Atoi(number); err != nil {
				return nil, err
			}
			s = rest[len(number):]
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// parseString resolves the escapes up to the closing quote.
func parseString(s string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], nil
		case s[i] != '\\':
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			break
		}
		switch s[i] {
		case '0':
			b.WriteByte(0)
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case '"', '\\':
			b.WriteByte(s[i])
		case 'x':
			c, err := strconv.ParseUint(s[min(i+1, len(s)):min(i+3, len(s))], 16, 8)
			if err != nil {
				return "", "", err
			}
			b.WriteByte(byte(c))
			i += 2
		default:
			return "", "", fmt.Errorf("no such escape: \\%c", s[i])
		}
	}
	return "", "", errors.New("string without end")
}

var nowPlus = regexp.MustCompile(`\{now\+([0-9]+)\}`)

// expand makes bytes of the text, for a server with the options o.
func (t text) expand(o *Options) []byte {
	var body strings.Builder
	for _, p := range t.parts {
		body.WriteString(strings.Repeat(o.expand(p.s), p.times))
	}
	if t.magic == "" {
		return []byte(body.String())
	}
	b := append([]byte{0}, t.magic...)
	b = binary.BigEndian.AppendUint32(b, t.kind)
	b = binary.BigEndian.AppendUint32(b, uint32(body.Len()))
	return append(b, body.String()...)
}

// expand replaces the prefix of handles, the variables and the times in s.
func (o *Options) expand(s string) string {
	if o.Prefix != "" {
		s = strings.ReplaceAll(s, defaultPrefix, o.Prefix)
	}
	for name, value := range o.Vars {
		s = strings.ReplaceAll(s, "{"+name+"}", value)
	}
	return nowPlus.ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.ParseInt(nowPlus.FindStringSubmatch(m)[1], 10, 32)
		return strconv.FormatInt(time.Now().Unix()+n, 10)
	})
}

// describe shows bytes as a case would write them, long ones abbreviated.
func describe(b []byte) string {
	if len(b) == 0 {
		return "nothing"
	}
	var out []string
	for len(b) > 0 && len(out) < 6 {
		magic := ""
		size := len(b)
		if len(b) >= 12 && (string(b[:4]) == "\x00RES" || string(b[:4]) == "\x00REQ") {
			kind := binary.BigEndian.Uint32(b[4:])
			magic = fmt.Sprintf("%s %d ", b[1:4], kind)
			if kind > 0 && kind < uint32(len(packets)) {
				magic = packets[kind] + " "
			}
			size = int(binary.BigEndian.Uint32(b[8:]))
			b = b[12:]
			if size > len(b) {
				magic += fmt.Sprintf("(%d bytes, of which came) ", size)
				size = len(b)
			}
		}
		out = append(out, magic+abbreviate(b[:size]))
		b = b[size:]
	}
	if len(b) > 0 {
		out = append(out, fmt.Sprintf("and %d bytes more", len(b)))
	}
	return strings.Join(out, ", then ")
}

func abbreviate(b []byte) string {
	const most = 160
	if len(b) <= most {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%q… (%d bytes)", b[:most], len(b))
}
