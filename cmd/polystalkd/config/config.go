// Package config reads the settings of polystalkd: its command line, the command line in
// place of gearmand, configuration files and the environment. All of them fill one Config.
// It opens nothing but these files.
package config

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/beanstalk"
	"polystalk/codec/tomlfile"
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

	AccessFile string // see access.Open; empty: there is none

	Gearman  gearmanConfig
	HTTP     httpConfig
	TLS      tlsConfig
	Cluster  clusterConfig
	Gearmand bool // started in place of gearmand
	process

	LogLevel  string // debug, info, warn or error
	LogFormat string // text or json
	Verbose   int    // times -V was given; each lowers LogLevel by a step

	Addresses []Address // Listen, parsed by Validate
	Warnings  []string  // for the log, once it is open
	sources
}

// sources records the origin of each value of a Config.
type sources struct {
	File  string // of --config, absolute; empty: there is none
	Check Check  // what --check-config asks for

	spellings map[string]string // long name → spelling for the user, such as -p
	origins   map[string]string // long name → "flag -p", "variable POLYSTALKD_PORT" or "file /f:7"; only set flags
	places    []tomlfile.Place  // the values that come from files
	keys      *keyTable         // the flags with their values
	faults    fault.Faults      // found in the environment and in files, reported by Validate
}

// process has the settings of the operating system's process. Only the command line in place
// of gearmand sets the fields after LogFile. The zero value of a field changes nothing.
type process struct {
	CheckArgs   bool      // end with success after all checks
	LogFile     string    // path, stderr or none; empty: stderr
	Syslog      bool      // log to syslog; also to LogFile if that is set
	PidFile     string    // path; empty: none
	Daemon      bool      // run in the background once it serves
	Descriptors uint64    // limit to set
	Backlog     int       // of Gearman's listeners
	KeepAlive   KeepAlive // of Gearman's connections
}

// A KeepAlive is the timing of probes on idle connections: seconds without traffic, seconds
// between probes, and probes without an answer. 0 or less: the system's default.
type KeepAlive struct{ Idle, Interval, Count int }

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

// warn adds a warning for the log.
func (c *Config) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// refuse records a fault for Validate about the value of a flag, if bad is true.
func (c *Config) refuse(bad bool, flag, format string, args ...any) {
	if bad {
		c.found(fault.New(fault.Usage, "%s: %s", c.Origin(flag), fmt.Sprintf(format, args...)))
	}
}

// Validate checks all settings without touching the system, and fills in the defaults that
// depend on the machine. The error is a *fault.Fault or, for several, fault.Faults. It
// includes the faults that Parse found in the environment and in files.
func (c *Config) Validate() error {
	_, err := c.Level()
	c.found(err)
	c.refuse(c.LogFormat != "text" && c.LogFormat != "json", "log-format", "unknown format %q: give text or json", c.LogFormat)
	for _, n := range []struct {
		name       string
		value, max int
		zeroMean   string
	}{
		{"loops", c.Loops, router.LoopsMax, "one per core"},
		{"shards", c.Shards, router.ShardsMax, "a default from --loops"},
		{"max-connections", c.MaxConnections, connectionsMax, "as many as the descriptor limit allows"},
	} {
		c.refuse(n.value < 0 || n.value > n.max, n.name, "%d is out of range: give 0 (%s) to %d", n.value, n.zeroMean, n.max)
	}
	c.refuse(c.Shards > 0 && c.Shards <= router.ShardsMax && c.Shards&(c.Shards-1) != 0, "shards", "%d is not a power of two: give 1, 2, 4, 8 and so on", c.Shards)
	c.parseAddresses()
	c.validateGearman()
	c.validateHTTP()
	c.validateTLS()
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
		Balancers:        c.TLS.BalancerNetworks,
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

// Bounds of the memory of all connections together, in bytes. The default is a quarter of the
// machine's memory. The minimum is the larger of connectionMemoryMin and the space for bodiesMin
// of the largest bodies. Half of the bound is for garbage (router/session), so two such bodies
// fit: other clients cannot make the server close the connection of an honest producer.
const (
	connectionMemoryPart = 4
	connectionMemoryMin  = 8 << 20
	bodiesMin            = 4
)

// fillConnectionMemory sets the default, and raises a value that is too small.
func (c *Config) fillConnectionMemory() {
	least := max(connectionMemoryMin, bodiesMin*int64(c.MaxJobSize))
	if len(c.Gearman.Addresses)+len(c.TLS.GearmanAddresses) > 0 {
		least = max(least, bodiesMin*int64(c.Gearman.MaxBody))
	}
	switch n := c.ConnectionMemory; {
	case n == 0:
		c.ConnectionMemory = max(least, machineMemory()/connectionMemoryPart)
	case n < least:
		c.warn("the least memory for connections is %d bytes, enough for %d of the largest bodies; it is used instead of %d", least, bodiesMin, n)
		c.ConnectionMemory = least
	}
}

// memoryUnknown is assumed as the machine's memory, in bytes, if the system does not report it.
const memoryUnknown = 1 << 30

// machineMemory returns the memory that this process can use, in bytes: the machine's memory, or
// the limit of its control groups if that is smaller.
func machineMemory() int64 {
	least := int64(memoryUnknown)
	if n, err := memlimit.FromSystem(); err == nil && n > 0 {
		least = int64(min(n, math.MaxInt64))
	}
	if n, err := memlimit.FromCgroup(); err == nil && n > 0 {
		least = min(least, int64(min(n, math.MaxInt64)))
	}
	return least
}

// Spoken is the beanstalkd release that this server follows in its protocol and replies.
const Spoken = "1.13"

// SpokenGearman is the gearmand release that this server follows.
const SpokenGearman = "2.0.0"

// statsVersion returns the version key of the stats reply. Clients compare it as a number or as
// dotted numbers to learn which commands they may send, so it starts with the release we follow,
// padded to three parts for strict semantic version parsers. The part after "+" is build
// metadata, which such parsers ignore. beanstalkd's own builds between releases use the same sign
// ("1.10+4+gdeadbee"), so clients know it.
func statsVersion() string { return Spoken + ".0+polystalk." + metadata() }

// metadata returns our version in the form of build metadata, which cannot contain a "+".
func metadata() string { return strings.ReplaceAll(program.Version, "+", ".") }

// gearmanVersion returns the answer to Gearman's command version, in the same form. Gearman's
// monitoring tools know gearmand's releases, not beanstalkd's.
func gearmanVersion() string { return SpokenGearman + "+polystalk." + metadata() }

// VersionLine returns the text that -v prints, in place of gearmand --version.
func VersionLine(gearmand bool) string {
	speaks := "speaks beanstalkd " + Spoken
	if gearmand {
		speaks = "speaks Gearman as gearmand " + SpokenGearman + ", beanstalkd " + Spoken
	}
	return program.Line("polystalkd", speaks)
}
