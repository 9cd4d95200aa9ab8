package router

import "polystalk/codec"

// An opening is the first line of a connection. It tells when the other end takes us
// for a server of HTTP, as a web page can make any browser do on its user's machine:
// the lines behind it would be commands.
type opening struct{ over bool }

// take looks at the first line or packet, which is in b, and reports whether the
// connection is to be closed. odd says that it may be anything, cut that it is a line
// longer than b.
func (o *opening) take(s *session, b []byte, odd, cut bool) (foreign bool) {
	o.over = true
	return odd && codec.IsForeign(b, cut) && o.leave(s)
}

// takePart looks at what is not a whole line yet.
func (o *opening) takePart(s *session, b []byte) (foreign bool) {
	return !o.over && codec.IsTLS(b) && o.leave(s)
}

func (o *opening) leave(s *session) bool {
	s.leaving = true
	s.loop.srv.complain("closing a connection: its first line is a request of HTTP or TLS", "conn", s)
	return true
}
