package main

import (
	"errors"
	"fmt"
	"log/slog"

	"polystalk/codec/binlog"
	"polystalk/router"
	"polystalk/shard/journal"
)

// A keep is the journal's directory, held against other servers. The lock ends
// with the process: wherever the server ends before it was shut down, in the
// middle of a start or by an error, something may still write there.
type keep struct {
	cfg  *router.Journal // nil: jobs are in memory only
	lock *binlog.DirLock
}

// openKeep locks the journal's directory, as the account that will write it.
func openKeep(c *Config, log *slog.Logger) (*keep, error) {
	if err := c.checkDirName(); err != nil {
		return nil, err
	}
	if c.BinlogDir == "" {
		return &keep{}, nil
	}
	lock, err := binlog.Lock(c.BinlogDir)
	if locked, ok := errors.AsType[binlog.LockedError](err); ok {
		return nil, faultf(exitBinlog, "%s: the directory is in use by another server: %v: stop that one first, or give another directory", c.origin("binlog-dir"), locked)
	}
	if err != nil {
		return nil, faultf(exitBinlog, "%s: the journal's directory %q cannot be used: %v", c.origin("binlog-dir"), c.BinlogDir, err)
	}
	k := &keep{lock: lock, cfg: &router.Journal{Dir: c.BinlogDir, SegmentSize: c.BinlogSize, Every: c.FsyncEvery}}
	switch {
	case c.NoFsync:
		k.cfg.Sync = journal.SyncNever
	case c.FsyncEvery > 0:
		k.cfg.Sync = journal.SyncEvery
	}
	if c.BinlogSize < journal.SegmentMin {
		log.Warn("segments of the journal are made larger than asked for", "bytes", journal.SegmentMin, "asked", c.BinlogSize)
	}
	return k, nil
}

func (c *Config) checkDirName() error {
	if c.BinlogDir == "" && c.isSet("binlog-dir") {
		return faultf(exitBinlog, "%s: the name of the journal's directory is empty: give one, or leave %s out to keep jobs in memory only", c.origin("binlog-dir"), c.spellings["binlog-dir"])
	}
	return nil
}

// close gives the directory back; nothing of the server can touch it any more.
func (k *keep) close() {
	if k.lock != nil {
		k.lock.Unlock()
	}
}

// explainKeep says what to do about a journal that cannot be read.
func explainKeep(c *Config, err error) error {
	var damage *journal.Damage
	if errors.As(err, &damage) {
		return faultf(exitBinlog, "%s: %v; nothing was changed: polystalk journal salvage %s NEWDIR takes over what can be read",
			c.origin("binlog-dir"), err, c.BinlogDir)
	}
	if _, ok := errors.AsType[*router.JournalError](err); ok {
		return faultf(exitBinlog, "%s: the journal in %q cannot be used: %v", c.origin("binlog-dir"), c.BinlogDir, err)
	}
	return fmt.Errorf("starting: %w", err)
}
