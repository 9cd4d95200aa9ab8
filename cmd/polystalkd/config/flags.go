package config

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	// pflag, because beanstalkd's users write -p11300, -f0 and -VV, which the
	// standard flag package cannot read.
	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/fault"
)

// giveBytes is the remedy for a bad number of bytes.
const giveBytes = "give a whole number of bytes"

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
	c.keys = &keyTable{all: fs, help: "polystalkd -h", scratch: func() *pflag.FlagSet { return newFlagSet(newConfig()) }}
	if err := c.parseLine(args); err != nil {
		return nil, err
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Changed && hasEnv(f) {
			c.found(c.fromEnv(f, lookupEnv))
		}
	})
	c.readFiles()
	c.findCredentials(lookupEnv)
	return c, nil
}

// parseLine reads the command line and notes the origin of each value. It refuses arguments that
// are not flags, except help and version, because people try them first.
func (c *Config) parseLine(args []string) error {
	t := c.keys
	if err := t.all.Parse(args); err != nil {
		return t.explain(err)
	}
	t.all.VisitAll(func(f *pflag.Flag) { c.spellings[t.ours(f)] = spelling(f) })
	t.all.Visit(func(f *pflag.Flag) { c.origins[t.ours(f)] = "flag " + spelling(f) })
	return t.noArgument()
}

func (t *keyTable) noArgument() error {
	switch {
	case t.all.NArg() == 0:
		return nil
	case t.all.NArg() == 1 && t.all.Arg(0) == "version":
		return ErrVersion
	case t.all.NArg() == 1 && t.all.Arg(0) == "help":
		return ErrHelp
	}
	return fault.New(fault.Usage, "unknown argument %q: every option is a flag; see %s", t.all.Arg(0), t.help)
}

func newConfig() *Config {
	return &Config{sources: sources{origins: make(map[string]string), spellings: make(map[string]string)}}
}

// newFlagSet ties each flag to its field of c and sets the defaults.
func newFlagSet(c *Config) *pflag.FlagSet {
	fs := emptyFlagSet("polystalkd")
	c.MaxJobSize, c.BinlogSize = jobSizeDefault, binlogSizeDefault

	fs.StringArrayVarP(&c.Listen, "listen", "l", nil,
		"listen on `ADDR`: a name, an IP address or unix:PATH;\nmay be given several times (default 0.0.0.0)")
	fs.StringVarP(&c.Port, "port", "p", portDefault, "listen on TCP `PORT`")
	fs.StringVarP(&c.User, "user", "u", "", "switch to `USER` and its groups after listening")
	add(fs, "max-job-size", "z", fmt.Sprintf("accept jobs of up to `BYTES`, at most %d (default %d)", jobSizeMax, jobSizeDefault), "number", c.setJobSize,
		func() string { return strconv.FormatUint(uint64(c.MaxJobSize), 10) })
	fs.StringVarP(&c.BinlogDir, "binlog-dir", "b", "", "keep jobs in a journal in `DIR`; a change is acknowledged\nonce it is on the disk, and nothing acknowledged is lost")
	add(fs, "fsync-ms", "f", "acknowledge changes at once and flush the journal within `MS`: a power\ncut can lose that much, a crash of the process nothing; 0: as without -f", "number", c.setFsync, c.fsyncMS)
	add(fs, "no-fsync", "F", "acknowledge changes at once and leave flushing to the kernel: a power\ncut can lose about 30 seconds, a crash of the process nothing", "bool", c.setNoFsync,
		func() string { return strconv.FormatBool(c.NoFsync) }).NoOptDefVal = "true"
	number(fs, "binlog-size", "s", fmt.Sprintf("use journal files of `BYTES` (default %d);\nwithout -b only shown in stats", binlogSizeDefault),
		&c.BinlogSize, 0, math.MaxInt64, giveBytes, "10485760")
	fs.IntVar(&c.Loops, "loops", 0, "run `N` reactor loops; 0: one per core")
	fs.IntVar(&c.Shards, "shards", 0, "split the tubes over `N` shards, a power of two; 0: 4 to 7 for each loop")
	fs.IntVar(&c.MaxConnections, "max-connections", 0, "serve at most `N` client connections at once; a follower counts those that it\nforwards to the leader, which counts them too; 0: from the descriptor limit")
	number(fs, "connection-memory", "", "limit the memory of all connections together to `BYTES`, without jobs: pipelined\ncommands, unfinished bodies, unread replies; 0: a quarter of the machine's memory",
		&c.ConnectionMemory, 0, math.MaxInt64, giveBytes, "268435456")
	c.gearmanFlags(fs)
	c.tlsFlags(fs)
	c.accessFlag(fs)
	c.httpFlags(fs)
	c.clusterFlags(fs)
	fs.StringVar(&c.LogLevel, "log-level", "info", "log `LEVEL` and above: debug, info, warn or error")
	fs.StringVar(&c.LogFormat, "log-format", "text", "write the log on stderr as `FORMAT`: text or json")
	fs.CountVarP(&c.Verbose, "verbose", "V", "log more``; may be repeated") // the empty quotes mean no value
	fs.StringVar(&c.File, "config", "", "read options from `FILE`, in TOML, then from FILE.d/*.toml;\nSIGHUP reads them again")
	add(fs, "check-config", "", "check the configuration and exit; `HOW` is only, or print to show\nthe settings in effect and their origins",
		"check", c.setCheck, func() string { return string(c.Check) }).NoOptDefVal = string(CheckOnly)
	fs.BoolVar(&c.CheckArgs, "check-args", false, "check flags, variables and files and exit")
	fs.BoolFuncP("version", "v", "show the version and exit", stopWith(ErrVersion))
	fs.BoolFuncP("help", "h", "show this text and exit", stopWith(ErrHelp))

	// Accepted for old scripts, as the reference does.
	for _, name := range []string{"compact", "no-compact"} {
		c.noEffect(fs, name, name[:1], "", "it was removed from beanstalkd, a journal is always compacted").Hidden = true
	}
	return fs
}

// accessFlag adds the flag of the access file, which is for all protocols.
func (c *Config) accessFlag(fs *pflag.FlagSet) {
	fs.StringVar(&c.AccessFile, "access-file", "", "let clients do what `FILE` permits, in TOML: it has identities with\nrights on tubes; SIGHUP reads it again")
}

// emptyFlagSet returns a set that writes nothing by itself, and keeps the order of its flags.
func emptyFlagSet(name string) *pflag.FlagSet {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.SortFlags = false
	return fs
}

func stopWith(err error) func(string) error {
	return func(string) error { return err }
}

// explain converts an error of pflag to ErrHelp, ErrVersion or a fault.
func (t *keyTable) explain(err error) error {
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
		if t.unused != nil {
			if f := gearmandFault(unknown); f != nil {
				return f
			}
		}
		name := "--" + unknown.GetSpecifiedName()
		if group := unknown.GetSpecifiedShortnames(); group != "" {
			name = "-" + unknown.GetSpecifiedName()
			if len(group) > 1 {
				name += " in -" + group
			}
		}
		return fault.New(fault.Usage, "unknown flag %s: leave it out, or see %s for all flags", name, t.help)
	case errors.As(err, &missing):
		f := missing.GetFlag()
		kind, _ := pflag.UnquoteUsage(f)
		return fault.New(fault.Usage, "flag %s: its value is missing: give %s %s", spelling(f), spelling(f), kind)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		return fault.New(fault.Usage, "flag %s: %s", spelling(f), t.complaint(f, invalid.GetValue(), err, spelling(f)+" "))
	case errors.As(err, &syntax):
		return fault.New(fault.Usage, "unknown flag %s: see %s for all flags", syntax.GetSpecifiedFlag(), t.help)
	}
	return fault.New(fault.Usage, "%v: see %s", err, t.help)
}

// complaint returns the message for a bad value, with the remedy. before is what precedes a value
// in its source, for an example.
func (t *keyTable) complaint(f *pflag.Flag, value string, err error, before string) string {
	remedy := "see " + t.help
	bad, known := errors.AsType[*badValue](err)
	switch kind := f.Value.Type(); {
	case known && bad.example != "":
		remedy = bad.remedy + ", as in " + before + bad.example
	case known:
		remedy = bad.remedy
	case kind == "int" || kind == "count":
		remedy = "give a whole number"
	case kind == "bool" || kind == "boolfunc":
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

func (c *Config) setJobSize(s string) error {
	n, negative, ok := parseNumber(s)
	if !ok {
		return &badValue{giveBytes, "65535"}
	}
	// The reference reads -1 as a huge number and then uses its maximum.
	if negative || n > jobSizeMax {
		c.warn("the largest job size allowed is %d bytes; it is used instead of %s", jobSizeMax, s)
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
func (c *Config) fsyncMS() string {
	if c.NoFsync {
		return "0"
	}
	return strconv.FormatInt(c.FsyncEvery.Milliseconds(), 10)
}

// A Check is what --check-config asks for.
type Check string

// The zero value starts the server.
const (
	CheckOnly  Check = "only"  // report faults
	CheckPrint Check = "print" // and print the settings in effect
)

func (c *Config) setCheck(s string) error {
	if Check(s) != CheckOnly && Check(s) != CheckPrint {
		return &badValue{fmt.Sprintf("give %s, or nothing", CheckPrint), ""}
	}
	c.Check = Check(s)
	return nil
}

func (c *Config) setNoFsync(s string) error {
	on, err := strconv.ParseBool(s)
	if err != nil {
		return err
	}
	c.NoFsync = on
	return nil
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
