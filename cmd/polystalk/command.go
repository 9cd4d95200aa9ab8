package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/internal/release"
)

// A command is one of "polystalk journal".
type command struct {
	name  string
	args  []string // what must follow the flags
	short string
	long  string
	// new ties the flags of a run to it.
	new func(fs *pflag.FlagSet) func(args []string, out io.Writer) error
}

// commands in the order of the help.
func commands() []*command {
	return []*command{inspectCommand, verifyCommand, salvageCommand, exportCommand}
}

func (c *command) use() string {
	return "polystalk journal " + c.name + " [FLAGS] " + strings.Join(c.args, " ")
}

// dispatch finds the command and runs it.
func dispatch(args []string, out io.Writer) error {
	switch {
	case len(args) == 0:
		return faultf(exitUsage, "no command: see polystalk --help")
	case isHelp(args[0]):
		writeHelp(out)
		return nil
	case args[0] == "-v" || args[0] == "--version" || args[0] == "version":
		_, err := fmt.Fprintln(out, release.Line("polystalk", ""))
		return err
	case args[0] != "journal":
		return faultf(exitUsage, "unknown command %q: see polystalk --help for those there are", args[0])
	case len(args) == 1:
		return faultf(exitUsage, "journal: what is to be done with it is missing: see polystalk --help")
	case isHelp(args[1]):
		writeHelp(out)
		return nil
	}
	for _, c := range commands() {
		if c.name == args[1] {
			return c.run(args[2:], out)
		}
	}
	return faultf(exitUsage, "journal: unknown command %q: see polystalk --help for those there are", args[1])
}

func isHelp(arg string) bool { return arg == "-h" || arg == "--help" || arg == "help" }

func (c *command) run(args []string, out io.Writer) error {
	fs := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.SortFlags = false
	do := c.new(fs)
	fs.BoolP("help", "h", false, "show this text and exit")
	if err := fs.Parse(args); errors.Is(err, pflag.ErrHelp) {
		c.help(out, fs)
		return nil
	} else if err != nil {
		return faultf(exitUsage, "journal %s: %v: see polystalk journal %s --help", c.name, err, c.name)
	}
	if help, _ := fs.GetBool("help"); help {
		c.help(out, fs)
		return nil
	}
	switch n := fs.NArg(); {
	case n < len(c.args):
		return faultf(exitUsage, "journal %s: %s is missing: the use is %s", c.name, c.args[n], c.use())
	case n > len(c.args):
		return faultf(exitUsage, "journal %s: unknown argument %q: the use is %s", c.name, fs.Arg(len(c.args)), c.use())
	}
	for i, arg := range fs.Args() {
		if arg == "" {
			return faultf(exitUsage, "journal %s: %s is empty: give the name of a directory", c.name, c.args[i])
		}
	}
	return do(fs.Args(), out)
}

// help writes the text of a command's --help.
func (c *command) help(w io.Writer, fs *pflag.FlagSet) {
	fmt.Fprintf(w, "%s\n\nUse: %s\n\n%s\n%s\n%s", c.short, c.use(), c.long, fs.FlagUsages(), exitCodes)
}

// writeHelp writes the text of --help.
func writeHelp(w io.Writer) {
	fmt.Fprint(w, "polystalk looks after the journals of polystalkd (its -b DIR).\n\nUse:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %s\n        %s\n", c.use(), c.short)
	}
	fmt.Fprintf(w, `  polystalk --version
        print the version and exit

polystalk journal COMMAND --help tells more. A directory that is read is never
changed, and one that a server uses is refused.

%s`, exitCodes)
}
