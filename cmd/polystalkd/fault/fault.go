// Package fault has the errors that end polystalkd before it serves, and the codes
// with which it exits.
package fault

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Exit codes. Those of the reference keep their numbers, so that the scripts
// and service managers around it go on to tell causes apart.
const (
	OK       = 0
	Usage    = 5   // a flag, a variable or an argument that cannot be used
	Journal  = 10  // the journal's directory cannot be taken, or the journal has failed
	Removed  = 20  // the server was removed from its cluster, another process runs as it, or its directory lacks what it acknowledged: another start would end as this one
	UserFind = 32  // looking the user up failed
	NoUser   = 33  // there is no such user
	UserSet  = 34  // becoming the user failed
	System   = 111 // no socket, or the operating system refused something else
)

// Gearmand is the code of every failure in place of gearmand, as gearmand has it.
const Gearmand = 1

// A Fault ends the program before it serves: one line for stderr and the exit
// code. The line names what was given, with its value, and what to do about it.
type Fault struct {
	Code int // for os.Exit
	line string

	InUse netip.AddrPort // what somebody else listens on, if that is why

	// File and Line are the place in a file that is at fault, and Excerpt is that line; empty:
	// no file is. A line of 0 is the file as a whole.
	File    string
	Line    int
	Excerpt string
}

// At notes the place in a file that is at fault.
func (f *Fault) At(file string, line int, excerpt string) {
	f.File, f.Line, f.Excerpt = file, line, excerpt
}

func (f *Fault) Error() string { return f.line }

// New makes a Fault with one of the codes above; the format is that of package fmt.
func New(code int, format string, args ...any) *Fault {
	return &Fault{Code: code, line: fmt.Sprintf(format, args...)}
}

// Faults are several, none of which hides another.
type Faults []*Fault

// Error is one line for each.
func (f Faults) Error() string {
	var lines []string
	for _, one := range f {
		lines = append(lines, one.line)
	}
	return strings.Join(lines, "\n")
}

// Unwrap has the code of the first be that of all.
func (f Faults) Unwrap() []error {
	var list []error
	for _, one := range f {
		list = append(list, one)
	}
	return list
}

// Err is nil without a fault, the only one, or all.
func (f Faults) Err() error {
	switch len(f) {
	case 0:
		return nil
	case 1:
		return f[0]
	}
	return f
}

// All are the faults that err consists of. What is none becomes one with the code System.
func All(err error) Faults {
	if err == nil {
		return nil
	}
	if list, ok := errors.AsType[Faults](err); ok {
		return list
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return Faults{f}
	}
	return Faults{New(System, "%v", err)}
}

// Cause strips the operation and the address that net puts around an error.
func Cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
