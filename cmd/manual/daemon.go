package main

import (
	"polystalk/cmd/polystalkd/config"
)

// daemonPage is polystalkd(8).
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
	p.paragraphs(`polystalkd holds jobs in named tubes. Producers put jobs; workers reserve, run and delete them; a job that is not finished within its time to run goes back to its tube. It speaks beanstalkd's protocol byte for byte and, beside it, Gearman's over the same tubes, on every core of the machine.

Values may be attached to short options (-p11300) or follow (-p 11300); a long one also takes --port=11300. What the command line does not set is taken from the environment, and what neither sets from the files of --config: see polystalkd.toml(5).`)
	p.section("Options")
	list(p, options)
	p.section("In place of gearmand")
	p.paragraphs(`With gearmand as its first argument, or started under that name, the program takes the options, signals and the exit code of gearmand.`)
	p.subsection("Options that gearmand has")
	list(p, theirs)
	p.subsection("Options that gearmand does not have")
	list(p, own)
	p.subsection("Options that have no effect here")
	list(p, unused)

	p.section("Environment")
	p.paragraphs(`An option that says how the server is to be is also read from a variable; where it may be given several times, the variable takes a comma between values. An empty variable counts as unset. In place of gearmand none of these is read, but GEARMAND_PORT.`)
	for _, o := range options {
		if o.Variable != "" {
			p.item(bold(o.Variable), "as --"+o.Name)
		}
	}
	for _, v := range [][2]string{
		{"CREDENTIALS_DIRECTORY", "where the service manager leaves the credentials http-tokens, http-tls-cert and http-tls-key, which are taken where no option names these files"},
		{"LISTEN_FDS, LISTEN_FDNAMES, LISTEN_PID", "sockets that the service manager has opened. Those named beanstalkd, gearman and http have these protocols, others the one that the command line is about."},
		{"NOTIFY_SOCKET, WATCHDOG_USEC", "where to tell the service manager that the server is ready, reloads, stops, and gets on"},
		{"GOMAXPROCS", "how many threads run Go code at once, if that is not to be left to the server"},
	} {
		p.item(bold(v[0]), v[1])
	}

	p.section("Files")
	p.item(bold("/etc/polystalkd/polystalkd.toml"), "what the service of the packages is started with: see polystalkd.toml(5)")
	p.item(bold("/var/lib/polystalkd"), "the journal of that service")
	p.item(bold("/run/polystalkd/polystalkd.sock")+", "+bold("/run/polystalkd/http.sock"), "its sockets for clients and for operators, beside ports 11300 and 11380 of the loopback interface")

	p.section("Signals")
	for _, s := range [][2]string{
		{"SIGTERM, SIGINT", "The server takes no more clients, finishes what is in flight and exits within a second."},
		{"SIGHUP", "With --config it reads its configuration again, all of it or nothing, and without, the files of tokens and of TLS. Else it is ignored, with a line in the log."},
		{"SIGUSR1", "Drain mode: no new jobs are taken."},
	} {
		p.item(bold(s[0]), s[1])
	}

	p.section("Exit status")
	for _, s := range [][2]string{
		{"0", "The server was told to end, or what was asked for was shown or found well."},
		{"1", "In place of gearmand: any failure."},
		{"5", "An option, a variable, a file or an argument cannot be used."},
		{"10", "The directory of the journal cannot be used, is in use or is damaged; or the journal has failed while the server ran."},
		{"20", "The server was removed from its cluster, another process runs as it, or its directory lacks what it acknowledged: it is not to be started again as it is."},
		{"32, 33, 34", "The user of -u cannot be looked up; does not exist; cannot be become."},
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
