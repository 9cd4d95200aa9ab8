package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/listen"
	"polystalk/cmd/polystalkd/member"
	"polystalk/router"
)

// A commandLine is one of the two command lines of this binary. Both fill a Config for the same
// server.
type commandLine struct {
	name     string // begins the line of an error
	gearmand bool   // with gearmand's flags
}

// parse parses args, which lack the program's name.
func (p *commandLine) parse(args []string) (*config.Config, error) {
	if p.gearmand {
		return config.ParseGearmand(args, os.LookupEnv, p.name+" --help")
	}
	return config.Parse(args, os.LookupEnv)
}

// read reads the configuration again. args lack the program's name.
func (p *commandLine) read(args []string) (*config.Config, error) {
	c, err := p.parse(args)
	if err == nil {
		c.WarnOfVariables(os.Environ())
		err = c.Validate()
	}
	return c, err
}

// complain writes each fault of err in a line, followed by the faulty line of a file.
func (p *commandLine) complain(w io.Writer, err error) {
	for _, f := range fault.All(err) {
		fmt.Fprintf(w, "%s: %v\n", p.name, f)
		if f.Excerpt != "" {
			fmt.Fprintf(w, "    %s\n", f.Excerpt)
		}
	}
}

// report writes the faults of err and returns the exit code. c and err may be nil.
func (p *commandLine) report(c *config.Config, err error, stderr io.Writer) int {
	if err == nil {
		return fault.OK
	}
	if c != nil {
		err = c.Explain(err)
	}
	p.complain(stderr, err)
	return p.exitCode(err)
}

// commandLineOf chooses the command line by the program's name and its first argument. It returns
// the remaining arguments.
func commandLineOf(args []string) (commandLine, []string) {
	const name = "gearmand"
	switch {
	case len(args) > 0 && filepath.Base(args[0]) == name:
		return commandLine{name, true}, args[1:]
	case len(args) == 3 && args[1] == "help" && args[2] == name:
		return commandLine{"polystalkd " + name, true}, args[1:2]
	case len(args) > 1 && args[1] == name:
		return commandLine{"polystalkd " + name, true}, args[2:]
	}
	return commandLine{"polystalkd", false}, args[min(1, len(args)):]
}

// exitCode returns the exit code for err: the replaced server's code if it has one.
func (p *commandLine) exitCode(err error) int {
	if p.gearmand {
		return fault.Gearmand
	}
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return f.Code
	}
	if _, ok := errors.AsType[*router.JournalError](err); ok {
		return fault.Journal
	}
	return fault.System
}

// checkConfig serves --check-config. It adds to err, the faults of Validate, all faults that can
// be found without changing anything, and reports them together. Without faults it prints the
// settings in effect if c.Check asks for them. The exit code is 0 or fault.Usage, also in place
// of gearmand.
func (p *commandLine) checkConfig(c *config.Config, err error, stdout, stderr io.Writer) int {
	p.warn(c, stderr)
	all := slices.Concat(fault.All(err), checkFiles(c), fault.All(listen.Check(c)))
	if len(all) > 0 {
		p.complain(stderr, c.Explain(all))
		return fault.Usage
	}
	if c.Check == config.CheckPrint {
		if err := c.WriteSettings(stdout); err != nil {
			p.complain(stderr, err)
			return fault.Usage
		}
	}
	return fault.OK
}

// checkArgs serves --check-args: it checks what a start would need, and opens no socket. c must
// be valid. In place of gearmand it checks only the command line, as gearmand does.
func (p *commandLine) checkArgs(c *config.Config, stderr io.Writer) error {
	if c.Gearmand {
		return nil
	}
	p.warn(c, stderr)
	return c.Explain(checkFiles(c).Err())
}

func (p *commandLine) warn(c *config.Config, stderr io.Writer) {
	for _, w := range c.Warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", p.name, w)
	}
}

// checkFiles returns the faults of the account and of the files and directories that c names.
func checkFiles(c *config.Config) (all fault.Faults) {
	for _, check := range []func(*config.Config) error{
		func(c *config.Config) error { _, err := findAccount(c); return err }, checkAccess, checkHTTP, checkCluster,
		func(c *config.Config) error { _, err := openClientTLS(c, slog.New(slog.DiscardHandler)); return err }, checkJournalDir,
	} {
		all = append(all, fault.All(check(c))...)
	}
	return all
}

// checkCluster reads the certificates of the cluster.
func checkCluster(c *config.Config) error {
	if c.Cluster.Listen == "" {
		return nil
	}
	_, err := member.Secure(c)
	return err
}

// checkJournalDir checks that the journal's directory exists.
func checkJournalDir(c *config.Config) error {
	if err := checkDirName(c); err != nil || c.BinlogDir == "" {
		return err
	}
	info, err := os.Stat(c.BinlogDir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err != nil {
		return fault.New(fault.Journal, "%s: the journal's directory %q cannot be used: %v: create it for the user that runs the server, or give another", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	return nil
}
