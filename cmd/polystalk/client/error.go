package client

import (
	"errors"
	"fmt"
)

// Exit codes. Where polystalkd has a code for the same cause, the number is the same.
const (
	OK          = 0
	Damage      = 1   // a journal is damaged: durable data cannot be read
	NotDone     = 1   // some of it was not done, or the server is not healthy
	Nothing     = 2   // nothing has this name, or nothing matches
	Refused     = 3   // the server needs a token, or another one
	Unconfirmed = 4   // the operator did not confirm
	Usage       = 5   // a command, flag or argument is wrong, or the server does not have the operation
	Dir         = 10  // a directory cannot be used
	System      = 111 // the operating system refused something, or the server cannot be reached
)

// Codes is the list of exit codes in the help of verbs that talk to servers.
const Codes = `Exit codes:
  0    done
  1    some of it was not done; health: the server is not healthy
  2    there is nothing with this name, or nothing matches
  3    refused: the server needs a token, or one with more rights
  4    not confirmed
  5    unknown command or flag, bad argument, or the server does not have the operation
  10   a directory cannot be used: it is in use, missing, not empty, or holds no journal
  111  the server cannot be reached, or the operating system refused something
`

// An Error ends the program with one line on standard error and an exit code.
type Error struct {
	Code    int
	Line    string // the problem and its remedy
	Request string // the request's id in the server's log; empty: not useful
	Unsent  bool   // the request did not reach any server
}

// Error returns the line, with the request's id.
func (e *Error) Error() string {
	if e.Request == "" {
		return e.Line
	}
	return e.Line + " (request " + e.Request + ")"
}

// Errorf returns an error with an exit code.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Line: fmt.Sprintf(format, args...)}
}

// ExitCode returns the exit code for err: the code of an Error, else System.
func ExitCode(err error) int {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return System
}
