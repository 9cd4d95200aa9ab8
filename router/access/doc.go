// Package access decides what operators may do. It has roles, tokens with a role each, and
// sessions of browsers that have sent a token.
//
//	token ──sha256──► Tokens.Find ──► Grant ──► Role.Allows(what a route needs)
//	cookie ─sha256──► Sessions.Find ─┘
//
// Tokens are stored as digests, in their file and in memory. Each look-up compares all digests
// in constant time, so its duration reveals nothing. Tokens are random and long, so a digest
// needs neither salt nor a slow hash.
//
// The package knows nothing of HTTP.
package access
