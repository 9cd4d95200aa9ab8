package main

import (
	"log/slog"
	"os"

	"polystalk/cmd/internal/release"
	"polystalk/router"
	"polystalk/shard/journal"
)

// announce says in the log what is served, and with which settings: they come from
// flags, variables, a file and the machine. Sizes are bytes.
func announce(c *Config, srv *router.Server, socks *sockets, log *slog.Logger) {
	if len(socks.gearman) > 0 {
		gear := srv.Gearman()
		log.Info("serving Gearman", "listen", names(socks.gearman), "speaks", "gearmand "+spokenGearman,
			"prefix", gear.Prefix, "max-body", gear.MaxBody, "max-unread", gear.MaxUnread, "shutdown", c.Gearman.Shutdown)
	}
	var about []any
	if len(socks.beanstalkd) > 0 {
		about = append(about, "listen", names(socks.beanstalkd), "speaks", "beanstalkd "+spoken)
	}
	about = append(about, "loops", c.Loops, "shards", c.Shards, "max-job-size", c.MaxJobSize)
	if c.BinlogDir == "" {
		about = append(about, "journal", "none")
	} else {
		about = append(about, "journal", c.BinlogDir, "fsync", c.fsync(), "segment-size", max(c.BinlogSize, journal.SegmentMin))
	}
	connections, from := srv.ConnectionLimit()
	about = append(about, "max-connections", connections, "max-connections-from", from, "version", release.Version, "pid", os.Getpid())
	log.Info("serving", about...)
}

// fsync says when the journal is flushed.
func (c *Config) fsync() string {
	switch {
	case c.NoFsync:
		return "left to the kernel"
	case c.FsyncEvery > 0:
		return "within " + c.FsyncEvery.String()
	}
	return "before answering"
}
