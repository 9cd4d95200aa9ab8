package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"polystalk/cmd/polystalkd/account"
	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// checkArgs serves --check-args: it looks at what a start would meet, and opens nothing.
// c is valid. In place of gearmand the words of the command line are all, as there.
func checkArgs(c *config.Config, stderr io.Writer, name string) error {
	if c.Gearmand {
		return nil
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", name, w)
	}
	if _, err := account.Find(c); err != nil {
		return err
	}
	if err := checkHTTP(c); err != nil {
		return err
	}
	if err := checkDirName(c); err != nil || c.BinlogDir == "" {
		return err
	}
	info, err := os.Stat(c.BinlogDir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return fault.New(fault.Journal, "%s: the journal's directory %q cannot be used: %v", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	return nil
}
