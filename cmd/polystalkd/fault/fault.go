// Package fault has the errors that end polystalkd before it serves, and its exit codes.
package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
)

// Exit codes. Where beanstalkd has a code for the same cause, the number is the same, so scripts
// and service managers still tell the causes apart.
const (
	OK       = 0
	Usage    = 5   // a flag, a variable or an argument is invalid
	Journal  = 10  // the journal's directory cannot be used, or the journal has failed
	Removed  = 20  // the server was removed from its cluster, another process runs as it, or its directory lacks acknowledged data: a restart would fail again
	UserFind = 32  // looking up the user failed
	NoUser   = 33  // there is no such user
	UserSet  = 34  // switching to the user failed
	System   = 111 // no socket, or the operating system refused something else
)

// Gearmand is the exit code of every failure in place of gearmand. It is gearmand's own.
const Gearmand = 1

// A Fault ends the program before it serves. It has one line for stderr and the exit code. The
// line names what was given, with its value, and the remedy.
type Fault struct {
	Code int // for os.Exit
	line string

	InUse netip.AddrPort // the address in use by another program, if that is the cause

	// File and Line are the place of the fault in a file, and Excerpt is that line. An empty File
	// means no file; line 0 means the whole file.
	File    string
	Line    int
	Excerpt string
}

// At sets the place of the fault in a file.
func (f *Fault) At(file string, line int, excerpt string) {
	f.File, f.Line, f.Excerpt = file, line, excerpt
}

func (f *Fault) Error() string { return f.line }

// New returns a Fault with an exit code and a message in the format of package fmt.
func New(code int, format string, args ...any) *Fault {
	return &Fault{Code: code, line: fmt.Sprintf(format, args...)}
}

// Faults is a list of faults that are reported together.
type Faults []*Fault

// Error returns one line for each fault.
func (f Faults) Error() string {
	var lines []string
	for _, one := range f {
		lines = append(lines, one.line)
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns all faults. The first one decides the exit code.
func (f Faults) Unwrap() []error {
	var list []error
	for _, one := range f {
		list = append(list, one)
	}
	return list
}

// Err returns nil for an empty list, a single fault, or the list.
func (f Faults) Err() error {
	switch len(f) {
	case 0:
		return nil
	case 1:
		return f[0]
	}
	return f
}

// All returns the faults of err. Any other error becomes a fault with the code System.
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

// Cause returns err without the operation, and without the address or path that packages net and
// os add.
func Cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
