package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// An Identity names a server and its cluster.
type Identity struct {
	Cluster uint64 // random, the same for all servers of a cluster; 0: it has not joined yet
	Node    uint64 // random, never 0, never reused
	Name    string // for operators, and the name in its certificate
}

// String is for logs and errors.
func (i Identity) String() string { return fmt.Sprintf("%s (%x)", i.Name, i.Node) }

// A Member is a server and its address.
type Member struct {
	Node uint64
	Name string
	Addr string // host:port
}

// A Kind says what a connection is for.
type Kind uint8

// The kinds of connections.
const (
	Raft    Kind = 1 + iota // messages of consensus
	Forward                 // a client's connection, carried to the leader
	Journal                 // a leader's journal
	Admin                   // HTTP: operators, and servers among themselves
	Relay                   // HTTP: operators' requests that a follower sends to the leader
	kindEnd
)

// String is the kind's name in logs and metrics.
func (k Kind) String() string {
	if k == 0 || k >= kindEnd {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return [...]string{"", "raft", "forward", "journal", "admin", "relay"}[k]
}

// nameMax is the longest name in bytes: the limit of a label in a host name.
const nameMax = 63

// ValidName returns an error if a server cannot have the name. Certificates are issued for the name,
// so it is spelled like a host name, in lower case only.
func ValidName(name string) error {
	const ends = "abcdefghijklmnopqrstuvwxyz0123456789"
	invalid := func(r rune) bool { return !strings.ContainsRune(ends+"-.", r) }
	if name == "" || len(name) > nameMax || strings.ContainsFunc(name, invalid) ||
		strings.Trim(name[:1]+name[len(name)-1:], ends) != "" {
		return fmt.Errorf("%q cannot be the name of a server: use 1 to %d of a-z, 0-9, hyphens and dots, with a letter or digit at each end", name, nameMax)
	}
	return nil
}

const (
	magic   = "polystlk"
	version = 1 // of greetings and of all that follows them

	headSize    = len(magic) + 2 + 2
	greetingMax = 1 << 10 // bytes after the head, in any version
	textMax     = 255
)

// A greeting is the first message of each side. See the package doc.
type greeting struct {
	kind   Kind
	from   Identity
	to     uint64 // the expected server; 0: any
	addr   string // where from listens
	reason string // in an answer: why the connection is refused; empty: it is accepted
}

// append encodes g. It cuts texts that are too long.
func (g *greeting) append(dst []byte) []byte {
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint16(dst, version)
	at := len(dst)
	dst = append(dst, 0, 0, byte(g.kind))
	for _, n := range []uint64{g.from.Cluster, g.from.Node, g.to} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	for _, s := range []string{g.from.Name, g.addr, g.reason} {
		s = strings.ToValidUTF8(s[:min(len(s), textMax)], "")
		dst = append(dst, byte(len(s)))
		dst = append(dst, s...)
	}
	binary.LittleEndian.PutUint16(dst[at:], uint16(len(dst)-at-2))
	return dst
}

// A foreignError is the error of a peer that does not speak this version of the protocol.
type foreignError struct{ reason string }

func (f *foreignError) Error() string { return f.reason }

// errMangled is the error of a greeting with inconsistent parts.
var errMangled = errors.New("its greeting is mangled")

const mixedTLS = "give --cluster-cert, --cluster-key and --cluster-ca to all servers or to none"

// readGreeting reads a greeting and no byte more. It buffers at most greetingMax bytes. A
// *foreignError says that the peer is not a server of this version.
func readGreeting(r io.Reader) (greeting, error) {
	var buf [greetingMax]byte
	head := buf[:headSize]
	if _, err := io.ReadFull(r, head); err != nil {
		return greeting{}, err
	}
	switch {
	case string(head[:len(magic)]) == magic:
	case (head[0] == 0x16 || head[0] == 0x15) && head[1] == 3:
		return greeting{}, &foreignError{"it speaks TLS, this server does not: " + mixedTLS}
	default:
		return greeting{}, &foreignError{fmt.Sprintf("it is not a server of a cluster: its first bytes are %q", head[:len(magic)])}
	}
	v := binary.LittleEndian.Uint16(head[len(magic):])
	size := int(binary.LittleEndian.Uint16(head[len(magic)+2:]))
	if size > greetingMax {
		return greeting{}, errMangled
	}
	body := buf[:size]
	if _, err := io.ReadFull(r, body); err != nil {
		return greeting{}, err
	}
	if v != version {
		return greeting{}, &foreignError{fmt.Sprintf("it speaks version %d of the protocol between servers, this server version %d: run compatible releases on all servers", v, version)}
	}
	return parseGreeting(body)
}

// parseGreeting decodes the bytes after the head. It keeps nothing of b.
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
