package conversation

import "time"

// A Driver carries a conversation to one server: a simulated one, or a real
// one over a socket. It starts with no connection open. A Driver is used by
// one goroutine.
type Driver interface {
	// Send writes b on the named connection, opening it first if need be.
	// It must not keep b.
	Send(conn string, b []byte) error
	// Recv returns bytes that arrived on the named connection, opening it
	// first if need be. With wait it gives the server ample time; without,
	// only as long as is reasonable to conclude that nothing will come. It
	// returns nil, nil when nothing came, and nil, io.EOF after the server
	// has closed and everything was returned. Simulated servers run until
	// they have nothing left to do, whatever wait says.
	Recv(conn string, wait bool) ([]byte, error)
	// HalfClose shuts down the sending side of the named connection.
	HalfClose(conn string) error
	// Close closes the named connection; its name may be opened anew.
	Close(conn string) error
	// Advance lets time pass.
	Advance(d time.Duration) error
	// Await returns once the server's stats show value under key, not
	// counting connections the driver itself needs for asking. Simulated
	// servers just run until they have nothing left to do.
	Await(key string, value uint64) error
	// Drain puts the server into drain mode.
	Drain() error
}

// Options tells Play what kind of server it talks to.
type Options struct {
	Unquoted bool // a reference before 1.13, whose YAML strings have no quotes
}
