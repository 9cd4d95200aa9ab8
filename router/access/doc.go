// Package access decides what clients may do. An access file defines identities; each has verbs
// on patterns of tube names, a level of the server, and ways to prove it:
//
//	token ─────────sha256──► ┐
//	certificate ───name────► │ Credential ──► Identity ──► Verbs(tube), Level, Bodies
//	user of a unix socket ─► │ (a session keeps it)        (a reload replaces them)
//	network ───────────────► ┘
//
// A nil *Credential is a client of a server without an access file: everything is permitted.
//
// Tokens are stored as digests, in the file and in memory. A client that guesses cannot choose
// the beginning of a digest, so a look-up by digest reveals nothing. Tokens are random and long,
// so a digest needs neither salt nor a slow hash.
//
// The package knows neither HTTP nor the protocols.
package access
