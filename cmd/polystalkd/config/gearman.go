package config

import (
	"fmt"

	"github.com/spf13/pflag"

	"polystalk/codec/gearman"
	"polystalk/router"
)

// gearmanConfig has the settings of the Gearman protocol.
type gearmanConfig struct {
	Listen     []string // HOST:PORT each, none: no Gearman; in place of gearmand HOST, none: all
	Prefix     string   // of job handles; empty: "H:" and the host's name
	Retries    int      // how often a job may lose its worker; 0 or less: no limit
	Wakeup     int      // how many sleeping workers one job wakes; 0: all
	Exceptions bool     // all clients get exceptions
	Failed     string   // what happens to failed background jobs: drop or bury
	Shutdown   string   // clients that may shut the server down: local, any or none
	MaxBody    uint32   // of a packet, in bytes
	MaxUnread  uint32   // bytes relayed to a client that it has not read; 0: twice MaxBody
	Verbose    string   // log level in gearmand's words; empty: from LogLevel

	Addresses []Address // Listen, parsed by Validate
}

func (c *Config) gearmanFlags(fs *pflag.FlagSet) {
	g := &c.Gearman
	fs.StringArrayVar(&g.Listen, "gearman-listen", nil,
		"serve Gearman on `ADDR`, HOST:PORT, as in 127.0.0.1:4730;\nmay be given several times (default: not at all)")
	fs.StringVar(&g.Prefix, "gearman-prefix", "", "begin Gearman's job handles with `PREFIX` (default H: and the host's\nname, or the cluster's number)")
	fs.IntVar(&g.Retries, "gearman-retries", 0, "fail a Gearman job that has lost its worker `N` times; 0: never")
	fs.IntVar(&g.Wakeup, "gearman-wakeup", 0, "wake `N` sleeping Gearman workers for a job; 0: all")
	fs.BoolVar(&g.Exceptions, "gearman-exceptions", false, "send exceptions to every Gearman client")
	fs.StringVar(&g.Failed, "gearman-failed", "drop", "do `WHAT` with failed background jobs: drop or bury")
	fs.StringVar(&g.Shutdown, "gearman-shutdown", "local", "accept the command shutdown from `CLIENTS`: local, any or none")
	g.MaxBody = gearman.DefaultMaxBody
	remedy := fmt.Sprintf("give a whole number of bytes from 1 to %d", jobSizeMax)
	number(fs, "gearman-max-body", "", fmt.Sprintf("accept Gearman packets with a body of up to `BYTES`, at most %d\n(default %d)", jobSizeMax, g.MaxBody), &g.MaxBody, 1, jobSizeMax, remedy, "67108864")
	number(fs, "gearman-max-unread", "", "disconnect Gearman clients that leave `BYTES` from workers unread (default\ntwice the largest body)", &g.MaxUnread, 1, jobSizeMax, remedy, "67108864")
}

func (c *Config) validateGearman() {
	g := &c.Gearman
	_, known := shutdownFrom[g.Shutdown]
	c.refuse(!gearman.ValidPrefix(g.Prefix), "gearman-prefix", "%q cannot begin a job handle: give at most %d bytes, no blanks", g.Prefix, gearman.MaxPrefix)
	c.refuse(g.Failed != "drop" && g.Failed != "bury", "gearman-failed", "%q is unknown: give drop or bury", g.Failed)
	c.refuse(!known, "gearman-shutdown", "%q is unknown: give local, any or none", g.Shutdown)
	c.refuse(g.Wakeup < 0, "gearman-wakeup", "%d is negative: give 0 (all) or more", g.Wakeup)
}

var shutdownFrom = map[string]router.ShutdownFrom{
	"local": router.ShutdownLocal, "any": router.ShutdownAny, "none": router.ShutdownNone,
}

// router returns the settings for package router. g must be valid.
func (g *gearmanConfig) router() router.GearmanConfig {
	return router.GearmanConfig{
		Prefix: g.Prefix, Retries: uint32(max(g.Retries, 0)), Wakeup: g.Wakeup,
		Exceptions: g.Exceptions, BuryFailed: g.Failed == "bury", Shutdown: shutdownFrom[g.Shutdown],
		MaxBody: g.MaxBody, MaxUnread: int(g.MaxUnread), Version: gearmanVersion(), Verbose: g.Verbose,
	}
}
