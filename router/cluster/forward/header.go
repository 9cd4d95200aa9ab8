package forward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// A header begins a client's stream:
//
//	0      2          3
//	+------+----------+--------------------+-------------------+--------------------+
//	| size | network  | length, protocol   | length, address   | length, identity   |    lengths are u8; size is
//	+------+----------+--------------------+-------------------+--------------------+    u16, of the bytes after it
//
// network is 1 for TCP, with the client's address, as in "192.0.2.1:1234"; 2 for a unix socket,
// without one. 128 is added if the client uses TLS. A server without an access file sends neither
// that nor the identity, like servers of older versions, which do not understand them.
type header struct {
	protocol string // the name of a session.Front
	client   Client
}

// A Client describes a client of a follower. Its fields are those of session.Forwarded.
type Client struct {
	net.Addr        // *net.TCPAddr or *net.UnixAddr
	TLS      bool   // the client uses TLS
	Identity string // by the follower's access file; empty: it has none
}

const (
	networkTCP  = 1
	networkUnix = 2
	usesTLS     = 128 // beside the network

	headerMax = 1 + 3*(1+textMax)
	textMax   = 255
)

// errMangled is the error of a header with inconsistent parts.
var errMangled = errors.New("the header of a client's connection is mangled")

// append encodes h.
func (h *header) append(dst []byte) []byte {
	network, addr := byte(networkUnix), ""
	if tcp, ok := h.client.Addr.(*net.TCPAddr); ok {
		network, addr = networkTCP, tcp.AddrPort().String()
	}
	texts := []string{h.protocol, addr}
	if h.client.Identity != "" {
		texts = append(texts, h.client.Identity)
		if h.client.TLS {
			network |= usesTLS
		}
	}
	at := len(dst)
	dst = append(dst, 0, 0, network)
	for _, s := range texts {
		if len(s) > textMax {
			panic(fmt.Sprintf("a client with the text %s cannot be described", s))
		}
		dst = append(dst, byte(len(s)))
		dst = append(dst, s...)
	}
	binary.LittleEndian.PutUint16(dst[at:], uint16(len(dst)-at-2))
	return dst
}

// readHeader reads a header and no byte more.
func readHeader(r io.Reader) (h header, err error) {
	var buf [headerMax]byte
	if _, err := io.ReadFull(r, buf[:2]); err != nil {
		return h, err
	}
	size := int(binary.LittleEndian.Uint16(buf[:]))
	if size > headerMax {
		return h, errMangled
	}
	b := buf[:size]
	if _, err := io.ReadFull(r, b); err != nil {
		return h, err
	}
	return parseHeader(b)
}

// parseHeader decodes the bytes after the size.
func parseHeader(b []byte) (h header, err error) {
	if len(b) < 1 {
		return h, errMangled
	}
	network := b[0] &^ usesTLS
	h.client.TLS = b[0] != network
	var texts []string
	for b = b[1:]; len(b) > 0; {
		n := 1 + int(b[0])
		if len(b) < n || len(texts) == 3 {
			return h, errMangled
		}
		texts = append(texts, string(b[1:n]))
		b = b[n:]
	}
	switch {
	case len(texts) < 2, len(texts) == 2 && h.client.TLS:
		return h, errMangled
	case len(texts) == 3:
		if h.client.Identity = texts[2]; texts[2] == "" {
			return h, errMangled
		}
	}
	h.protocol = texts[0]
	switch {
	case network == networkTCP:
		at, err := netip.ParseAddrPort(texts[1])
		if err != nil {
			return h, errMangled
		}
		h.client.Addr = net.TCPAddrFromAddrPort(at)
	case network == networkUnix && texts[1] == "":
		h.client.Addr = &net.UnixAddr{Net: "unix"}
	default:
		return h, errMangled
	}
	return h, nil
}
