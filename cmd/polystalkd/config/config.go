// Package config reads the settings of polystalkd: its command line, the command line in
// place of gearmand, configuration files and the environment. All of them fill one Config.
// It opens nothing but these files.
package config

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/beanstalk"
	"polystalk/router"
)

// Limits and defaults. Sizes are bytes.
const (
	jobSizeDefault    = beanstalk.DefaultMaxJobSize
	jobSizeMax        = beanstalk.MaxJobSizeLimit // the limit of -z: a larger value becomes this, with a warning
	binlogSizeDefault = 10 << 20                  // as the reference

	portDefault        = "11300" // as beanstalkd
	gearmanPortDefault = "4730"  // as gearmand

	connectionsMax = 1 << 24
)

// A Config holds all settings. Parse fills it from polystalkd's command line, ParseGearmand
// from gearmand's. The caller must call Validate before it uses the Config.
type Config struct {
	// Listen are beanstalkd's addresses as given: HOST or unix:PATH, none means
	// 0.0.0.0. In place of gearmand: HOST:PORT or unix:PATH, none means none.
	Listen []string
	Port   string // a number or a service name, for every HOST; of Gearman in place of gearmand
	User   string // account to become after binding; empty: stay

	MaxJobSize uint32        // bytes in a job's body
	BinlogDir  string        // journal's directory; empty: jobs are in memory only
	BinlogSize int64         // bytes in a file of the journal; also in stats
	FsyncEvery time.Duration // longest time until an acknowledged change is durable; 0: before the reply
	NoFsync    bool          // the kernel decides when to flush

	Loops          int // reactor loops; 0: one per core
	Shards         int // power of two; 0: from Loops
	MaxConnections int // 0: from the descriptor limit

	ConnectionMemory int64 // bound of the memory of all connections, in bytes; 0: a share of the machine's

	Gearman  gearmanConfig
	HTTP     httpConfig
	Cluster  clusterConfig
	Gearmand bool // started in place of gearmand
	process

	LogLevel  string // debug, info, warn or error
	LogFormat string // text or json
	Verbose   int    // times -V was given; each lowers LogLevel by a step

	Addresses []Address         // Listen, parsed by Validate
	Warnings  []string          // for the log, once it is open
	spellings map[string]string // long name → spelling for the user, such as -p
	sources
}

// sources records the origin of each value of a Config.
type sources struct {
	File  string // of --config, absolute; empty: there is none
	Check Check  // what --check-config asks for

	origins map[string]string // long name → "flag -p", "variable POLYSTALKD_PORT" or "file /f:7"; only set flags
	places  []filePlace       // the values that come from files
	keys    *keyTable         // the flags with their values
	faults  fault.Faults      // found in the environment and in files, reported by Validate
}

// process has the settings of the operating system's process. Only the command line in place
// of gearmand sets the fields after LogFile. The zero value of a field changes nothing.
type process struct {
	CheckArgs   bool                // end with success after all checks
	LogFile     string              // path, stderr or none; empty: stderr
	Syslog      bool                // log to syslog; also to LogFile if that is set
	PidFile     string              // path; empty: none
	Daemon      bool                // run in the background once it serves
	Descriptors uint64              // limit to set
	Backlog     int                 // of Gearman's listeners
	KeepAlive   net.KeepAliveConfig // of Gearman's connections; its zero value: the system's timing
}

// IsSet reports whether the flag with that long name was given on the command line, in the
// environment or in a file.
func (c *Config) IsSet(name string) bool { return c.origins[name] != "" }

// Origin returns the origin of a flag's value, for messages.
func (c *Config) Origin(name string) string {
	if o := c.origins[name]; o != "" {
		return o
	}
	return "flag " + c.spellings[name]
}

// Spelling is a flag as the user has to write it.
func (c *Config) Spelling(name string) string { return c.spellings[name] }

// Validate checks all settings without touching the system, and fills in the defaults that
// depend on the machine. The error is a *fault.Fault or, for several, fault.Faults. It
// includes the faults that Parse found in the environment and in files.
func (c *Config) Validate() error {
	_, err := c.Level()
	c.found(err)
	if c.LogFormat != "text" && c.LogFormat != "json" {
		c.found(fault.New(fault.Usage, "%s: unknown format %q: give text or json", c.Origin("log-format"), c.LogFormat))
	}
	for _, n := range []struct {
		name     string
		value    int
		max      int
		zeroMean string
	}{
		{"loops", c.Loops, router.LoopsMax, "one per core"},
		{"shards", c.Shards, router.ShardsMax, "a default from --loops"},
		{"max-connections", c.MaxConnections, connectionsMax, "as many as the descriptor limit allows"},
	} {
		if n.value < 0 || n.value > n.max {
			c.found(fault.New(fault.Usage, "%s: %d is out of range: give 0 (%s) to %d", c.Origin(n.name), n.value, n.zeroMean, n.max))
		}
	}
	if c.Shards > 0 && c.Shards <= router.ShardsMax && c.Shards&(c.Shards-1) != 0 {
		c.found(fault.New(fault.Usage, "%s: %d is not a power of two: give 1, 2, 4, 8 and so on", c.Origin("shards"), c.Shards))
	}
	c.parseAddresses()
	c.validateGearman()
	c.validateHTTP()
	c.validateCluster()
	c.found(c.makeAbsolute())
	c.fillConnectionMemory()
	if c.Loops == 0 {
		c.Loops = defaultLoops()
	}
	if c.Shards == 0 {
		c.Shards = router.DefaultShards(c.Loops)
	}
	return c.Explain(c.faults.Err())
}

// defaultLoops is computed once, because the process sets GOMAXPROCS itself and may read its
// configuration again afterwards.
var defaultLoops = sync.OnceValue(router.DefaultLoops)

// Router returns the settings for package router, without journal and log.
func (c *Config) Router() router.Config {
	gear := c.Gearman.router()
	if gear.Verbose == "" {
		level, _ := c.Level()
		gear.Verbose = strings.Replace(level.String(), "WARN", "WARNING", 1)
	}
	return router.Config{
		Loops:            c.Loops,
		Shards:           c.Shards,
		MaxJobSize:       c.MaxJobSize,
		MaxConnections:   c.MaxConnections,
		ConnectionMemory: c.ConnectionMemory,
		BinlogMaxSize:    c.BinlogSize,
		Version:          statsVersion(),
		Gearman:          gear,
	}
}

// Level is LogLevel lowered by one step for each -V.
func (c *Config) Level() (slog.Level, error) {
	levels := []struct {
		name  string
		level slog.Level
	}{{"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"warn", slog.LevelWarn}, {"error", slog.LevelError}}
	for i, l := range levels {
		if l.name == c.LogLevel {
			return levels[max(0, i-max(0, c.Verbose))].level, nil
		}
	}
	return 0, fault.New(fault.Usage, "%s: unknown level %q: give debug, info, warn or error", c.Origin("log-level"), c.LogLevel)
}

// LogsToFile reports whether --log-file names a file.
func (c *Config) LogsToFile() bool {
	return c.LogFile != "" && c.LogFile != "stderr" && c.LogFile != "none"
}
