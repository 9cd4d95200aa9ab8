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

// checkConfig serves --check-config: it goes on after what Validate has found (err), with
// what else can be told without taking or changing anything, says all at once, and prints
// what is in effect if that was asked for. The exit code is 0 or fault.Usage, whatever is
// wrong and in place of whom.
func (p *program) checkConfig(c *config.Config, err error, stdout, stderr io.Writer) int {
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

// checkArgs serves --check-args: it looks at what a start would meet, and opens nothing.
// c is valid. In place of gearmand the words of the command line are all, as there.
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

// checkCluster reads the files by which the servers of a cluster know each other.
func checkCluster(c *config.Config) error {
	if c.Cluster.Listen == "" {
		return nil
	}
	_, err := member.Secure(c)
	return err
}

// checkJournalDir looks whether the journal's directory is there.
func checkJournalDir(c *config.Config) error {
	if err := checkDirName(c); err != nil || c.BinlogDir == "" {
		return err
	}
	info, err := os.Stat(c.BinlogDir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return fault.New(fault.Journal, "%s: the journal's directory %q cannot be used: %v: create it for the user that runs the server, or give another", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	return nil
}
