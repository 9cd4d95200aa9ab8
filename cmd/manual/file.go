package main

import (
	"strings"

	"polystalk/cmd/polystalkd/config"
)

// filePage is polystalkd.toml(5).
func filePage(p *page) error {
	options, err := config.Options()
	if err != nil {
		return err
	}
	p.name("polystalkd.toml", "configuration file of polystalkd")
	p.section("Description")
	p.paragraphs(`polystalkd --config FILE reads FILE, then those of the directory FILE.d whose names end in .toml, by their names. They are in TOML: a key is a long option without its dashes, and takes what the option takes; one that may be given several times takes a list. There are no tables.

A key of a later file replaces that of an earlier one, lists as well. A variable of the environment wins over files, and the command line over both. What is wrong is said with file, line and what to do, all at once, and the server does not start.

polystalkd --check-config --config FILE looks at files without a start; --check-config=print shows what is in effect, and where each value comes from. After SIGHUP, or polystalk reload, the files are read again: some keys hold at once then, the others after a restart.`)
	p.section("Keys")
	p.paragraphs(`The line is what holds without it or, where that is nothing, an example.`)
	for _, o := range options {
		if o.Line == "" {
			continue
		}
		key, value, _ := strings.Cut(o.Line, " = ")
		when := "It holds after a restart."
		if o.Live {
			when = "It holds at once."
		}
		p.item(bold(key)+escaped(" = "+value), strings.ToUpper(o.Text[:1])+o.Text[1:]+".")
		p.more(when)
	}
	p.section("Files")
	p.item(bold("/etc/polystalkd/polystalkd.toml"), "the file of the packages, which has every key")
	p.section("Examples")
	p.paragraphs(`  listen = ["127.0.0.1", "unix:/run/polystalkd/polystalkd.sock"]
  max-job-size = 1048576
  binlog-dir = "/var/lib/polystalkd"`)
	p.section("See also")
	p.paragraphs("polystalkd(8), polystalk(1)")
	return nil
}
