package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/listen"
	"polystalk/cmd/polystalkd/member"
)

// checkConfig serves --check-config. It adds to err, the faults of Validate, all faults that can
// be found without changing anything, and reports them together. Without faults it prints the
// settings in effect if c.Check asks for them. The exit code is 0 or fault.Usage, also in place
// of gearmand.
func (p *commandLine) checkConfig(c *config.Config, err error, stdout, stderr io.Writer) int {
	for _, w := range c.Warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", p.name, w)
	}
	all := fault.All(err)
	for _, check := range []func() error{
		func() error { _, err := findAccount(c); return err },
		func() error { return checkHTTP(c) },
		func() error { return checkCluster(c) },
		func() error { return checkJournalDir(c) },
		func() error { return listen.Check(c) },
	} {
		all = append(all, fault.All(check())...)
	}
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
func checkArgs(c *config.Config, stderr io.Writer, name string) error {
	if c.Gearmand {
		return nil
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", name, w)
	}
	if _, err := findAccount(c); err != nil {
		return err
	}
	if err := checkHTTP(c); err != nil {
		return err
	}
	if err := checkCluster(c); err != nil {
		return err
	}
	return checkJournalDir(c)
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
