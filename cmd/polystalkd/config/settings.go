package config

import (
	"fmt"

	"github.com/spf13/pflag"
)

// A Setting is one that is in effect.
type Setting struct{ Name, Value, Origin string }

// Settings are all that can be set, as they are in effect, without secrets: those are in
// files, of which only the names are here. Values that depend on the machine are filled in
// by Validate.
func (c *Config) Settings() []Setting {
	filled := map[string]string{
		"loops":             fmt.Sprint(c.Loops),
		"shards":            fmt.Sprint(c.Shards),
		"connection-memory": fmt.Sprint(c.ConnectionMemory),
		"max-job-size":      fmt.Sprint(c.MaxJobSize),
		"binlog-size":       fmt.Sprint(c.BinlogSize),
		"fsync-ms":          fmt.Sprint(c.FsyncEvery.Milliseconds()),
		"no-fsync":          fmt.Sprint(c.NoFsync),
		"gearman-max-body":  fmt.Sprint(c.Gearman.MaxBody),

		"gearman-max-unread": fmt.Sprint(c.Gearman.MaxUnread),
	}
	// What a user sets is a variable behind a flag, so the flags know the values. To make
	// flags sets the defaults: that is done to a copy, which has ours back after that.
	shown := *c
	fs := newFlagSet(&shown)
	shown = *c
	var list []Setting
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || !hasEnv(f) {
			return
		}
		value, ok := filled[f.Name]
		if !ok {
			value = f.Value.String()
		}
		origin := c.origins[f.Name]
		if origin == "" {
			origin = "default"
		}
		list = append(list, Setting{f.Name, value, origin})
	})
	return list
}
