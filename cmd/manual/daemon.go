package main

import (
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
		{"CREDENTIALS_DIRECTORY", "the directory of the service manager's credentials http-tokens, http-tls-cert and http-tls-key; they are used if no option names these files"},
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
