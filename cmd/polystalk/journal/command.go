package journal

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/fault"
)

// A Command is one of "polystalk journal".
type Command struct {
	Name  string
	Args  []string // what must follow the flags
	Short string
	Long  string
	// new ties the flags of a run to it.
	new func(fs *pflag.FlagSet) func(args []string, out io.Writer) error
}

// Commands in the order of the help.
func Commands() []*Command {
	return []*Command{inspectCommand, verifyCommand, salvageCommand, exportCommand}
}

// Codes is the part of the help about exit codes.
const Codes = `Exit codes:
  0    done; for verify and inspect: the journal is whole, but perhaps for a
       torn end, which a start cuts off
  1    the journal is damaged
  5    an unknown command or flag, or a missing argument
  10   a directory cannot be used: a server uses it, it is not there, it holds
       no journal, or the one to be written is not empty
  111  the operating system refused something else
`

// Use is how the command is called.
func (c *Command) Use() string {
	return "polystalk journal " + c.Name + " [FLAGS] " + strings.Join(c.Args, " ")
}

// Flags adds the flags of the command to fs, for who wants to name them.
func (c *Command) Flags(fs *pflag.FlagSet) { c.new(fs) }

// Run runs the command with what was given after its name.
func (c *Command) Run(args []string, out io.Writer) error {
	fs := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.SortFlags = false
	do := c.new(fs)
	fs.BoolP("help", "h", false, "show this text and exit")
	if err := fs.Parse(args); errors.Is(err, pflag.ErrHelp) {
		c.help(out, fs)
		return nil
	} else if err != nil {
		return fault.New(fault.Usage, "journal %s: %v: see polystalk journal %s --help", c.Name, err, c.Name)
	}
	if help, _ := fs.GetBool("help"); help {
		c.help(out, fs)
		return nil
	}
	switch n := fs.NArg(); {
	case n < len(c.Args):
		return fault.New(fault.Usage, "journal %s: %s is missing: the use is %s", c.Name, c.Args[n], c.Use())
	case n > len(c.Args):
		return fault.New(fault.Usage, "journal %s: unknown argument %q: the use is %s", c.Name, fs.Arg(len(c.Args)), c.Use())
	}
	for i, arg := range fs.Args() {
		if arg == "" {
			return fault.New(fault.Usage, "journal %s: %s is empty: give the name of a directory", c.Name, c.Args[i])
		}
	}
	return do(fs.Args(), out)
}

// help writes the text of a command's --help.
func (c *Command) help(w io.Writer, fs *pflag.FlagSet) {
	fmt.Fprintf(w, "%s\n\nUse: %s\n\n%s\n%s\n%s", c.Short, c.Use(), c.Long, fs.FlagUsages(), Codes)
}
