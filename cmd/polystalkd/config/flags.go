package config

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	// pflag, because beanstalkd's users write -p11300, -f0 and -VV, which the
	// standard flag package cannot read.
	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/fault"
)

// envPrefix and a flag's long name in upper case, "_" for "-", make the name of
// its environment variable.
const envPrefix = "POLYSTALKD_"

// Parse returns these when the command line asks for text instead of a server. As with
// beanstalkd, the first one on the line wins.
var (
	ErrHelp    = errors.New("help wanted")
	ErrVersion = errors.New("version wanted")
)

// Parse reads the command line (without the program's name), the environment and files; an
// earlier source has precedence. It returns ErrHelp, ErrVersion or a *fault.Fault for the command
// line. Validate reports the faults of the environment and of files.
func Parse(args []string, lookupEnv func(string) (string, bool)) (*Config, error) {
	c := newConfig()
	fs := newFlagSet(c)
	if err := fs.Parse(args); err != nil {
		return nil, explain(err, normalHelp)
	}
	if err := noArgument(fs, normalHelp); err != nil {
		return nil, err
	}
	fs.VisitAll(func(f *pflag.Flag) { c.spellings[f.Name] = spelling(f) })
	fs.Visit(func(f *pflag.Flag) { c.origins[f.Name] = "flag " + spelling(f) })

	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Changed && hasEnv(f) {
			c.found(fromEnv(c, fs, f, lookupEnv))
		}
	})
	c.keys = &keyTable{all: fs, ours: func(f *pflag.Flag) string { return f.Name }, help: normalHelp}
	c.keys.scratch = func() *pflag.FlagSet { return newFlagSet(newConfig()) }
	c.readFiles()
	c.findCredentials(lookupEnv)
	return c, nil
}

func newConfig() *Config {
	return &Config{spellings: make(map[string]string), sources: sources{origins: make(map[string]string)}}
}

// newFlagSet ties each flag to its field of c and sets the defaults.
func newFlagSet(c *Config) *pflag.FlagSet {
	fs := pflag.NewFlagSet("polystalkd", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.SortFlags = false

	c.MaxJobSize, c.BinlogSize = jobSizeDefault, binlogSizeDefault

	fs.StringArrayVarP(&c.Listen, "listen", "l", nil,
		"listen on `ADDR`: a name, an IP address or unix:PATH;\nmay be given several times (default 0.0.0.0)")
	fs.StringVarP(&c.Port, "port", "p", portDefault, "listen on TCP `PORT`")
	fs.StringVarP(&c.User, "user", "u", "", "switch to `USER` and its groups after listening")
	number(fs, "max-job-size", "z", fmt.Sprintf("accept jobs of up to `BYTES`, at most %d (default %d)", jobSizeMax, jobSizeDefault), c.setJobSize,
		func() int64 { return int64(c.MaxJobSize) })
	fs.StringVarP(&c.BinlogDir, "binlog-dir", "b", "", "keep jobs in a journal in `DIR`; a change is acknowledged\nonce it is on the disk, and nothing acknowledged is lost")
	number(fs, "fsync-ms", "f", "acknowledge changes at once and flush the journal within `MS`: a power\ncut can lose that much, a crash of the process nothing; 0: as without -f", c.setFsync, c.fsyncMS)
	truth(fs, "no-fsync", "F", "acknowledge changes at once and leave flushing to the kernel: a power\ncut can lose about 30 seconds, a crash of the process nothing", c.setNoFsync,
		func() bool { return c.NoFsync })
	number(fs, "binlog-size", "s", fmt.Sprintf("use journal files of `BYTES` (default %d);\nwithout -b only shown in stats", binlogSizeDefault), c.setBinlogSize,
		func() int64 { return c.BinlogSize })
	fs.IntVar(&c.Loops, "loops", 0, "run `N` reactor loops; 0: one per core")
	fs.IntVar(&c.Shards, "shards", 0, "split the tubes over `N` shards, a power of two; 0: 4 to 7 for each loop")
	fs.IntVar(&c.MaxConnections, "max-connections", 0, "serve at most `N` client connections at once; a follower counts those that it\nforwards to the leader, which counts them too; 0: from the descriptor limit")
	number(fs, "connection-memory", "", "limit the memory of all connections together to `BYTES`, without jobs: pipelined\ncommands, unfinished bodies, unread replies; 0: a quarter of the machine's memory", c.setConnectionMemory,
		func() int64 { return c.ConnectionMemory })
	c.gearmanFlags(fs)
	c.httpFlags(fs)
	c.clusterFlags(fs)
	fs.StringVar(&c.LogLevel, "log-level", "info", "log `LEVEL` and above: debug, info, warn or error")
	fs.StringVar(&c.LogFormat, "log-format", "text", "write the log on stderr as `FORMAT`: text or json")
	fs.CountVarP(&c.Verbose, "verbose", "V", "log more``; may be repeated") // the empty quotes mean no value
	fs.StringVar(&c.File, "config", "", "read options from `FILE`, in TOML, then from FILE.d/*.toml;\nSIGHUP reads them again")
	fs.Var((*check)(&c.Check), "check-config", "check the configuration and exit; `HOW` is only, or print to show\nthe settings in effect and their origins")
	fs.Lookup("check-config").NoOptDefVal = string(CheckOnly)
	fs.BoolVar(&c.CheckArgs, "check-args", false, "check flags, variables and files and exit")
	fs.BoolFuncP("version", "v", "show the version and exit", stopWith(ErrVersion))
	fs.BoolFuncP("help", "h", "show this text and exit", stopWith(ErrHelp))

	// Accepted for old scripts, as the reference does.
	for _, name := range []string{"compact", "no-compact"} {
		short := name[:1]
		fs.BoolFuncP(name, short, "", func(string) error {
			c.Warnings = append(c.Warnings, "flag -"+short+" has no effect: it was removed from beanstalkd, a journal is always compacted")
			return nil
		})
		fs.Lookup(name).Hidden = true
	}
	return fs
}

func stopWith(err error) func(string) error {
	return func(string) error { return err }
}

// hasEnv reports whether a flag has an environment variable. Flags that start no server have
// none: POLYSTALKD_VERSION in a container's environment describes the image; it does not ask for
// the version.
func hasEnv(f *pflag.Flag) bool {
	switch f.Name {
	case "version", "help", "check-args", "check-config":
		return false
	}
	return true
}

func envName(f *pflag.Flag) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// fromEnv sets f from its variable. An empty variable counts as unset. Variables of flags
// that may be repeated hold values separated by commas.
func fromEnv(c *Config, fs *pflag.FlagSet, f *pflag.Flag, lookupEnv func(string) (string, bool)) error {
	name := envName(f)
	value, ok := lookupEnv(name)
	if !ok || value == "" {
		return nil
	}
	if f.Name == "port" && strings.HasPrefix(value, "tcp://") {
		// Kubernetes sets this in every pod next to a service named polystalkd.
		c.Warnings = append(c.Warnings, fmt.Sprintf("variable %s=%s is a Kubernetes service link, not a port, and is ignored", name, value))
		return nil
	}
	values := []string{value}
	if httpLists(f.Name) {
		values = strings.Split(value, ",")
	}
	switch f.Name {
	case "fsync-ms", "no-fsync":
		// -f and -F undo each other, and the command line has precedence.
		if fs.Changed("fsync-ms") && strings.HasPrefix(c.origins["fsync-ms"], "flag") ||
			fs.Changed("no-fsync") && strings.HasPrefix(c.origins["no-fsync"], "flag") {
			return nil
		}
	case "listen", "gearman-listen", "cluster-join", "cluster-dial":
		values = strings.Split(value, ",")
	case "compact", "no-compact":
		if on, err := strconv.ParseBool(value); err == nil && !on {
			return nil
		}
	}
	for _, v := range values {
		if err := fs.Set(f.Name, strings.TrimSpace(v)); err != nil {
			return fault.New(fault.Usage, "variable %s: %s", name, complaint(f, v, err, normalHelp))
		}
	}
	c.origins[f.Name] = "variable " + name
	return nil
}

// explain converts an error of pflag to ErrHelp, ErrVersion or a fault. help is the command
// that shows the flags.
func explain(err error, help string) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
	)
	switch {
	case errors.Is(err, ErrHelp):
		return ErrHelp
	case errors.Is(err, ErrVersion):
		return ErrVersion
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if group := unknown.GetSpecifiedShortnames(); group != "" {
			name = "-" + unknown.GetSpecifiedName()
			if len(group) > 1 {
				name += " in -" + group
			}
		}
		return fault.New(fault.Usage, "unknown flag %s: leave it out, or see %s for all flags", name, help)
	case errors.As(err, &missing):
		f := missing.GetFlag()
		kind, _ := pflag.UnquoteUsage(f)
		return fault.New(fault.Usage, "flag %s: its value is missing: give %s %s", spelling(f), spelling(f), kind)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		return fault.New(fault.Usage, "flag %s: %s", spelling(f), complaint(f, invalid.GetValue(), err, help))
	case errors.As(err, &syntax):
		return fault.New(fault.Usage, "unknown flag %s: see %s for all flags", syntax.GetSpecifiedFlag(), help)
	}
	return fault.New(fault.Usage, "%v: see %s", err, help)
}

// complaint returns the message for a bad value, with the remedy.
func complaint(f *pflag.Flag, value string, err error, help string) string {
	var bad *badValue
	if errors.As(err, &bad) {
		remedy := bad.remedy
		if bad.example != "" {
			remedy += ", as in " + spelling(f) + " " + bad.example
		}
		return fmt.Sprintf("bad value %q: %s", value, remedy)
	}
	remedy := "see " + help
	switch f.Value.Type() {
	case "int", "count":
		remedy = "give a whole number"
	case "bool", "boolfunc":
		remedy = "give true or false"
	}
	return fmt.Sprintf("bad value %q: %s", value, remedy)
}

// spelling returns the short form of a flag if there is one, else the long form.
func spelling(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

// A badValue is the error of a flag's setter: the remedy and, where one helps, an example.
type badValue struct{ remedy, example string }

func (b *badValue) Error() string { return b.remedy }

func (c *Config) setJobSize(s string) error {
	n, negative, ok := parseNumber(s)
	if !ok {
		return &badValue{"give a whole number of bytes", "65535"}
	}
	// The reference reads -1 as a huge number and then uses its maximum.
	if negative || n > jobSizeMax {
		c.Warnings = append(c.Warnings, fmt.Sprintf("the largest job size allowed is %d bytes; it is used instead of %s", jobSizeMax, s))
		n = jobSizeMax
	}
	c.MaxJobSize = uint32(n)
	return nil
}

func (c *Config) setFsync(s string) error {
	n, negative, ok := parseNumber(s)
	if !ok || negative || n > uint64(math.MaxInt64/time.Millisecond) {
		return &badValue{"give a whole number of milliseconds", "50"}
	}
	c.FsyncEvery = time.Duration(n) * time.Millisecond
	c.NoFsync = false // the last of -f and -F counts, as in the reference
	return nil
}

// fsyncMS returns the value of -f in effect, in milliseconds; 0 if -F is set.
func (c *Config) fsyncMS() int64 {
	if c.NoFsync {
		return 0
	}
	return int64(c.FsyncEvery / time.Millisecond)
}

func (c *Config) setNoFsync(s string) error {
	on, err := strconv.ParseBool(s)
	if err != nil {
		return err
	}
	c.NoFsync = on
	return nil
}

func (c *Config) setBinlogSize(s string) error {
	n, negative, ok := parseNumber(s)
	if !ok || negative || n > math.MaxInt64 {
		return &badValue{"give a whole number of bytes", "10485760"}
	}
	c.BinlogSize = int64(n)
	return nil
}

// parseNumber reads a number by beanstalkd's rules: white space and one sign may precede the
// digits, and nothing may follow them. A number that is too large becomes the largest. negative
// reports a number below zero.
func parseNumber(s string) (n uint64, negative, ok bool) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	if s != "" && (s[0] == '+' || s[0] == '-') {
		negative = s[0] == '-'
		s = s[1:]
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false, false
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false, false // no digit at all
	}
	return n, negative && n > 0, true
}

// WriteHelp writes the text of -h.
func WriteHelp(w io.Writer) {
	fmt.Fprintf(w, `polystalkd serves the beanstalkd protocol on every core.

Use: polystalkd [FLAGS]
     polystalkd gearmand [FLAGS]    in place of gearmand, with its flags
     polystalkd version             show the version and exit
     polystalkd help [gearmand]     show this text, or gearmand's flags, and exit

%s
To inspect or repair a journal while no server runs, see polystalk --help.
Settings are also read from the environment, as %sLISTEN or
%sMAX_JOB_SIZE, and from the files of --config, as the key listen or
max-job-size. The command line has precedence over both, the environment over files.
SIGHUP reads files again and applies the settings that need no restart. SIGUSR1 makes
the server refuse new jobs. SIGTERM and SIGINT end the server.
`, newFlagSet(&Config{}).FlagUsages(), envPrefix, envPrefix)
}

const normalHelp = "polystalkd -h"
