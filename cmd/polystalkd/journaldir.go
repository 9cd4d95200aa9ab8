package main

import (
	"errors"
	"fmt"
	"log/slog"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/member"
	"polystalk/codec/binlog"
	"polystalk/router"
	"polystalk/shard/wal"
)

// A journalDir is the journal's directory, locked against other servers. close unlocks it after a
// graceful shutdown. After an error the lock stays until the process ends, because a part of the
// server may still write to the directory.
type journalDir struct {
	cfg  *router.Journal // nil: jobs are in memory only
	lock *binlog.DirLock
}

// openJournalDir locks the journal's directory. The process must already run as the account that
// writes it. again reports that this process had locked the directory before an exec.
func openJournalDir(c *config.Config, again bool, log *slog.Logger) (*journalDir, error) {
	if err := checkDirName(c); err != nil {
		return nil, err
	}
	if c.BinlogDir == "" {
		return &journalDir{}, nil
	}
	lock, err := binlog.Lock(c.BinlogDir)
	if locked, ok := errors.AsType[binlog.LockedError](err); ok {
		return nil, fault.New(fault.Journal, "%s: the directory is in use by another server: %v: stop that one first, or give another directory", c.Origin("binlog-dir"), locked)
	}
	if err != nil {
		return nil, fault.New(fault.Journal, "%s: the journal's directory %q cannot be used: %v: create it for the user that runs the server, or give another", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	if err := member.Check(c, again); err != nil {
		lock.Unlock()
		return nil, err
	}
	d := &journalDir{lock: lock, cfg: &router.Journal{Dir: c.BinlogDir, SegmentSize: c.BinlogSize, Every: c.FsyncEvery}}
	switch {
	case c.NoFsync:
		d.cfg.Sync = wal.SyncNever
	case c.FsyncEvery > 0:
		d.cfg.Sync = wal.SyncEvery
	}
	if c.BinlogSize < wal.SegmentMin {
		log.Warn("segments of the journal are larger than requested", "bytes", wal.SegmentMin, "asked", c.BinlogSize)
	}
	return d, nil
}

func checkDirName(c *config.Config) error {
	if c.BinlogDir == "" && c.IsSet("binlog-dir") {
		return fault.New(fault.Journal, "%s: the name of the journal's directory is empty: give one, or leave %s out to keep jobs in memory only", c.Origin("binlog-dir"), c.Spelling("binlog-dir"))
	}
	return nil
}

// close unlocks the directory. The caller must ensure that no part of the server still uses it.
func (d *journalDir) close() {
	if d.lock != nil {
		d.lock.Unlock()
	}
}

// explainJournal adds the remedy to an error of a journal that cannot be read.
func explainJournal(c *config.Config, err error) error {
	var damage *wal.Damage
	if errors.As(err, &damage) {
		return fault.New(fault.Journal, "%s: %v; nothing was changed: polystalk journal salvage %s NEWDIR copies what can be read",
			c.Origin("binlog-dir"), err, c.BinlogDir)
	}
	if _, ok := errors.AsType[*router.JournalError](err); ok {
		return fault.New(fault.Journal, "%s: the journal in %q cannot be used: %v", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return err
	}
	return fmt.Errorf("starting: %w", err)
}
