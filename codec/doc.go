// Package codec holds the wire protocols, one sub-package each: bytes to
// command values, reply values to bytes.
//
//	socket ── bytes ──► codec ── Command ──► router
//	socket ◄─ bytes ─── codec ◄─ values ──── router
//
// A codec does no I/O, reads no clock, starts no goroutine and keeps nothing
// between calls (but binlog, which reads and writes a directory of files). Input stays the caller's: a parsed command may alias it and is
// good only for as long as those bytes are. Output is appended to a slice that
// the caller owns.
//
// Splitting the input differently never changes what is parsed: while the input
// holds only the beginning of something, nothing is consumed.
package codec
