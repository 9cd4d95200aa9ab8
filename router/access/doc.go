// Package access says who may do what to a server from outside its protocols: roles,
// tokens with a role each, and the sessions of browsers that have shown one.
//
//	token ──sha256──► Tokens.Find ──► Grant ──► Role.Allows(what a route needs)
//	cookie ─sha256──► Sessions.Find ─┘
//
// A token is never kept: its file holds digests, and so does a Tokens. Digests are
// compared in constant time, all of them for each question, so the time of an answer tells
// nothing about any of them. Tokens are random and long, so their digest needs no salt and
// no slow function: what would be slowed down is each request, not a guess.
//
// The package knows nothing of HTTP; where a token stands in a request is for who asks.
package access
