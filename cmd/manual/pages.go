package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalk/journal"
	"polystalk/cmd/polystalkd/config"
)

// daemonPage writes polystalkd(8).
func daemonPage(p *page) error {
	options, err := config.Options()
	if err != nil {
		return err
	}
	theirs, own, unused := config.GearmandOptions()

	p.name("polystalkd", "job server that speaks beanstalkd's and Gearman's protocols")
	p.section("Synopsis")
	p.synopsis("polystalkd", "[options]")
	p.synopsis("polystalkd gearmand", "[options in place of gearmand]")
	p.section("Description")
	p.paragraphs(`polystalkd holds jobs in named tubes. Producers put jobs; workers reserve, run and delete them. A job that is not finished within its time to run goes back to its tube. The server speaks beanstalkd's protocol byte for byte, and Gearman's over the same tubes, and uses every core of the machine.

A value may be attached to a short option (-p11300) or follow it (-p 11300); a long option also takes --port=11300. The command line wins over the environment, and both win over the files of --config: see polystalkd.toml(5).`)
	p.section("Options")
	list(p, options)
	p.section("In place of gearmand")
	p.paragraphs(`With gearmand as the first argument, or started under that name, the program has the options, signals and exit code of gearmand.`)
	p.subsection("Options that gearmand has")
	list(p, theirs)
	p.subsection("Options that gearmand does not have")
	list(p, own)
	p.subsection("Options that have no effect here")
	list(p, unused)

	p.section("Environment")
	p.paragraphs(`Most options can also be set by a variable. If an option may be repeated, its variable takes commas between values. An empty variable counts as unset. In place of gearmand, only GEARMAND_PORT is read.`)
	for _, o := range options {
		if o.Variable != "" {
			p.item(bold(o.Variable), "as --"+o.Name)
		}
	}
	for _, v := range [][2]string{
		{"CREDENTIALS_DIRECTORY", "the directory of the service manager's credentials access-file, http-tls-cert, tls-cert and so on; they are used if no option names these files"},
		{"LISTEN_FDS, LISTEN_FDNAMES, LISTEN_PID", "sockets that the service manager has opened. Sockets named beanstalkd, gearman and http have these protocols; others have the protocol of the command line."},
		{"NOTIFY_SOCKET, WATCHDOG_USEC", "how the server tells the service manager that it is ready, reloads, stops and is alive"},
		{"GOMAXPROCS", "how many threads run at once; by default the server decides"},
	} {
		p.item(bold(v[0]), v[1])
	}

	p.section("Files")
	p.item(bold("/etc/polystalkd/polystalkd.toml"), "the configuration of the packages' service: see polystalkd.toml(5)")
	p.item(bold("/var/lib/polystalkd"), "the journal of the service")
	p.item(bold("/run/polystalkd/polystalkd.sock")+", "+bold("/run/polystalkd/http.sock"), "the sockets of the service for clients and operators, in addition to ports 11300 and 11380 of the loopback interface")

	p.section("Signals")
	for _, s := range [][2]string{
		{"SIGTERM, SIGINT", "Graceful shutdown: the server accepts no more clients, finishes what is in flight and exits within a second."},
		{"SIGHUP", "With --config, the server reads its configuration again, all of it or nothing; without it, the files of tokens and TLS. If there are none, the signal only writes a line to the log."},
		{"SIGUSR1", "Drain mode: the server takes no new jobs."},
	} {
		p.item(bold(s[0]), s[1])
	}

	p.section("Exit status")
	for _, s := range [][2]string{
		{"0", "The server was told to end, or the requested information was shown."},
		{"1", "In place of gearmand: any failure."},
		{"5", "An option, a variable, a file or an argument cannot be used."},
		{"10", "The directory of the journal cannot be used, is in use or is damaged; or the journal has failed while the server ran."},
		{"20", "The server was removed from its cluster, another process runs as this server, or its directory lacks data that it acknowledged. It must not be started again on this directory."},
		{"32, 33, 34", "The user of -u cannot be looked up; does not exist; cannot be switched to."},
		{"111", "An address cannot be listened on, or the system refuses something else."},
	} {
		p.item(bold(s[0]), s[1])
	}
	p.section("See also")
	p.paragraphs("polystalk(1), polystalkd.toml(5), systemd.socket(5)")
	return nil
}

// list shows options.
func list(p *page, options []config.Option) {
	for _, o := range options {
		p.item(option(o.Short, o.Name, o.Value), o.Text)
	}
}

// filePage writes polystalkd.toml(5).
func filePage(p *page) error {
	options, err := config.Options()
	if err != nil {
		return err
	}
	p.name("polystalkd.toml", "configuration file of polystalkd")
	p.section("Description")
	p.paragraphs(`polystalkd --config FILE reads FILE, then the files *.toml in the directory FILE.d, sorted by name. They are in TOML: a key is a long option without its dashes, and has the values of the option. An option that may be repeated takes a list. There are no tables.

A key of a later file replaces the key of an earlier file, even a list. An environment variable wins over files, and the command line over both. All errors are listed at once, with file, line and remedy, and the server does not start.

polystalkd --check-config --config FILE checks the files without a start; --check-config=print shows the values in effect and their origin. After SIGHUP, or polystalk reload, the files are read again: some keys take effect at once, the others after a restart.`)
	p.section("Keys")
	p.paragraphs(`Each line shows the default, or an example if there is none.`)
	for _, o := range options {
		if o.Line == "" {
			continue
		}
		key, value, _ := strings.Cut(o.Line, " = ")
		when := "It takes effect after a restart."
		if o.Live {
			when = "It takes effect at once."
		}
		p.item(bold(key)+escaped(" = "+value), strings.ToUpper(o.Text[:1])+o.Text[1:]+".")
		p.more(when)
	}
	p.section("Files")
	p.item(bold("/etc/polystalkd/polystalkd.toml"), "the packages' file, which has every key")
	p.section("Examples")
	p.paragraphs(`  listen = ["127.0.0.1", "unix:/run/polystalkd/polystalkd.sock"]
  max-job-size = 1048576
  binlog-dir = "/var/lib/polystalkd"`)
	p.section("See also")
	p.paragraphs("polystalkd(8), polystalk(1)")
	return nil
}

// clientPage writes polystalk(1): all commands on one page.
func clientPage(p *page) error {
	root := (&cli.App{Out: io.Discard, Err: io.Discard}).Tree()
	root.InitDefaultHelpCmd()

	p.name("polystalk", root.Short)
	p.section("Synopsis")
	p.synopsis("polystalk", "command [arguments] [options]")
	p.section("Description")
	p.paragraphs(root.Long)
	p.section("Options")
	flags(p, root.PersistentFlags())
	p.section("Commands")
	for _, group := range root.Groups() {
		p.subsection(group.Title)
		for _, c := range root.Commands() {
			if c.GroupID == group.ID && c.IsAvailableCommand() {
				commands(p, c)
			}
		}
	}
	p.section("Exit status")
	codes(p, client.Codes)
	p.paragraphs("Of polystalk journal:")
	codes(p, journal.Codes)
	p.section("Environment")
	p.item(bold(client.Variable), "as --server")
	p.item(bold("POLYSTALK_TOKEN_FILE"), "as --token-file")
	p.item(bold("NO_COLOR"), "if it is not empty, nothing has a colour")
	p.section("See also")
	p.paragraphs("polystalkd(8), polystalkd.toml(5)")
	return nil
}

// commands shows a command and its subcommands.
func commands(p *page, c *cobra.Command) {
	use := strings.TrimSuffix(c.UseLine(), " [flags]")
	path := c.CommandPath()
	p.item(bold(path)+escaped(strings.TrimPrefix(use, path)), sentence(c.Short))
	if long := strings.Trim(c.Long, "\n"); long != "" && long != c.Short && c.Name() != "help" {
		for block := range strings.SplitSeq(long, "\n\n") {
			p.more(block)
		}
	}
	if local := c.LocalNonPersistentFlags(); local.HasAvailableFlags() && c.Name() != "help" {
		p.out.WriteString(".RS\n")
		flags(p, local)
		p.out.WriteString(".RE\n")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			commands(p, sub)
		}
	}
}

// flags shows flags in the order of their names.
func flags(p *page, fs *pflag.FlagSet) {
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		if zero := []string{"", "0", "false", "[]", "0s"}; !slices.Contains(zero, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		p.item(option(f.Shorthand, f.Name, strings.ToUpper(value)), usage)
	})
}

// sentence returns a text as a sentence.
func sentence(text string) string {
	text = strings.ToUpper(text[:1]) + text[1:]
	return strings.TrimSuffix(text, ".") + "."
}

// codes shows the exit codes of a help text. A code begins a line; its text may continue below.
func codes(p *page, table string) {
	_, lines, _ := strings.Cut(table, "\n")
	var code, text string
	flush := func() {
		if code != "" {
			p.item(bold(code), strings.TrimSpace(text))
		}
	}
	for line := range strings.Lines(lines) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.Trim(word, "0123456789") == "" && word != "" {
			flush()
			code, text = word, ""
			line = rest
		}
		text += " " + strings.TrimSpace(line)
	}
	flush()
}
