// Package journal has the verbs about directories of servers. "polystalk journal" inspects, checks,
// exports and repairs the journal of a stopped server, and never changes what it reads. Two verbs
// of "polystalk cluster" make the directory of a standalone server.
//
//	Command → source (lock, survey) → replica (the jobs, where a command needs them)
package journal

import (
	"io"

	"github.com/spf13/pflag"
)

// A Command is a subcommand of "polystalk journal".
type Command struct {
	Use, Short, Long string
	Reads            bool // writes no directory
	// New adds the flags to fs. It returns the function that runs the command with its arguments.
	New func(fs *pflag.FlagSet) func(args []string, out io.Writer) error
}

// Commands returns the commands in the order of the help.
func Commands() []Command {
	return []Command{inspectCommand, verifyCommand, salvageCommand, exportCommand}
}

// Codes is the part of the help about exit codes.
const Codes = `Exit codes:
  0    done; verify, inspect: the journal is whole, except perhaps for a torn end,
       which a start cuts off
  1    the journal is damaged
  5    unknown command or flag, or a missing argument
  10   a directory cannot be used: a server uses it, it does not exist, it holds
       no journal, or the one to be written is not empty
  111  the operating system refused something else
`
