// Package fault has the ways in which polystalk ends without having done what it was
// told: a line that says why and what to do, and an exit code by which scripts tell them
// apart. Where polystalkd ends for the same cause, the code is the same.
package fault

import (
	"errors"
	"fmt"
)

// Exit codes.
const (
	OK          = 0
	Damage      = 1   // of a journal: something that was durable cannot be read
	NotDone     = 1   // of anything else: some of it was not done, or is not as it should be
	Nothing     = 2   // nothing is of that name, or matches
	Refused     = 3   // a token is needed, or another one
	Unconfirmed = 4   // it was asked whether to go on, and nobody said yes
	Usage       = 5   // a command, a flag or an argument that cannot be used, there or with that server
	Dir         = 10  // a directory cannot be used: in use, not there, not empty, no journal in it
	System      = 111 // the operating system refused something, or the server cannot be reached
)

// Codes is their part of the help of commands that talk to servers.
const Codes = `Exit codes:
  0    done
  1    some of it was not done; of health: the server is not well
  2    there is nothing of that name, or nothing matches
  3    refused: a token is needed, or one that may do more
  4    not confirmed
  5    an unknown command or flag, a bad argument, or more than the server can do
  10   a directory cannot be used: in use, not there, not empty, no journal in it
  111  the server cannot be reached, or the operating system refused something
`

// A Fault ends the program: one line for stderr and the exit code.
type Fault struct {
	Code    int
	Line    string
	Request string // by which the server's log has it; empty: it does not help
	Unsent  bool   // the request did not reach any server
}

// Error implements error. It is the line, with the request.
func (f *Fault) Error() string {
	if f.Request == "" {
		return f.Line
	}
	return f.Line + " (request " + f.Request + ")"
}

// New is a fault with a line that is made as fmt.Sprintf makes it.
func New(code int, format string, args ...any) *Fault {
	return &Fault{Code: code, Line: fmt.Sprintf(format, args...)}
}

// Code is the exit code for an error: that of a Fault, or System.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Code
	}
	return System
}
