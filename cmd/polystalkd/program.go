package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/router"
)

// A program is one of the command lines that this binary has. Each fills a Config;
// from there on they are the same.
type program struct {
	name      string // begins the line of an error
	version   func() string
	parse     func(args []string, lookupEnv func(string) (string, bool)) (*config.Config, error)
	writeHelp func(w io.Writer)
	exitCode  func(err error) int
}

// normal has beanstalkd's flags.
var normal = program{
	name: "polystalkd", version: config.VersionLine,
	parse: config.Parse, writeHelp: config.WriteHelp, exitCode: exitCode,
}

// inPlaceOfGearmand is the program that is started as gearmand is, under that name.
func inPlaceOfGearmand(name string) program {
	help := name + " --help"
	return program{
		name: name, version: config.GearmandVersionLine,
		parse: func(args []string, lookupEnv func(string) (string, bool)) (*config.Config, error) {
			return config.ParseGearmand(args, lookupEnv, help)
		},
		writeHelp: func(w io.Writer) { config.WriteGearmandHelp(w, name) },
		exitCode:  func(error) int { return fault.Gearmand },
	}
}

// read reads the configuration anew, which was read before: args are without the
// program's name.
func (p *program) read(args []string) (*config.Config, error) {
	c, err := p.parse(args, os.LookupEnv)
	if err == nil {
		c.WarnOfVariables(os.Environ())
		err = c.Validate()
	}
	return c, err
}

// complain writes what is wrong, a line each, and below it the line of a file that it is
// about.
func (p *program) complain(w io.Writer, err error) {
	for _, f := range fault.All(err) {
		fmt.Fprintf(w, "%s: %v\n", p.name, f)
		if f.Excerpt != "" {
			fmt.Fprintf(w, "    %s\n", f.Excerpt)
		}
	}
}

// report writes what is wrong, and returns the exit code. c is nil if there is no configuration. A nil
// error is a success.
func (p *program) report(c *config.Config, err error, stderr io.Writer) int {
	if err == nil {
		return fault.OK
	}
	if c != nil {
		err = c.Explain(err)
	}
	p.complain(stderr, err)
	return p.exitCode(err)
}

// programOf tells from the program's name and first argument which command line it is,
// and returns it with the arguments that are left.
func programOf(args []string) (program, []string) {
	const name = "gearmand"
	switch {
	case len(args) > 0 && filepath.Base(args[0]) == name:
		return inPlaceOfGearmand(name), args[1:]
	case len(args) == 3 && args[1] == "help" && args[2] == name:
		return inPlaceOfGearmand("polystalkd " + name), args[1:2]
	case len(args) > 1 && args[1] == name:
		return inPlaceOfGearmand("polystalkd " + name), args[2:]
	}
	return normal, args[min(1, len(args)):]
}

// exitCode is that of the reference.
func exitCode(err error) int {
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return f.Code
	}
	if _, ok := errors.AsType[*router.JournalError](err); ok {
		return fault.Journal
	}
	return fault.System
}
