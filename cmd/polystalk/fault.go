package main

import "fmt"

// Exit codes; where polystalkd has the same cause they are the same.
const (
	exitOK     = 0
	exitDamage = 1   // something that was durable cannot be read
	exitUsage  = 5   // a command, a flag or an argument that cannot be used
	exitDir    = 10  // a directory cannot be used: in use, not there, not empty, no journal in it
	exitSystem = 111 // the operating system refused something else
)

// exitCodes is their part of the help.
const exitCodes = `Exit codes:
  0    done; for verify and inspect: the journal is whole, but perhaps for a
       torn end, which a start cuts off
  1    the journal is damaged
  5    an unknown command or flag, or a missing argument
  10   a directory cannot be used: a server uses it, it is not there, it holds
       no journal, or the one to be written is not empty
  111  the operating system refused something else
`

// A fault ends the program: one line for stderr and the exit code.
type fault struct {
	code int
	line string
}

func (f *fault) Error() string { return f.line }

func faultf(code int, format string, args ...any) *fault {
	return &fault{code, fmt.Sprintf(format, args...)}
}
