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
)

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
