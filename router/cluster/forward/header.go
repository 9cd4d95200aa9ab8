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
//	+------+----------+--------------------+-------------------+
//	| size | network  | length, protocol   | length, address   |    lengths are u8; size is u16,
//	+------+----------+--------------------+-------------------+    of the bytes after it
//
// network is 1 for TCP, with the client's address, as in "192.0.2.1:1234"; 2 for a unix socket,
// without one.
type header struct {
	protocol string   // the name of a session.Front
	client   net.Addr // *net.TCPAddr or *net.UnixAddr
}

const (
	networkTCP  = 1
	networkUnix = 2

	headerMax = 1 + 2*(1+textMax)
	textMax   = 255
)

// errMangled is the error of a header with inconsistent parts.
var errMangled = errors.New("the header of a client's connection is mangled")

// append encodes h.
func (h *header) append(dst []byte) []byte {
	network, addr := byte(networkUnix), ""
	if tcp, ok := h.client.(*net.TCPAddr); ok {
		network, addr = networkTCP, tcp.AddrPort().String()
	}
	if len(h.protocol) > textMax || len(addr) > textMax {
		panic(fmt.Sprintf("a client of %s that speaks %s cannot be described", addr, h.protocol))
	}
	dst = binary.LittleEndian.AppendUint16(dst, uint16(1+1+len(h.protocol)+1+len(addr)))
	dst = append(dst, network, byte(len(h.protocol)))
	dst = append(dst, h.protocol...)
	dst = append(dst, byte(len(addr)))
	return append(dst, addr...)
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
	network := b[0]
	b = b[1:]
	var texts [2]string
	for i := range texts {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return h, errMangled
		}
		n := 1 + int(b[0])
		texts[i] = string(b[1:n])
		b = b[n:]
	}
	if len(b) > 0 {
		return h, errMangled
	}
	h.protocol = texts[0]
	switch {
	case network == networkTCP:
		at, err := netip.ParseAddrPort(texts[1])
		if err != nil {
			return h, errMangled
		}
		h.client = net.TCPAddrFromAddrPort(at)
	case network == networkUnix && texts[1] == "":
		h.client = &net.UnixAddr{Net: "unix"}
	default:
		return h, errMangled
	}
	return h, nil
}
