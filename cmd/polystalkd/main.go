// Polystalkd is a job server that speaks the beanstalkd and the Gearman protocol on
// every core. It takes beanstalkd's flags with their meaning and exit codes;
// polystalkd -h lists them, package config holds their defaults and limits.
//
// As polystalkd gearmand, or under the name gearmand, it takes gearmand's flags, exit code and
// signals instead. Both command lines fill the same Config and start the same server. With
// --config both read files as well, and SIGHUP reads all of them again: see reloader.
//
// The program is thin: it reads its configuration, opens the sockets and drops privileges. Then
// it passes the listeners to package router, and signals to the router's Drain, Retire and
// Shutdown.
//
//	config.Parse         ┐
//	config.ParseGearmand ┴→ Validate → (detach) → listen.All → Become → router → READY=1 … signal → STOPPING=1 → Shutdown
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

func main() {
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code. args begin with the program's name.
func run(args []string, stdout, stderr io.Writer) int {
	log := stderr
	// Another user may have written the configuration, so control characters are escaped.
	stdout, stderr = &program.Writer{W: stdout}, &program.Writer{W: stderr}
	p, args := commandLineOf(args)
	last, err := readInherited()
	if err != nil {
		p.complain(stderr, err)
		return p.exitCode(err)
	}
	c, err := p.parse(args)
	switch {
	case errors.Is(err, config.ErrHelp) && p.gearmand:
		config.WriteGearmandHelp(stdout, p.name)
		return fault.OK
	case errors.Is(err, config.ErrHelp):
		config.WriteHelp(stdout)
		return fault.OK
	case errors.Is(err, config.ErrVersion):
		fmt.Fprintln(stdout, config.VersionLine(p.gearmand))
		return fault.OK
	}
	code := fault.OK
	if err == nil {
		c.WarnOfVariables(os.Environ())
		err = c.Validate()
	}
	if c != nil && c.Check != "" {
		return p.checkConfig(c, err, stdout, stderr)
	}
	if err == nil && c.CheckArgs {
		err = p.checkArgs(c, stderr)
	} else if err == nil {
		var waiting *parent
		if c.Daemon && last == nil {
			waiting = takeParent()
		}
		if c.Daemon && last == nil && waiting == nil {
			code, err = detach(c)
		} else {
			read := func() (*config.Config, error) { return p.read(args) }
			exit := func(err error) {
				within(writeWithin, func() { p.report(c, err, stderr) })
				if err == nil {
					os.Exit(fault.OK)
				}
				os.Exit(p.exitCode(err))
			}
			err = serve(c, read, waiting, last, log, exit)
		}
	}
	if err == nil {
		return code
	}
	return p.report(c, err, stderr)
}
