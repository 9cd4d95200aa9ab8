package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

const (
	// magic begins every greeting.
	magic = "polystlk"
	// version is that of the protocol between nodes: of greetings and of all that
	// follows them.
	version = 1

	headSize = len(magic) + 2 + 2
	// greetingMax bounds what follows the head, in this version and any other.
	greetingMax = 1 << 10
	textMax     = 255
)

// A greeting is the first that each side of a connection says. See the package doc.
type greeting struct {
	kind   Kind
	from   Identity
	to     uint64 // who is meant; 0: whoever is there
	addr   string // where from listens
	reason string // in an answer: why the connection is refused; empty: it is not
}

// append encodes g. Texts that are too long are cut.
func (g *greeting) append(dst []byte) []byte {
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint16(dst, version)
	at := len(dst)
	dst = append(dst, 0, 0, byte(g.kind))
	for _, n := range []uint64{g.from.Cluster, g.from.Node, g.to} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	for _, s := range []string{g.from.Name, g.addr, g.reason} {
		s = cut(s)
		dst = append(dst, byte(len(s)))
		dst = append(dst, s...)
	}
	binary.LittleEndian.PutUint16(dst[at:], uint16(len(dst)-at-2))
	return dst
}

// cut shortens a text to what has room, at the beginning of a character.
func cut(s string) string {
	if len(s) <= textMax {
		return s
	}
	n := textMax
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// A strange greeting is none of this version. The head tells what it is.
type strange struct{ reason string }

func (s *strange) Error() string { return s.reason }

// errMangled is said of a greeting whose parts do not fit together.
var errMangled = errors.New("its greeting is mangled")

// readGreeting reads a greeting and not a byte more. Whatever comes, it keeps no more than
// greetingMax bytes. An error that is *strange is about who does not speak as we do.
func readGreeting(r io.Reader) (greeting, error) {
	var room [greetingMax]byte
	head := room[:headSize]
	if _, err := io.ReadFull(r, head); err != nil {
		return greeting{}, err
	}
	if string(head[:len(magic)]) != magic {
		return greeting{}, &strange{stranger(head)}
	}
	v := binary.LittleEndian.Uint16(head[len(magic):])
	size := int(binary.LittleEndian.Uint16(head[len(magic)+2:]))
	if size > greetingMax {
		return greeting{}, errMangled
	}
	body := room[:size]
	if _, err := io.ReadFull(r, body); err != nil {
		return greeting{}, err
	}
	if v != version {
		return greeting{}, &strange{fmt.Sprintf("it speaks version %d of the protocol between servers, this server version %d: run releases on all servers that can be in one cluster", v, version)}
	}
	return parseGreeting(body)
}

// stranger says what a head is that is no node's.
func stranger(head []byte) string {
	switch {
	case head[0] == 0x16 && head[1] == 3, head[0] == 0x15 && head[1] == 3:
		return "it speaks TLS, this server does not: give --cluster-cert, --cluster-key and --cluster-ca to all servers or to none"
	default:
		return fmt.Sprintf("it is no server of a cluster: its first bytes are %q", head[:len(magic)])
	}
}

// parseGreeting decodes what follows the head. It keeps nothing of b.
func parseGreeting(b []byte) (g greeting, err error) {
	if len(b) < 1+3*8 {
		return g, errMangled
	}
	g.kind = Kind(b[0])
	g.from.Cluster = binary.LittleEndian.Uint64(b[1:])
	g.from.Node = binary.LittleEndian.Uint64(b[9:])
	g.to = binary.LittleEndian.Uint64(b[17:])
	b = b[25:]
	for _, s := range []*string{&g.from.Name, &g.addr, &g.reason} {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return g, errMangled
		}
		n := 1 + int(b[0])
		if !utf8.Valid(b[1:n]) {
			return g, errMangled
		}
		*s = string(b[1:n])
		b = b[n:]
	}
	if len(b) > 0 {
		return g, errMangled
	}
	return g, nil
}
