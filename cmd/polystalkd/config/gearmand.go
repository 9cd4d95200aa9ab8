package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
	if err := g.all.Parse(args); err != nil {
		return nil, explainGearmand(err, help)
	}
	if err := noArgument(g.all, help); err != nil {
		return nil, err
	}
	g.all.VisitAll(func(f *pflag.Flag) { c.spellings[g.ours(f)] = spelling(f) })
	g.all.Visit(func(f *pflag.Flag) { c.origins[g.ours(f)] = "flag " + spelling(f) })
	if err := g.readFile(help); err != nil {
		return nil, err
	}
	g.readPort(lookupEnv)
	c.keys = &keyTable{all: g.all, unused: g.unused, ours: g.ours, help: help}
	c.keys.scratch = func() *pflag.FlagSet { return newGearmandFlags(newConfig()).all }
	c.readFiles()
	c.findCredentials(lookupEnv)
	return c, nil
}

// noArgument refuses arguments that are not flags. The words help and version are accepted,
// because people try them first.
func noArgument(fs *pflag.FlagSet, help string) error {
	if fs.NArg() == 1 {
		switch fs.Arg(0) {
		case "version":
			return ErrVersion
		case "help":
			return ErrHelp
		}
	}
	if fs.NArg() > 0 {
		return fault.New(fault.Usage, "unknown argument %q: every option is a flag; see %s", fs.Arg(0), help)
	}
	return nil
}

// readFile reads the file of options: flags as on the command line, separated by blanks or line
// ends. A line that begins with # is a comment. A word that is not a flag is an error here, since
// it is usually a mistake; gearmand ignores it.
func (g *gearmandFlags) readFile(help string) error {
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
	if err == nil {
		return prefixed("file "+file, noArgument(g.all, help))
	}
	return prefixed("file "+file, explainGearmand(err, help))
}

// prefixed adds to a fault the place where it was found. Other errors stay as they are.
func prefixed(where string, err error) error {
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return fault.New(f.Code, "%s: %s", where, f)
	}
	return err
}

// readPort reads the port from the environment if nothing else sets it.
func (g *gearmandFlags) readPort(lookupEnv func(string) (string, bool)) {
	const name = "GEARMAND_PORT"
	value, ok := lookupEnv(name)
	if !ok || value == "" || g.all.Changed("port") {
		return
	}
	if strings.HasPrefix(value, "tcp://") {
		// Kubernetes sets this in every pod next to a service named gearmand.
		g.c.Warnings = append(g.c.Warnings, fmt.Sprintf("variable %s=%s is a Kubernetes service link, not a port, and is ignored", name, value))
		return
	}
	g.c.Port, g.c.origins["port"] = value, "variable "+name
}

// elsewhere maps the prefixes of gearmand's flags for missing features to a remedy.
var elsewhere = []struct{ begin, remedy string }{
	{"ssl", "TLS is not supported: leave it out, and use a TLS proxy such as stunnel, with --gearman-shutdown none"},
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

// explainGearmand is like explain, with remedies for gearmand's flags that do not exist here.
func explainGearmand(err error, help string) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() == "" {
			for _, e := range elsewhere {
				if strings.HasPrefix(name, e.begin) {
					return fault.New(fault.Usage, "flag --%s: %s", name, e.remedy)
				}
			}
		} else if name == "v" {
			return fault.New(fault.Usage, "unknown flag -v: give --verbose LEVEL to log more, or -V for the version")
		}
	}
	return explain(err, help)
}

// makeAbsolute makes paths independent of the working directory, which a daemon leaves.
func (c *Config) makeAbsolute() error {
	if !c.Daemon {
		return nil
	}
	paths := []*string{&c.PidFile, &c.BinlogDir}
	if c.LogsToFile() {
		paths = append(paths, &c.LogFile)
	}
	for i := range c.Addresses {
		paths = append(paths, &c.Addresses[i].Path)
	}
	for i := range c.HTTP.Addresses {
		paths = append(paths, &c.HTTP.Addresses[i].Path)
	}
	paths = append(paths, &c.HTTP.TokensFile, &c.HTTP.Cert, &c.HTTP.Key, &c.Cluster.Cert, &c.Cluster.Key, &c.Cluster.CA)
	for _, p := range paths {
		if *p == "" {
			continue
		}
		abs, err := fromStart(*p)
		if err != nil {
			return err
		}
		*p = abs
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
Flags of gearmand for TLS, HTTP and databases are refused. The file of options
has flags as on the command line, which has precedence. GEARMAND_PORT is the port
unless a flag sets it. The files of --config have the long flags as keys, and the
lowest precedence.
SIGTERM and SIGINT end the server. SIGUSR1 refuses new connections and ends it
when no job is left. SIGHUP opens the log file and reads the files of --config again.
`, name, g.theirs.FlagUsages(), g.own.FlagUsages(), g.unused.FlagUsages())
}
