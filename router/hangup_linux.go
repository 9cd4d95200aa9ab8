package router

import "golang.org/x/sys/unix"

// pollHangUp asks poll for the client's half-close; POLLHUP and POLLERR come
// unasked.
const pollHangUp = unix.POLLRDHUP
