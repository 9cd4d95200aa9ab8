package session

import (
	"bytes"
	"strings"
)

// IsForeign reports whether line, the first line of a connection, is a request line of HTTP or
// begins a TLS handshake. A web page can make a browser send either to any port, followed by lines
// that are commands here, so the caller must close the connection. cut means that line is
// incomplete.
//
// Source: RFC 9112, section 3; RFC 8446, section 5.1.
func IsForeign(line []byte, cut bool) bool {
	if IsTLS(line) {
		return true
	}
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line, cut = line[:i], false
	}
	line = bytes.TrimRight(line, "\r ")
	method := 0
	for method < len(line) && isToken(line[method]) {
		method++
	}
	if method == 0 || method == len(line) || line[method] != ' ' {
		return false
	}
	target := bytes.TrimLeft(line[method:], " ")
	if i := bytes.LastIndexByte(target, ' '); i > 0 && bytes.HasPrefix(target[i+1:], []byte("HTTP/")) {
		return target[0] == '/' || target[0] == '*' || bytes.IndexByte(target[:i], ':') > 0
	}
	if !cut || len(target) == 0 {
		return false
	}
	// The version is beyond the end of the cut line.
	return isUpper(line[:method]) || target[0] == '/' || bytes.HasPrefix(target, []byte("http"))
}

// ForeignComplaint is for the log.
const ForeignComplaint = "closing a connection: its client speaks HTTP or TLS, or it is a balancer that --proxy-protocol does not name"

// ProxySignature begins a header of the PROXY protocol, version 2.
const ProxySignature = "\r\n\r\n\x00\r\nQUIT\n"

// IsProxied reports whether b, the beginning of a connection, has a header of the PROXY protocol of
// either version, from an address that may not send one.
func IsProxied(b []byte) bool {
	return bytes.HasPrefix(b, []byte(ProxySignature)) || bytes.HasPrefix(b, []byte("PROXY TCP")) || bytes.HasPrefix(b, []byte("PROXY UNKNOWN"))
}

// IsTLS reports whether b begins a TLS record with a handshake. Such input has no lines,
// and the client waits for an answer.
func IsTLS(b []byte) bool { return len(b) >= 2 && b[0] == 0x16 && b[1] == 3 }

// isToken reports whether c may be part of a method's name.
func isToken(c byte) bool {
	return c > ' ' && c < 0x7f && strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) < 0
}

func isUpper(word []byte) bool {
	for _, c := range word {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}
