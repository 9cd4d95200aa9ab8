package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// check serves --check-args: it looks at what a start would meet, and opens nothing.
// c is valid. In place of gearmand the words of the command line are all, as there.
func (c *Config) check(stderr io.Writer, name string) error {
	if c.Gearmand {
		return nil
	}
	for _, w := range c.warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", name, w)
	}
	if _, err := findAccount(c); err != nil {
		return err
	}
	if err := c.checkDirName(); err != nil || c.BinlogDir == "" {
		return err
	}
	info, err := os.Stat(c.BinlogDir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return faultf(exitBinlog, "%s: the journal's directory %q cannot be used: %v", c.origin("binlog-dir"), c.BinlogDir, err)
	}
	return nil
}
