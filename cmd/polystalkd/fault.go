package main

import (
	"fmt"
	"net/netip"
)

// Exit codes. Those of the reference keep their numbers, so that the scripts
// and service managers around it go on to tell causes apart.
const (
	exitOK       = 0
	exitUsage    = 5   // a flag, a variable or an argument that cannot be used
	exitBinlog   = 10  // the journal's directory cannot be taken, or the journal has failed
	exitUserFind = 32  // looking the user up failed
	exitNoUser   = 33  // there is no such user
	exitUserSet  = 34  // becoming the user failed
	exitSystem   = 111 // no socket, or the operating system refused something else
)

// A fault ends the program before it serves: one line for stderr and the exit
// code. The line names what was given, with its value, and what to do about it.
type fault struct {
	code int
	line string

	inUse netip.AddrPort // what somebody else listens on, if that is why
}

func (f *fault) Error() string { return f.line }

func faultf(code int, format string, args ...any) *fault {
	return &fault{code: code, line: fmt.Sprintf(format, args...)}
}
