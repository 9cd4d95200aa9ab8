package config

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// gearmandFlags is gearmand's command line. It fills the same Config as polystalkd's own command
// line, so both start the same server.
type gearmandFlags struct {
	c   *Config
	all *pflag.FlagSet
	// The flags in three groups for the help: gearmand's flags with an effect, polystalkd's
	// flags, and gearmand's flags without an effect.
	theirs, own, unused *pflag.FlagSet

	renamed    map[string]string // gearmand's name → ours
	configFile string
}

// ours returns the name by which Config knows a flag: see Config.Origin.
func (g *gearmandFlags) ours(f *pflag.Flag) string {
	if name, ok := g.renamed[f.Name]; ok {
		return name
	}
	return f.Name
}

// newGearmandFlags ties each flag to its field of c and sets the defaults.
// Source of names and meanings: gearmand 1.1.20, --help.
func newGearmandFlags(c *Config) *gearmandFlags {
	g := &gearmandFlags{c: c, renamed: make(map[string]string)}
	for _, fs := range []**pflag.FlagSet{&g.all, &g.theirs, &g.own, &g.unused} {
		*fs = pflag.NewFlagSet("gearmand", pflag.ContinueOnError)
		(*fs).SetOutput(io.Discard)
		(*fs).Usage = func() {}
		(*fs).SortFlags = false
	}
	normal := newFlagSet(c)
	// take adds a flag of polystalkd's own command line.
	take := func(fs *pflag.FlagSet, ours, name, short string) {
		f := *normal.Lookup(ours)
		f.Name, f.Shorthand = name, short
		g.renamed[name] = ours
		fs.AddFlag(&f)
	}

	fs := g.theirs
	fs.StringArrayVarP(&c.Gearman.Listen, "listen", "L", nil, "listen on `HOST`, a name or an IP address; may be given several\ntimes (default: all addresses)")
	g.renamed["listen"] = "gearman-listen"
	fs.StringVarP(&c.Port, "port", "p", gearmanPortDefault, "listen on TCP `PORT`")
	numberOrNone(fs, "backlog", "b", "let `N` connections wait to be accepted (default: as many as the system allows)", g.setBacklog,
		func() int64 { return int64(c.Backlog) })
	g.keepAliveFlags(fs)
	take(fs, "gearman-retries", "job-retries", "j")
	take(fs, "gearman-wakeup", "worker-wakeup", "w")
	take(fs, "gearman-prefix", "job-handle-prefix", "")
	take(fs, "gearman-exceptions", "exceptions", "")
	fs.FuncP("queue-type", "q", "keep jobs in `NAME`: only builtin; see --journal (default builtin)", setQueueType)
	fs.FuncP("protocol", "r", "also speak `NAME`: no other protocol is supported", setProtocol)
	fs.StringVarP(&c.LogFile, "log-file", "l", "", "write the log to `FILE`, stderr or none (default stderr)")
	fs.BoolVar(&c.Syslog, "syslog", false, "write the log to syslog, and to a file only with --log-file")
	g.renamed["verbose"] = "log-level"
	word(fs, "verbose", "", "log `LEVEL` and above: DEBUG, INFO or NOTICE, WARNING, or one\nof ERROR, CRITICAL, ALERT, FATAL (default INFO)", g.setVerbose,
		func() string { return c.Gearman.Verbose })
	c.Gearman.Verbose = "INFO"
	fs.StringVarP(&c.PidFile, "pid-file", "P", "", "write the process id to `FILE` (default: nowhere)")
	fs.BoolVarP(&c.Daemon, "daemon", "d", false, "detach and run in the background, once it serves")
	take(fs, "user", "user", "u")
	numberOrNone(fs, "file-descriptors", "f", "allow the process `N` descriptors (default: as many as the user may have)", g.setDescriptors,
		func() int64 { return int64(c.Descriptors) })
	fs.StringVar(&g.configFile, "config-file", gearmandConf, "read more flags from `FILE`")
	fs.BoolVar(&c.CheckArgs, "check-args", false, "check the flags and exit")
	fs.BoolFuncP("version", "V", "show the version and exit", stopWith(ErrVersion))
	fs.BoolFuncP("help", "h", "show this text and exit", stopWith(ErrHelp))

	g.ownFlags(take)
	g.unusedFlags()
	for _, fs := range []*pflag.FlagSet{g.theirs, g.own, g.unused} {
		fs.VisitAll(g.all.AddFlag)
	}
	return g
}

// ownFlags adds polystalkd's flags, under names that gearmand does not use.
func (g *gearmandFlags) ownFlags(take func(fs *pflag.FlagSet, ours, name, short string)) {
	fs, c := g.own, g.c
	fs.StringArrayVar(&c.Listen, "beanstalk-listen", nil, "speak beanstalkd's protocol on `ADDR`, HOST:PORT or unix:PATH, as in\n127.0.0.1:11300; may be given several times (default: not at all)")
	g.renamed["beanstalk-listen"] = "listen"
	take(fs, "binlog-dir", "journal", "")
	take(fs, "fsync-ms", "journal-fsync-ms", "")
	take(fs, "no-fsync", "journal-no-fsync", "")
	take(fs, "binlog-size", "journal-size", "")
	fs.Lookup("journal-fsync-ms").Usage = strings.ReplaceAll(fs.Lookup("journal-fsync-ms").Usage, "; 0: as without -f", "")
	fs.Lookup("journal-size").Usage = fmt.Sprintf("use journal files of `BYTES` (default %d)", binlogSizeDefault)
	for _, name := range []string{"max-job-size", "loops", "shards", "max-connections", "connection-memory",
		"gearman-failed", "gearman-shutdown", "gearman-max-body", "gearman-max-unread", "log-format", "config", "check-config"} {
		take(fs, name, name, "")
	}
	for _, name := range slices.Concat(httpFlagNames, []string{"cluster-listen"}, clusterFlagNames, []string{"cluster-dial"}) {
		take(fs, name, name, "")
	}
	fs.Lookup("cluster-listen").Usage = strings.Replace(fs.Lookup("cluster-listen").Usage, "needs -b", "needs --journal", 1)
	fs.Lookup("log-format").Usage = "write the log as `FORMAT`: text or json"
}

// unusedFlags adds gearmand's flags without an effect. Their use adds a warning with the
// reason.
func (g *gearmandFlags) unusedFlags() {
	fs := g.unused
	note := func(flag, why string) { g.c.Warnings = append(g.c.Warnings, "flag "+flag+" has no effect: "+why) }
	fs.FuncP("threads", "t", "`N` threads: there is one event loop per core; see --loops", func(s string) error {
		if _, err := strconv.Atoi(s); err != nil {
			return &badValue{"give a whole number", "4"}
		}
		note("-t", "there is one event loop per core, or as many as --loops says")
		return nil
	})
	fs.Func("hashtable-buckets", "`N` buckets: tables grow by themselves", func(s string) error {
		if n, err := strconv.Atoi(s); err != nil || n <= 0 {
			return &badValue{"give a whole number above 0, or leave it out", ""}
		}
		note("--hashtable-buckets", "tables grow by themselves")
		return nil
	})
	for _, f := range []struct{ name, short, usage, why string }{
		{"round-robin", "R", "functions of the same priority always take turns", "functions of the same priority always take turns"},
		{"coredump", "", "see the variable GOTRACEBACK", "GOTRACEBACK=crash in the environment asks for a core dump"},
		{"store-queue-on-shutdown", "", "see --journal", "--journal DIR keeps every background job at once"},
	} {
		spelled := "--" + f.name
		if f.short != "" {
			spelled = "-" + f.short
		}
		fs.BoolFuncP(f.name, f.short, f.usage, func(s string) error {
			if on, err := strconv.ParseBool(s); err != nil {
				return err
			} else if on {
				note(spelled, f.why)
			}
			return nil
		})
	}
}

// keepAliveFlags adds the flags for the timing of probes. Probes are always sent: without them a
// worker on a lost machine would keep its jobs forever.
func (g *gearmandFlags) keepAliveFlags(fs *pflag.FlagSet) {
	fs.Bool("keepalive", false, "probe idle connections: always done here")
	k := &g.c.KeepAlive
	for _, f := range []struct {
		name, usage string
		max         int // the system's maximum
		set         func(n int)
		get         func() int
	}{
		{"keepalive-idle", "probe after `SECONDS` without traffic; -1: the system's default (default -1)", 32767, seconds(&k.Idle), inSeconds(&k.Idle)},
		{"keepalive-interval", "probe again after `SECONDS`; -1: the system's default (default -1)", 32767, seconds(&k.Interval), inSeconds(&k.Interval)},
		{"keepalive-count", "give up after `N` probes; -1: the system's default (default -1)", 127, func(n int) { k.Count = n }, func() int { return k.Count }},
	} {
		number(fs, f.name, "", f.usage, func(s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < -1 || n == 0 || n > f.max {
				return &badValue{fmt.Sprintf("give 1 to %d, or -1 for the system's default", f.max), ""}
			}
			if !k.Enable {
				k.Enable, k.Idle, k.Interval, k.Count = true, -1, -1, -1
			}
			f.set(n)
			return nil
		}, func() int64 {
			if n := f.get(); n > 0 {
				return int64(n)
			}
			return -1
		})
	}
}

// seconds returns a setter for a duration. A negative number stays negative: it means the
// system's default.
func seconds(d *time.Duration) func(n int) {
	return func(n int) { *d = time.Duration(n) * time.Second }
}

func inSeconds(d *time.Duration) func() int { return func() int { return int(*d / time.Second) } }

func (g *gearmandFlags) setBacklog(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n == 0 {
		return &badValue{"give a whole number of 1 or more", "128"}
	}
	g.c.Backlog = int(n)
	return nil
}

// descriptorsMin is enough for the server and a few connections.
const descriptorsMin = 64

func (g *gearmandFlags) setDescriptors(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n > math.MaxInt32 {
		return &badValue{fmt.Sprintf("give a whole number of %d or more", descriptorsMin), "65536"}
	}
	// gearmand ignores 0 and negative numbers, and accepts too few descriptors.
	if n > 0 && n < descriptorsMin {
		g.c.Warnings = append(g.c.Warnings, fmt.Sprintf("flag -f: %d descriptors are too few; the limit is set to %d", n, descriptorsMin))
		n = descriptorsMin
	}
	g.c.Descriptors = uint64(max(n, 0))
	return nil
}

// verboseLevels maps gearmand's names of log levels to ours.
var verboseLevels = []struct{ theirs, ours string }{
	{"FATAL", "error"}, {"ALERT", "error"}, {"CRITICAL", "error"}, {"ERROR", "error"},
	{"WARNING", "warn"}, {"NOTICE", "info"}, {"INFO", "info"}, {"DEBUG", "debug"},
}

func (g *gearmandFlags) setVerbose(s string) error {
	for _, l := range verboseLevels {
		if strings.EqualFold(s, l.theirs) {
			g.c.Gearman.Verbose, g.c.LogLevel = l.theirs, l.ours
			return nil
		}
	}
	return &badValue{"give FATAL, ALERT, CRITICAL, ERROR, WARNING, NOTICE, INFO or DEBUG", ""}
}

func setQueueType(s string) error {
	if s != "builtin" {
		return &badValue{storeRemedy, ""}
	}
	return nil
}

func setProtocol(s string) error {
	if s == "http" {
		return &badValue{"submission by HTTP is not supported: leave it out, and submit with a Gearman client", ""}
	}
	return &badValue{"there is no such protocol: leave it out", ""}
}
