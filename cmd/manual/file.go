package main

import (
	"strings"

	"polystalk/cmd/polystalkd/config"
)

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
