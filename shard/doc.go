// Package shard lets the event loops of a server, and one goroutine of its own, take turns with a
// Core: the state machine of package core, which has a part of the tubes with their jobs.
//
// A Shard wraps a Core. Only the holder of its ownership word touches its state. An event loop
// that finds the word free runs its operation in place. An event loop that finds it busy pushes
// a Message into the bounded inbox; the owner runs it and posts the answer to the Message's
// Home. The shard's own goroutine owns it for timers and for messages that a bounded owner has
// left. No owner blocks or makes a system call.
//
//	            Own: the word was 0
//	event loop ──────────────────────► Apply ─► Release: runs the inbox, frees the word,
//	     │                                      delivers, looks at the inbox once more
//	     │ the word was 1
//	     └────────────────────────────► Send ─► inbox ─► an owner's Release ─► Home
//
// An owner applies its operation (due timers run first, waiting clients are matched last), runs
// the messages in the inbox, frees the word, delivers replies and wake-ups, and checks the inbox
// once more. Because of this last check no message is left behind: a sender checks the word after
// its push. So either the sender gets the word, or the owner checks the inbox after the push.
//
// The methods and their callers:
//
//	an owner                 Apply, Release, SetSubmitOptions, Classify, Counts, EachID, Jobs, Tubes, Clients, Digest
//	an event loop            Own, Send, Catchup; they never block
//	a goroutine that waits   OwnPatiently, Recopy, NeedsCopy
//	any goroutine            Readied, Used, Counters, Nudge, and the methods of a Face (package core)
//
// A caller carries a Batch from shard to shard: the time of its turn and its deliveries. Only one
// goroutine at a time uses a Batch. With Defer, several visits look like one to the sessions that
// they wake.
//
// Mail is delivered before wake-ups, and wake-ups before replies: a session learns the effects of
// its operation before it gets the reply.
package shard
