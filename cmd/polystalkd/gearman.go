package main

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"polystalk/codec/gearman"
	"polystalk/router"
)

// gearmanConfig is what a user can set about Gearman.
type gearmanConfig struct {
	Listen     []string // HOST:PORT each, none: Gearman is not spoken; in place of gearmand HOST, none: all
	Prefix     string   // of job handles; empty: "H:" and the host's name
	Retries    int      // how often a job may lose its worker; 0 or less: any number of times
	Wakeup     int      // how many sleeping workers are told of a job; 0: all
	Exceptions bool     // the option is on for everybody
	Failed     string   // what becomes of failed background jobs: drop or bury
	Shutdown   string   // whose shutdown command is obeyed: local, any or none
	MaxBody    uint32   // of a packet, in bytes
	MaxUnread  uint32   // of what is relayed to a client, in bytes; 0: twice MaxBody
	Verbose    string   // the level of the log as gearmand names it; empty: from LogLevel

	addresses []address // Listen, parsed by Validate
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
	g.MaxBody = gearman.DefaultMaxBody
	fs.Func("gearman-max-body", fmt.Sprintf("take Gearman packets with a body of up to `BYTES`, at most %d\n(default %d)", jobSizeMax, g.MaxBody), setBytes(&g.MaxBody))
	fs.Func("gearman-max-unread", "cut Gearman clients off that leave `BYTES` from workers unread (default twice\nthe largest body)", setBytes(&g.MaxUnread))
}

func setBytes(to *uint32) func(string) error {
	return func(s string) error {
		n, negative, ok := parseNumber(s)
		if !ok || negative || n == 0 || n > jobSizeMax {
			return &badValue{fmt.Sprintf("give a whole number of bytes from 1 to %d", jobSizeMax), "67108864"}
		}
		*to = uint32(n)
		return nil
	}
}

func (c *Config) validateGearman() error {
	g := &c.Gearman
	if !gearman.ValidPrefix(g.Prefix) {
		return faultf(exitUsage, "%s: %q cannot begin a job handle: give at most %d bytes, no blanks", c.origin("gearman-prefix"), g.Prefix, gearman.MaxPrefix)
	}
	if g.Failed != "drop" && g.Failed != "bury" {
		return faultf(exitUsage, "%s: %q is unknown: give drop or bury", c.origin("gearman-failed"), g.Failed)
	}
	if _, ok := shutdownFrom[g.Shutdown]; !ok {
		return faultf(exitUsage, "%s: %q is unknown: give local, any or none", c.origin("gearman-shutdown"), g.Shutdown)
	}
	if g.Wakeup < 0 {
		return faultf(exitUsage, "%s: %d is negative: give 0 (all) or more", c.origin("gearman-wakeup"), g.Wakeup)
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
		MaxBody: g.MaxBody, MaxUnread: int(g.MaxUnread), Version: gearmanVersion(), Verbose: g.Verbose,
	}
}

// gearmanTCP is tcpConfig with the timing of keep-alive probes that was asked for.
func (c *Config) gearmanTCP() *net.ListenConfig {
	lc := tcpConfig
	lc.KeepAliveConfig = c.KeepAlive // where a listener's options are not its connections'
	lc.Control = func(network, address string, raw syscall.RawConn) error {
		err := tcpConfig.Control(network, address, raw)
		if err == nil && c.KeepAlive.Enable {
			err = setKeepAlive(raw, &c.KeepAlive)
		}
		return err
	}
	return &lc
}

// setKeepAlive sets what is not negative of the timing of a listener's connections.
func setKeepAlive(raw syscall.RawConn, k *net.KeepAliveConfig) error {
	var errs error
	err := raw.Control(func(fd uintptr) {
		set := func(option int, value int) {
			if value >= 0 {
				errs = errors.Join(errs, syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, option, value))
			}
		}
		set(keepIdle, seconds(k.Idle))
		set(unix.TCP_KEEPINTVL, seconds(k.Interval))
		set(unix.TCP_KEEPCNT, k.Count)
	})
	return errors.Join(err, errs)
}

// seconds rounds up; what is negative stays so.
func seconds(d time.Duration) int {
	if d < 0 {
		return -1
	}
	return int((d + time.Second - 1) / time.Second)
}

// setBacklog has the system hold as many connections that were not accepted yet as was
// asked for. Go asks for as many as the system allows.
func (c *Config) setBacklog(ls []net.Listener) error {
	if c.Backlog == 0 {
		return nil
	}
	for _, l := range ls {
		raw, err := l.(*net.TCPListener).SyscallConn()
		var listenErr error
		if err == nil {
			err = raw.Control(func(fd uintptr) { listenErr = syscall.Listen(int(fd), c.Backlog) })
		}
		if err = errors.Join(err, listenErr); err != nil {
			return faultf(exitSystem, "%s: %v: give another number, or leave it out", c.origin("backlog"), err)
		}
	}
	return nil
}
