package journal

// A waker wakes the one goroutine that receives from it. If it is woken again before it
// has looked, it looks once.
type waker chan struct{}

func newWaker() waker { return make(waker, 1) }

// wake never waits, and may be called by anyone.
func (w waker) wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// clear forgets that it was woken.
func (w waker) clear() {
	select {
	case <-w:
	default:
	}
}
