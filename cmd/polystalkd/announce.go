package main

import (
	"log/slog"
	"os"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/listen"
	"polystalk/router"
	"polystalk/shard/wal"
)

// announce logs the addresses and the settings in effect. Sizes are bytes.
func announce(c *config.Config, srv *router.Server, socks *listen.Sockets, log *slog.Logger) {
	if len(socks.Gearman) > 0 {
		gear := srv.Gearman()
		log.Info("serving Gearman", "listen", listen.Names(socks.Gearman), "speaks", "gearmand "+config.SpokenGearman,
			"prefix", gear.Prefix, "max-body", gear.MaxBody, "max-unread", gear.MaxUnread, "shutdown", c.Gearman.Shutdown)
	}
	var about []any
	if len(socks.Beanstalkd) > 0 {
		about = append(about, "listen", listen.Names(socks.Beanstalkd), "speaks", "beanstalkd "+config.Spoken)
	}
	about = append(about, "loops", c.Loops, "shards", c.Shards, "max-job-size", c.MaxJobSize)
	if c.BinlogDir == "" {
		about = append(about, "journal", "none")
	} else {
		about = append(about, "journal", c.BinlogDir, "fsync", fsync(c), "segment-size", max(c.BinlogSize, wal.SegmentMin))
	}
	connections, from := srv.ConnectionLimit()
	about = append(about, "max-connections", connections, "max-connections-from", from, "version", program.Version, "pid", os.Getpid())
	log.Info("serving", about...)
}

// fsync describes when the journal is flushed.
func fsync(c *config.Config) string {
	switch {
	case c.NoFsync:
		return "left to the kernel"
	case c.FsyncEvery > 0:
		return "within " + c.FsyncEvery.String()
	}
	return "before answering"
}
