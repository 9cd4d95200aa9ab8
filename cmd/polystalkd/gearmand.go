package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
)

// gearmandConf is read where no other file is named; it need not be there.
const gearmandConf = "/etc/gearmand.conf"

// exitGearmand is the code of every failure, as gearmand has it.
const exitGearmand = 1

// inPlaceOfGearmand is the program that is started as gearmand is, under that name.
func inPlaceOfGearmand(name string) program {
	help := name + " --help"
	return program{
		name: name, version: gearmandVersionLine,
		parse: func(args []string, lookupEnv func(string) (string, bool)) (*Config, error) {
			return parseGearmand(args, lookupEnv, help)
		},
		writeHelp: func(w io.Writer) { writeGearmandHelp(w, name) },
		exitCode:  func(error) int { return exitGearmand },
	}
}

// parseGearmand is parseConfig for gearmand's command line, its file of options and
// its environment. The command line wins over the file, which wins over the
// environment. help is the command that shows the flags.
// Source: gearmand 1.1.20, gearmand/gearmand.cc.
func parseGearmand(args []string, lookupEnv func(string) (string, bool), help string) (*Config, error) {
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
	if err := g.readPort(lookupEnv); err != nil {
		return nil, err
	}
	return c, nil
}

// noArgument refuses whatever is no flag, but for two words that ask for text: people
// try them first.
func noArgument(fs *pflag.FlagSet, help string) error {
	if fs.NArg() == 1 {
		switch fs.Arg(0) {
		case "version":
			return errVersion
		case "help":
			return errHelp
		}
	}
	if fs.NArg() > 0 {
		return faultf(exitUsage, "unknown argument %q: every option is a flag; see %s", fs.Arg(0), help)
	}
	return nil
}

// readFile reads the file of options: the same as on the command line, with blanks or
// line ends between them. A line that begins with # is a comment. gearmand passes over
// any word that is no flag; here that is an error, since it is mostly a slip.
func (g *gearmandFlags) readFile(help string) error {
	file := g.configFile
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && !g.all.Changed("config-file") {
		return nil
	}
	if err != nil {
		return faultf(exitUsage, "%s: the file %q cannot be read (%v): give another, or leave --config-file out", g.c.origin("config-file"), file, cause(err))
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

// prefixed says of a fault where it was found; what is no fault stays as it is.
func prefixed(where string, err error) error {
	if f, ok := errors.AsType[*fault](err); ok {
		return faultf(f.code, "%s: %s", where, f.line)
	}
	return err
}

// readPort takes the port from the environment where nothing else sets it.
func (g *gearmandFlags) readPort(lookupEnv func(string) (string, bool)) error {
	const name = "GEARMAND_PORT"
	value, ok := lookupEnv(name)
	if !ok || value == "" || g.all.Changed("port") {
		return nil
	}
	if strings.HasPrefix(value, "tcp://") {
		// Kubernetes sets this in every pod beside a service named gearmand.
		g.c.warnings = append(g.c.warnings, fmt.Sprintf("variable %s=%s is a Kubernetes service link, not a port, and is ignored", name, value))
		return nil
	}
	g.c.Port, g.c.origins["port"] = value, "variable "+name
	return nil
}

// elsewhere are the flags of gearmand, by how they begin, that name something that is
// not here, and what to do instead.
var elsewhere = []struct{ begin, remedy string }{
	{"ssl", "TLS is not spoken: leave it out, and put a TLS proxy such as stunnel before the port, with --gearman-shutdown none"},
	{"http-", "HTTP is not spoken: leave it out, and submit with a Gearman client"},
	{"libmemcached-", storeRemedy},
	{"libsqlite3-", storeRemedy},
	{"libpq-", storeRemedy},
	{"libdrizzle-", storeRemedy},
	{"libtokyocabinet-", storeRemedy},
	{"redis-", storeRemedy},
	{"mysql-", storeRemedy},
}

const storeRemedy = "jobs are not kept in databases: leave it out, and give --journal DIR to keep background jobs in files in that directory"

// explainGearmand is explain, and knows what gearmand has and we have not.
func explainGearmand(err error, help string) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() == "" {
			for _, e := range elsewhere {
				if strings.HasPrefix(name, e.begin) {
					return faultf(exitUsage, "flag --%s: %s", name, e.remedy)
				}
			}
		} else if name == "v" {
			return faultf(exitUsage, "unknown flag -v: give --verbose LEVEL to log more, or -V for the version")
		}
	}
	return explain(err, help)
}

// makeAbsolute makes the paths that are used later independent of the working
// directory, which a daemon leaves.
func (c *Config) makeAbsolute() error {
	if !c.Daemon {
		return nil
	}
	paths := []*string{&c.PidFile, &c.BinlogDir}
	if c.logsToFile() {
		paths = append(paths, &c.LogFile)
	}
	for i := range c.addresses {
		paths = append(paths, &c.addresses[i].path)
	}
	for _, p := range paths {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return faultf(exitSystem, "%s: the working directory is not known (%v): give absolute paths", c.origin("daemon"), err)
		}
		*p = abs
	}
	return nil
}

// setDescriptors sets the limit of descriptors that was asked for. Without, the
// runtime has raised it to what this user may have.
func (c *Config) setDescriptors() error {
	if c.Descriptors == 0 {
		return nil
	}
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return faultf(exitSystem, "%s: reading the limit: %v", c.origin("file-descriptors"), err)
	}
	most := r.Max
	r.Cur, r.Max = c.Descriptors, max(r.Max, c.Descriptors)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return faultf(exitSystem, "%s: %d descriptors: %v: give at most %d, or start as root", c.origin("file-descriptors"), c.Descriptors, err, most)
	}
	return nil
}

func writeGearmandHelp(w io.Writer, name string) {
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
holds flags as on the command line, which wins. GEARMAND_PORT is the port unless
a flag sets it.
SIGTERM and SIGINT end the server. SIGUSR1 refuses new connections and ends it
when no job is left. SIGHUP opens the log file again.
`, name, g.theirs.FlagUsages(), g.own.FlagUsages(), g.unused.FlagUsages())
}
