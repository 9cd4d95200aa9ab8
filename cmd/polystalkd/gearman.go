package main

import (
	"context"
	"net"

	"github.com/spf13/pflag"

	"polystalk/router"
)

// gearmanConfig is what a user can set about Gearman.
type gearmanConfig struct {
	Listen     []string // HOST:PORT each; none: Gearman is not spoken
	Prefix     string   // of job handles; empty: "H:" and the host's name
	Retries    int      // how often a job may lose its worker; 0 or less: any number of times
	Wakeup     int      // how many sleeping workers are told of a job; 0: all
	Exceptions bool     // the option is on for everybody
	Failed     string   // what becomes of failed background jobs: drop or bury
	Shutdown   string   // whose shutdown command is obeyed: local, any or none
}

func (c *Config) gearmanFlags(fs *pflag.FlagSet) {
	g := &c.Gearman
	fs.StringArrayVar(&g.Listen, "gearman-listen", nil,
		"speak Gearman on `ADDR`, HOST:PORT, as in 127.0.0.1:4730;\nmay be given several times (default: not at all)")
	fs.StringVar(&g.Prefix, "gearman-prefix", "", "begin Gearman's job handles with `PREFIX` (default H: and the host's name)")
	fs.IntVar(&g.Retries, "gearman-retries", 0, "fail a Gearman job that has lost its worker `N` times; 0: never")
	fs.IntVar(&g.Wakeup, "gearman-wakeup", 0, "tell `N` sleeping Gearman workers of a job; 0: all")
	fs.BoolVar(&g.Exceptions, "gearman-exceptions", false, "send exceptions to every Gearman client")
	fs.StringVar(&g.Failed, "gearman-failed", "drop", "`WHAT` becomes of background jobs that fail: drop or bury")
	fs.StringVar(&g.Shutdown, "gearman-shutdown", "local", "obey the shutdown command of `WHOM`: local, any or none")
}

func (c *Config) validateGearman() error {
	g := &c.Gearman
	for _, a := range g.Listen {
		_, port, err := net.SplitHostPort(a)
		if err == nil {
			_, err = lookupPort(port)
		}
		if err != nil {
			return faultf(exitUsage, "%s: %q is no address with a port: give HOST:PORT, as in 127.0.0.1:4730", c.origin("gearman-listen", "--gearman-listen"), a)
		}
	}
	if g.Failed != "drop" && g.Failed != "bury" {
		return faultf(exitUsage, "%s: %q is unknown: give drop or bury", c.origin("gearman-failed", "--gearman-failed"), g.Failed)
	}
	if _, ok := shutdownFrom[g.Shutdown]; !ok {
		return faultf(exitUsage, "%s: %q is unknown: give local, any or none", c.origin("gearman-shutdown", "--gearman-shutdown"), g.Shutdown)
	}
	if g.Wakeup < 0 {
		return faultf(exitUsage, "%s: %d is negative: give 0 (all) or more", c.origin("gearman-wakeup", "--gearman-wakeup"), g.Wakeup)
	}
	return nil
}

var shutdownFrom = map[string]router.ShutdownFrom{
	"local": router.ShutdownLocal, "any": router.ShutdownAny, "none": router.ShutdownNone,
}

// router is the configuration as package router takes it; it must be valid.
func (g *gearmanConfig) router() router.GearmanConfig {
	return router.GearmanConfig{
		Prefix: g.Prefix, Retries: uint32(max(g.Retries, 0)), Wakeup: g.Wakeup,
		Exceptions: g.Exceptions, BuryFailed: g.Failed == "bury", Shutdown: shutdownFrom[g.Shutdown],
	}
}

// listenGearman opens the addresses for Gearman. Errors are faults.
func listenGearman(c *Config) ([]net.Listener, error) {
	var ls []net.Listener
	for _, a := range c.Gearman.Listen {
		l, err := tcpConfig.Listen(context.Background(), "tcp", a)
		if err != nil {
			closeAll(ls)
			return nil, faultf(exitSystem, "%s %q: %v: choose another address or port", c.origin("gearman-listen", "--gearman-listen"), a, cause(err))
		}
		ls = append(ls, l)
	}
	return ls, nil
}
