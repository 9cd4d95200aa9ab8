// Package shard lets the event loops of a server, and one goroutine of its own, take
// turns with a Core: the state machine of package core, which has a part of the tubes with
// their jobs.
//
// A Shard wraps a Core. Its state is touched only by who holds its ownership
// word: an event loop that found it free runs its operation in place; one
// that found it busy pushes a Message into the bounded inbox, and whoever
// owns the shard runs it and posts the answer to the Message's Home. The
// shard's own goroutine owns it for timers and for what a bounded owner left
// over. Nothing blocks and nothing makes a system call while owning.
//
//	            Own: the word was 0
//	event loop ──────────────────────► Apply ─► Release: runs the inbox, frees the word,
//	     │                                      delivers, looks at the inbox once more
//	     │ the word was 1
//	     └────────────────────────────► Send ─► inbox ─► an owner's Release ─► Home
//
// An owner applies its operation (what is due expires first, waiting clients
// are matched last), runs what waits in the inbox, frees the word, delivers
// replies and wake-ups, and looks at the inbox once more. That last look is why no message
// is left behind: who pushes asks for the word afterwards, so either the pusher gets it, or
// whoever has it looks after the push.
//
// Who may call what:
//
//	an owner                 Apply, Release, SetSubmitOptions, Counts, EachID, Jobs, Tubes, Clients, Check, Digest
//	an event loop            Own, Send, Catchup; then it is an owner or not, and goes on at once
//	a goroutine that waits   OwnPatiently, Recopy, NeedsCopy
//	anybody, at any time     Readied, Counters, Nudge, and what package core says of a Face
//	before the shard is used New, Record, Replay, Start
//	a driver without Start   Tick, Due
//
// A Batch is what one of them carries from shard to shard: the moment of its turn and what
// it is to deliver. It is never used by two at once. With Defer, several visits look like
// one to whoever they wake.
//
// Mail is delivered before wake-ups, and those before answers: a session hears of what its
// own operation has caused before the answer to it.
package shard
