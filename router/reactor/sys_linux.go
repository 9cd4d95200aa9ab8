package reactor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// pollHangUp asks poll for the client's half-close; POLLHUP and POLLERR come unasked.
const pollHangUp = unix.POLLRDHUP

// sendRaw bytes are written without telling the runtime; the kernel needs some ten
// microseconds for them.
const sendRaw = 64 << 10

// send writes to a socket, and never waits.
//
// unix.Write prepares the runtime for a call that waits: its monitor preempts a busy loop in
// the middle of a write every 10 ms, and then looks every 20 µs whether to do so again.
// Without that, and without the file system's write, a command of a client that waits for
// each reply costs a twentieth less CPU.
func send(fd int, p []byte) (int, error) {
	if len(p) > sendRaw {
		return unix.Write(fd, p)
	}
	n, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if err != 0 {
		return -1, err
	}
	return int(n), nil
}

// accept takes a connection that waits at a listener, and never waits; see send.
func accept(fd uintptr) (int, unix.Errno) {
	c, _, err := unix.RawSyscall6(unix.SYS_ACCEPT4, fd, 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int(c), err
}
