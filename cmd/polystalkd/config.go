package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"time"
)

// Limits and defaults. Sizes are bytes.
const (
	jobSizeDefault    = 1<<16 - 1 // as the reference
	jobSizeMax        = 1 << 30   // as the reference; a larger -z becomes this, with a warning
	binlogSizeDefault = 10 << 20  // as the reference

	loopsMax       = 1024
	shardsMax      = 4096 // tubes hash onto 4096 slots; a shard without a slot would have nothing to do
	shardsPerLoop  = 4    // at least; rounded up to a power of two
	connectionsMax = 1 << 24
)

// Config is everything a user can set. parseConfig fills it from the command
// line and the environment; Validate must have passed before it is used.
type Config struct {
	Listen []string // addresses as given: HOST, or unix:PATH; empty means 0.0.0.0
	Port   string   // a number or a service name; for every HOST
	User   string   // account to become after binding; empty: stay

	MaxJobSize uint32        // bytes in a job's body
	BinlogDir  string        // the journal's; empty: jobs are in memory only
	BinlogSize int64         // bytes in a file of the journal; also in stats
	FsyncEvery time.Duration // how long what is acknowledged may not be durable; 0: not at all
	NoFsync    bool          // … without a limit

	Loops          int // reactor loops; 0: one per core
	Shards         int // power of two; 0: from Loops
	MaxConnections int // 0: from the descriptor limit

	Gearman gearmanConfig

	LogLevel  string // debug, info, warn or error
	LogFormat string // text or json
	Verbose   int    // times -V was given; each lowers LogLevel by a step

	Pprof     string // HOST:PORT for profiles and counters, loopback only; empty: off
	pprofAddr string // Pprof, checked by Validate

	addresses []address         // Listen, parsed by Validate
	warnings  []string          // for the log, once there is one
	origins   map[string]string // long name → "flag -p" or "variable POLYSTALKD_PORT", for what was set
}

// isSet reports whether the flag of that long name was given, on the command
// line or in the environment.
func (c *Config) isSet(name string) bool { return c.origins[name] != "" }

// origin names where the value of a flag came from, for messages.
func (c *Config) origin(name, otherwise string) string {
	if o := c.origins[name]; o != "" {
		return o
	}
	return "flag " + otherwise
}

// Validate checks what can be checked without touching the system, and fills
// in the defaults that depend on the machine. Errors are faults.
func (c *Config) Validate() error {
	if _, err := c.logLevel(); err != nil {
		return err
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return faultf(exitUsage, "%s: unknown format %q: give text or json", c.origin("log-format", "--log-format"), c.LogFormat)
	}
	for _, n := range []struct {
		name     string
		value    int
		max      int
		zeroMean string
	}{
		{"loops", c.Loops, loopsMax, "one per core"},
		{"shards", c.Shards, shardsMax, "a default from --loops"},
		{"max-connections", c.MaxConnections, connectionsMax, "as many as the descriptor limit allows"},
	} {
		if n.value < 0 || n.value > n.max {
			return faultf(exitUsage, "%s: %d is out of range: give 0 (%s) to %d", c.origin(n.name, "--"+n.name), n.value, n.zeroMean, n.max)
		}
	}
	if c.Shards&(c.Shards-1) != 0 {
		return faultf(exitUsage, "%s: %d is not a power of two: give 1, 2, 4, 8 and so on", c.origin("shards", "--shards"), c.Shards)
	}
	if err := c.parseAddresses(); err != nil {
		return err
	}
	if err := c.parsePprof(); err != nil {
		return err
	}
	if err := c.validateGearman(); err != nil {
		return err
	}
	if c.Loops == 0 {
		// Not NumCPU: GOMAXPROCS starts from what a container's CPU limit leaves.
		c.Loops = min(runtime.GOMAXPROCS(0), loopsMax)
	}
	if c.Shards == 0 {
		for c.Shards = 1; c.Shards < c.Loops*shardsPerLoop && c.Shards < shardsMax; {
			c.Shards *= 2
		}
	}
	return nil
}

// An address is one place to listen.
type address struct {
	given string // as the user wrote it
	host  string // for TCP; without brackets
	port  string // for TCP
	path  string // for a unix socket; then host and port are empty
}

// parseAddresses reads Listen and Port into addresses. A bad one ends with the
// code of the reference, where it fails on binding.
func (c *Config) parseAddresses() error {
	listen := c.Listen
	if len(listen) == 0 {
		listen = []string{"0.0.0.0"}
	}
	portUsed := false
	for _, given := range listen {
		if path, ok := strings.CutPrefix(given, "unix:"); ok {
			if path == "" {
				return faultf(exitSystem, "%s: %q has no path: give one, as in -l unix:/run/polystalkd.sock", c.origin("listen", "-l"), given)
			}
			c.addresses = append(c.addresses, address{given: given, path: path})
			continue
		}
		host := given
		if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
			host = host[1 : len(host)-1]
		}
		if host == "" {
			return faultf(exitSystem, "%s: the address is empty: give a name, an IP address or unix:PATH, as in -l 0.0.0.0", c.origin("listen", "-l"))
		}
		if h, p, err := net.SplitHostPort(given); err == nil {
			return faultf(exitSystem, "%s: %q holds a port: give the address alone and the port with -p, as in -l %s -p %s", c.origin("listen", "-l"), given, h, p)
		}
		c.addresses = append(c.addresses, address{given: given, host: host, port: c.Port})
		portUsed = true
	}
	if portUsed {
		if _, err := lookupPort(c.Port); err != nil {
			return faultf(exitSystem, "%s: %q is not a port: give a number from 0 to 65535, as in -p 11300", c.origin("port", "-p"), c.Port)
		}
	}
	return nil
}

// lookupPort reads a port number or the name of a service.
func lookupPort(port string) (int, error) {
	if port == "" {
		return 0, fmt.Errorf("empty port")
	}
	return net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
}

// logLevel is LogLevel lowered by one step for each -V.
func (c *Config) logLevel() (slog.Level, error) {
	levels := []struct {
		name  string
		level slog.Level
	}{{"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"warn", slog.LevelWarn}, {"error", slog.LevelError}}
	for i, l := range levels {
		if l.name == c.LogLevel {
			return levels[max(0, i-max(0, c.Verbose))].level, nil
		}
	}
	return 0, faultf(exitUsage, "%s: unknown level %q: give debug, info, warn or error", c.origin("log-level", "--log-level"), c.LogLevel)
}
