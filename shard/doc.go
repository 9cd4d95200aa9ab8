// Package shard lets the event loops of a server, and one goroutine of its own, take
// turns with a Core: the state machine of package core, which holds jobs.
//
// A Shard wraps a Core. Its state is touched only by who holds its ownership
// word: an event loop that found it free runs its operation in place; one
// that found it busy pushes a Message into the bounded inbox, and whoever
// owns the shard runs it and posts the answer to the Message's Home. The
// shard's own goroutine owns it for timers and for what a bounded owner left
// over. Nothing blocks and nothing makes a system call while owning.
//
// An owner applies its operation (what is due expires first, waiting clients
// are matched last), runs what waits in the inbox, frees the word, delivers
// replies and wake-ups, and looks at the inbox once more.
package shard
