package router

// Limits of one connection.
const (
	// heldMax bytes of commands are kept while a session cannot go on (its
	// reserve waits, its replies are not read, its shard is busy). Then its
	// connection is paused until a quarter of that is left. It is one read of the
	// loop's: to touch a page that is new costs more than the commands in it, so four
	// times as much had a thousand clients that pipeline get on at half the rate.
	heldMax = 64 << 10
	// behindMax bytes of commands are kept while a session that could go on waits for
	// its turn: there may be many, and what is read now is not served sooner.
	behindMax = 48 << 10
	// unsentMax bytes of replies that the socket did not take stop the
	// session until they are gone.
	unsentMax = 1 << 20
	// flushAt bytes of replies are written at once, so that one turn's output
	// stays in the processor's cache.
	flushAt = 256 << 10
	// budgetBytes of replies cost as much as a command; see round.
	budgetBytes = 1 << 10
)

// A Conn is what a session needs of its connection. Only the session's loop
// calls it.
type Conn interface {
	// Write sends p and keeps a copy of what the socket does not take.
	Write(p []byte)
	// WriteStable is Write for pieces that never change; they may be kept.
	WriteStable(pieces [][]byte)
	// Unsent is the number of bytes kept. Once it falls to zero the session's
	// drained is called.
	Unsent() int
	// Close closes the connection after what is unsent, Drop at once. The
	// session is not told.
	Close()
	Drop()
	// Pause stops the session's input until Resume. Pause is called during
	// Input only; Resume may follow in the same call. Both report false when
	// that cannot be done: the session then drops the connection.
	Pause() bool
	Resume() bool
}
