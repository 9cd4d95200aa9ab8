package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/fault"
)

// gearmandConf is the default file of options. It need not exist.
const gearmandConf = "/etc/gearmand.conf"

// ParseGearmand is like Parse for gearmand's command line. In order of precedence it reads
// the command line, gearmand's file of options, the environment and the files of --config.
// help is the command that shows the flags.
// Source: gearmand 1.1.20, gearmand/gearmand.cc.
func ParseGearmand(args []string, lookupEnv func(string) (string, bool), help string) (*Config, error) {
	c := newConfig()
	c.Gearmand = true
	g := newGearmandFlags(c)
	c.keys = &g.keyTable
	g.help, g.scratch = help, func() *pflag.FlagSet { return newGearmandFlags(newConfig()).all }
	if err := c.parseLine(args); err != nil {
		return nil, err
	}
	if err := g.readFile(); err != nil {
		return nil, err
	}
	const portName = "GEARMAND_PORT"
	if port := c.variable(portName, true, lookupEnv); port != "" && !g.all.Changed("port") {
		c.Port, c.origins["port"] = port, "variable "+portName
	}
	c.readFiles()
	c.findCredentials(lookupEnv)
	return c, nil
}

// readFile reads the file of options: flags as on the command line, separated by blanks or line
// ends. A line that begins with # is a comment. A word that is not a flag is an error here, since
// it is usually a mistake; gearmand ignores it.
func (g *gearmandFlags) readFile() error {
	file := g.configFile
	path, err := fromStart(file)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !g.all.Changed("config-file") {
		return nil
	}
	if err != nil {
		return fault.New(fault.Usage, "%s: the file %q cannot be read (%v): give another, or leave --config-file out", g.c.Origin("config-file"), file, fault.Cause(err))
	}
	var args []string
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(words[0], "#") {
			args = append(args, words...)
		}
	}
	onLine := make(map[string]bool)
	g.all.Visit(func(f *pflag.Flag) { onLine[f.Name] = true })
	err = g.all.ParseAll(args, func(f *pflag.Flag, value string) error {
		if onLine[f.Name] {
			return nil
		}
		g.c.origins[g.ours(f)] = "flag " + spelling(f) + " in " + file
		return g.all.Set(f.Name, value)
	})
	if err != nil {
		err = g.explain(err)
	} else {
		err = g.noArgument()
	}
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return fault.New(f.Code, "file %s: %s", file, f)
	}
	return err
}

// elsewhere maps the prefixes of gearmand's flags for missing features to a remedy.
var elsewhere = []struct{ begin, remedy string }{
	{"http-", "submission by HTTP is not supported: leave it out, and submit with a Gearman client"},
	{"libmemcached-", storeRemedy},
	{"libsqlite3-", storeRemedy},
	{"libpq-", storeRemedy},
	{"libdrizzle-", storeRemedy},
	{"libtokyocabinet-", storeRemedy},
	{"redis-", storeRemedy},
	{"mysql-", storeRemedy},
}

const storeRemedy = "databases are not supported: leave it out, and give --journal DIR to keep background jobs in files in that directory"

// gearmandFault returns the fault for a flag of gearmand that does not exist here; nil: gearmand
// does not have the flag either.
func gearmandFault(unknown *pflag.NotExistError) *fault.Fault {
	name := unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		if name == "v" {
			return fault.New(fault.Usage, "unknown flag -v: give --verbose LEVEL to log more, or -V for the version")
		}
		return nil
	}
	for _, e := range elsewhere {
		if strings.HasPrefix(name, e.begin) {
			return fault.New(fault.Usage, "flag --%s: %s", name, e.remedy)
		}
	}
	return nil
}

// makeAbsolute makes paths independent of the working directory, which a daemon leaves.
func (c *Config) makeAbsolute() error {
	if !c.Daemon {
		return nil
	}
	h, k, t := &c.HTTP, &c.Cluster, &c.TLS
	paths := []*string{&c.PidFile, &c.BinlogDir, &c.AccessFile, &h.Cert, &h.Key, &k.Cert, &k.Key, &k.CA, &t.Cert, &t.Key, &t.CA, &t.CRL}
	if c.LogsToFile() {
		paths = append(paths, &c.LogFile)
	}
	for _, list := range [][]Address{c.Addresses, h.Addresses} {
		for i := range list {
			paths = append(paths, &list[i].Path)
		}
	}
	for _, p := range paths {
		if *p == "" {
			continue
		}
		var err error
		if *p, err = fromStart(*p); err != nil {
			return err
		}
	}
	return nil
}

// startDir returns the working directory at its first call: the directory in which the program
// was started. A daemon leaves it.
var startDir = sync.OnceValues(os.Getwd)

// StartDir returns the directory in which the program was started; empty: unknown.
func StartDir() string {
	dir, _ := startDir()
	return dir
}

// fromStart returns path as an absolute path, relative to StartDir.
func fromStart(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	dir, err := startDir()
	if err != nil {
		return "", fault.New(fault.System, "the working directory is not known (%v): give %q as absolute path", err, path)
	}
	return filepath.Join(dir, path), nil
}

// gearmandFlags is gearmand's command line. It fills the same Config as polystalkd's own command
// line, so both start the same server.
type gearmandFlags struct {
	keyTable
	c *Config
	// The flags in three groups for the help: gearmand's flags with an effect, polystalkd's
	// flags, and gearmand's flags without an effect (keyTable.unused).
	theirs, own *pflag.FlagSet

	normal     *pflag.FlagSet // polystalkd's own command line
	configFile string
}

// newGearmandFlags ties each flag to its field of c and sets the defaults.
// Source of names and meanings: gearmand 1.1.20, --help.
func newGearmandFlags(c *Config) *gearmandFlags {
	g := &gearmandFlags{c: c, normal: newFlagSet(c), theirs: emptyFlagSet("gearmand"), own: emptyFlagSet("gearmand")}
	g.keyTable = keyTable{all: emptyFlagSet("gearmand"), unused: emptyFlagSet("gearmand"), renamed: make(map[string]string)}
	fs := g.theirs
	fs.StringArrayVarP(&c.Gearman.Listen, "listen", "L", nil, "listen on `HOST`, a name or an IP address; may be given several\ntimes (default: all addresses)")
	g.renamed["listen"] = "gearman-listen"
	fs.StringVarP(&c.Port, "port", "p", gearmanPortDefault, "listen on TCP `PORT`")
	number(fs, "backlog", "b", "let `N` connections wait to be accepted (default: as many as the system allows)", &c.Backlog, 1, math.MaxInt32, "give a whole number of 1 or more", "128")
	g.keepAliveFlags(fs)
	g.take(fs, "gearman-retries", "job-retries", "j")
	g.take(fs, "gearman-wakeup", "worker-wakeup", "w")
	g.take(fs, "gearman-prefix", "job-handle-prefix", "")
	g.take(fs, "gearman-exceptions", "exceptions", "")
	fs.FuncP("queue-type", "q", "keep jobs in `NAME`: only builtin; see --journal (default builtin)", setQueueType)
	fs.FuncP("protocol", "r", "also speak `NAME`: no other protocol is supported", setProtocol)
	fs.StringVarP(&c.LogFile, "log-file", "l", "", "write the log to `FILE`, stderr or none (default stderr)")
	fs.BoolVar(&c.Syslog, "syslog", false, "write the log to syslog, and to a file only with --log-file")
	g.renamed["verbose"] = "log-level"
	add(fs, "verbose", "", "log `LEVEL` and above: DEBUG, INFO or NOTICE, WARNING, or one\nof ERROR, CRITICAL, ALERT, FATAL (default INFO)", "string", g.setVerbose,
		func() string { return c.Gearman.Verbose })
	c.Gearman.Verbose = "INFO"
	fs.StringVarP(&c.PidFile, "pid-file", "P", "", "write the process id to `FILE` (default: nowhere)")
	fs.BoolVarP(&c.Daemon, "daemon", "d", false, "detach and run in the background, once it serves")
	g.take(fs, "user", "user", "u")
	fs.BoolVar(&c.TLS.Gearmand, "ssl", false, "use TLS on all addresses of Gearman")
	g.take(fs, "tls-cert", "ssl-certificate", "")
	g.take(fs, "tls-key", "ssl-key", "")
	g.take(fs, "tls-client-ca", "ssl-ca-file", "")
	add(fs, "file-descriptors", "f", "allow the process `N` descriptors (default: as many as the user may have)", "number", g.setDescriptors,
		func() string { return strings.TrimPrefix(strconv.FormatUint(c.Descriptors, 10), "0") })
	fs.StringVar(&g.configFile, "config-file", gearmandConf, "read more flags from `FILE`")
	fs.BoolVar(&c.CheckArgs, "check-args", false, "check the flags and exit")
	fs.BoolFuncP("version", "V", "show the version and exit", stopWith(ErrVersion))
	fs.BoolFuncP("help", "h", "show this text and exit", stopWith(ErrHelp))

	g.ownFlags()
	g.unusedFlags()
	for _, fs := range []*pflag.FlagSet{g.theirs, g.own, g.unused} {
		fs.VisitAll(g.all.AddFlag)
	}
	return g
}

// take adds a flag of polystalkd's own command line under a name of gearmand's.
func (g *gearmandFlags) take(fs *pflag.FlagSet, ours, name, short string) {
	f := *g.normal.Lookup(ours)
	f.Name, f.Shorthand = name, short
	g.renamed[name] = ours
	fs.AddFlag(&f)
}

// ownFlags adds polystalkd's flags, under names that gearmand does not use. The group has every
// flag of polystalkd's own command line that is neither renamed nor about that command line.
func (g *gearmandFlags) ownFlags() {
	fs, c := g.own, g.c
	fs.StringArrayVar(&c.Listen, "beanstalk-listen", nil, "speak beanstalkd's protocol on `ADDR`, HOST:PORT or unix:PATH, as in\n127.0.0.1:11300; may be given several times (default: not at all)")
	g.renamed["beanstalk-listen"] = "listen"
	g.take(fs, "binlog-dir", "journal", "")
	g.take(fs, "fsync-ms", "journal-fsync-ms", "")
	g.take(fs, "no-fsync", "journal-no-fsync", "")
	g.take(fs, "binlog-size", "journal-size", "")
	fs.Lookup("journal-fsync-ms").Usage = strings.ReplaceAll(fs.Lookup("journal-fsync-ms").Usage, "; 0: as without -f", "")
	fs.Lookup("journal-size").Usage = fmt.Sprintf("use journal files of `BYTES` (default %d)", binlogSizeDefault)
	has := slices.Collect(maps.Values(g.renamed))
	has = append(has, "port", "verbose", "version", "help", "check-args", "compact", "no-compact")
	g.normal.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(has, f.Name) {
			g.take(fs, f.Name, f.Name, "")
		}
	})
	fs.Lookup("cluster-listen").Usage = strings.Replace(fs.Lookup("cluster-listen").Usage, "needs -b", "needs --journal", 1)
	fs.Lookup("log-format").Usage = "write the log as `FORMAT`: text or json"
}

// unusedFlags adds gearmand's flags without an effect. Their use adds a warning with the
// reason.
func (g *gearmandFlags) unusedFlags() {
	fs := g.unused
	fs.FuncP("threads", "t", "`N` threads: there is one event loop per core; see --loops", func(s string) error {
		if _, err := strconv.Atoi(s); err != nil {
			return &badValue{"give a whole number", "4"}
		}
		g.c.warn("flag -t has no effect: there is one event loop per core, or as many as --loops says")
		return nil
	})
	fs.Func("hashtable-buckets", "`N` buckets: tables grow by themselves", func(s string) error {
		if n, err := strconv.Atoi(s); err != nil || n <= 0 {
			return &badValue{"give a whole number above 0, or leave it out", ""}
		}
		g.c.warn("flag --hashtable-buckets has no effect: tables grow by themselves")
		return nil
	})
	g.c.noEffect(fs, "round-robin", "R", "functions of the same priority always take turns", "functions of the same priority always take turns")
	g.c.noEffect(fs, "coredump", "", "see the variable GOTRACEBACK", "GOTRACEBACK=crash in the environment asks for a core dump")
	g.c.noEffect(fs, "store-queue-on-shutdown", "", "see --journal", "--journal DIR keeps every background job at once")
}

// keepAliveFlags adds the flags for the timing of probes. Probes are always sent: without them a
// worker on a lost machine would keep its jobs forever.
func (g *gearmandFlags) keepAliveFlags(fs *pflag.FlagSet) {
	fs.Bool("keepalive", false, "probe idle connections: always done here")
	k := &g.c.KeepAlive
	for _, f := range []struct {
		name, usage string
		to          *int
		max         int // the system's maximum
	}{
		{"keepalive-idle", "probe after `SECONDS` without traffic; -1: the system's default (default -1)", &k.Idle, 32767},
		{"keepalive-interval", "probe again after `SECONDS`; -1: the system's default (default -1)", &k.Interval, 32767},
		{"keepalive-count", "give up after `N` probes; -1: the system's default (default -1)", &k.Count, 127},
	} {
		*f.to = -1
		add(fs, f.name, "", f.usage, "number", func(s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < -1 || n == 0 || n > f.max {
				return &badValue{fmt.Sprintf("give 1 to %d, or -1 for the system's default", f.max), ""}
			}
			*f.to = n
			return nil
		}, func() string { return strconv.Itoa(*f.to) })
	}
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
		g.c.warn("flag -f: %d descriptors are too few; the limit is set to %d", n, descriptorsMin)
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

func WriteGearmandHelp(w io.Writer, name string) {
	g := newGearmandFlags(newConfig())
	fmt.Fprintf(w, `polystalkd serves Gearman in place of gearmand, on every core.

Use: %s [FLAGS]

Flags of gearmand:
%s
Flags of polystalkd:
%s
Accepted without effect:
%s
Flags of gearmand for HTTP and databases are refused. The file of options
has flags as on the command line, which has precedence. GEARMAND_PORT is the port
unless a flag sets it. The files of --config have the long flags as keys, and the
lowest precedence.
SIGTERM and SIGINT end the server. SIGUSR1 refuses new connections and ends it
when no job is left. SIGHUP opens the log file and reads the files of --config again.
`, name, g.theirs.FlagUsages(), g.own.FlagUsages(), g.unused.FlagUsages())
}
