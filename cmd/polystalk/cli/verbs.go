package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
)

// A verb is a command: its name and arguments, help, flags, and action.
type verb struct {
	use      string // the name, then a word for each argument: [X] is optional, X... may be repeated
	short    string
	aliases  []string
	long     string
	examples string   // one on each line
	values   []string // possible first arguments, for completion
	flags    func(fs *pflag.FlagSet)

	reads  bool   // it changes nothing
	cannot string // what beanstalkd's protocol cannot do, if the verb needs HTTP

	before func(r *run) error     // runs before the server is asked; it may be nil
	adjust func(c *cobra.Command) // changes the command at the end; it may be nil

	// One of these is set: a path to request with a view of the answer, or a function.
	path    string                                // {tube}, {id} and {node} are the first argument
	method  string                                // empty: GET
	request func(r *run, q *client.Request) error // completes the request; it may be nil
	view    client.View
	done    func(r *run) string // confirms a request without an answer in a line; it may be nil
	do      func(r *run) error  // uses a server
	local   func(r *run) error  // uses no server
	verbs   []verb              // a group of verbs; with path, which runs without one of them
}

// A run is one run of a verb.
type run struct {
	*App
	cmd    *cobra.Command
	ctx    context.Context
	args   []string
	server client.Server // nil for a local verb
	view   client.View   // of the answer to the verb's request
}

// changed reports whether a flag was given.
func (r *run) changed(flag string) bool { return r.cmd.Flags().Changed(flag) }

// usagef returns an error about wrong usage of the verb.
func (r *run) usagef(format string, args ...any) error {
	return client.Errorf(client.Usage, "%s%s", about(r.cmd), fmt.Sprintf(format, args...))
}

// read requests a document and decodes it into v.
func (r *run) read(path, tube string, v any) (client.Answer, error) {
	a, err := r.server.Ask(r.ctx, client.Request{Method: "GET", Path: path, Tube: tube})
	if err == nil {
		err = a.Read(v)
	}
	return a, err
}

// list shows a list, each part as it arrives.
func (r *run) list(q client.Request, v client.View) (*client.List, error) {
	l := r.printer.List(v)
	if q.Limit < 0 {
		return l, client.Errorf(client.Usage, "--limit is %d: give a number, or 0 for all", q.Limit)
	}
	err := r.server.List(r.ctx, q, func(document []byte) error {
		if err := l.Page(document); err != nil {
			return err
		}
		return r.out.Flush() // the next part may take long
	})
	if err == nil {
		err = l.Close()
	}
	return l, err
}

// carryOut runs a verb.
func (v *verb) carryOut(r *run) (err error) {
	if v.local != nil {
		return v.local(r)
	}
	if v.before != nil {
		if err := v.before(r); err != nil {
			return err
		}
	}
	if r.server, err = r.connect(r.ctx, v.cannot); err != nil {
		return err
	}
	defer r.server.Close()
	if v.do != nil {
		return v.do(r)
	}
	q := client.Request{Method: cmp.Or(v.method, "GET"), Path: v.path}
	switch {
	case strings.Contains(v.path, "{tube}"):
		q.Tube, err = r.tubeName(r.args[0])
	case strings.Contains(v.path, "{id}"):
		q.ID, err = readID(r.args[0])
	case strings.Contains(v.path, "{node}"):
		q.Node = r.args[0]
	}
	if err == nil && v.request != nil {
		err = v.request(r, &q)
	}
	if err != nil {
		return err
	}
	a, err := r.server.Ask(r.ctx, q)
	switch {
	case err != nil:
		return err
	case a.Document != nil:
		return r.printer.Show(a.Document, r.view)
	case v.done != nil && r.printer.IsTable():
		_, err = fmt.Fprintln(r.out, v.done(r))
	}
	return err
}

// command returns a verb as a command of cobra.
func (v verb) command(a *App) *cobra.Command {
	name, rest, _ := strings.Cut(v.use, " ")
	c := &cobra.Command{
		Use: v.use, Aliases: v.aliases, Short: v.short, Long: v.long, ValidArgs: v.values, Args: arguments(strings.Fields(rest)...),
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.carryOut(&run{App: a, cmd: cmd, ctx: cmd.Context(), args: args, view: v.view})
		},
	}
	if v.examples != "" {
		c.Example = "  " + strings.ReplaceAll(v.examples, "\n", "\n  ")
	}
	if v.reads {
		c.Annotations = map[string]string{"reads": "yes"}
	}
	fs := c.Flags()
	if v.verbs != nil {
		fs = c.PersistentFlags()
		c.Args = func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && v.path != "" {
				return nil
			}
			if len(args) == 0 {
				return client.Errorf(client.Usage, "%s: the command is missing: see polystalk %s --help", name, name)
			}
			return client.Errorf(client.Usage, "%s: unknown command %q: see polystalk %s --help", name, args[0], name)
		}
		for _, sub := range v.verbs {
			c.AddCommand(sub.command(a))
		}
	}
	if v.flags != nil {
		v.flags(fs)
	}
	if v.adjust != nil {
		v.adjust(c)
	}
	return c
}

// parserName matches the name of a Go function in strconv's errors.
var parserName = regexp.MustCompile(`strconv\.\w+: parsing "[^"]*": `)

// Tree returns the commands. They run against the fields of a.
func (a *App) Tree() *cobra.Command {
	if a.out == nil {
		a.out = bufio.NewWriter(a.Out)
	}
	root := &cobra.Command{
		Use:   "polystalk",
		Short: "inspect, operate and repair job queues",
		Long: `polystalk is the operators' program. It talks to polystalkd by HTTP (its --http), and to any
server by beanstalkd's protocol, within the limits of that protocol. It also reads and
repairs journals, the directories of polystalkd's -b.

  polystalk --version
        print the version and exit`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := "see polystalk --help"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf("did you mean %s? polystalk --help lists all commands", strings.Join(near, " or "))
			}
			return client.Errorf(client.Usage, "unknown command %q: %s", args[0], hint)
		},
		RunE: func(*cobra.Command, []string) error {
			return client.Errorf(client.Usage, "no command: see polystalk --help")
		},
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.prepare() },
		SilenceErrors:     true, SilenceUsage: true,
		SuggestionsMinimumDistance: 2,
	}
	root.SetIn(a.In)
	root.SetOut(a.out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return client.Errorf(client.Usage, "%s%s: see %s --help", about(cmd), parserName.ReplaceAllString(err.Error(), ""), cmd.CommandPath())
	})
	root.SetHelpTemplate(helpTemplate + "\n" + client.Codes)
	usage, _, _ := strings.Cut(root.UsageTemplate(), "{{if .HasAvailableInheritedFlags}}")
	root.SetUsageTemplate(usage + flagsTemplate)
	a.flags(root.PersistentFlags())
	for _, g := range []struct {
		title string
		verbs []verb
	}{
		{"Look:", a.lookVerbs()}, {"Jobs:", a.jobVerbs()}, {"Tubes:", a.tubeVerbs()}, {"Server:", a.serverVerbs()}, {"Other:", a.otherVerbs()},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, v := range g.verbs {
			c := v.command(a)
			c.GroupID = g.title
			root.AddCommand(c)
		}
		root.SetHelpCommandGroupID(g.title) // the last one
	}
	a.completions(root)
	namePlaceholders(root)
	if help := root.HelpFunc(); a.Screens.Width > 0 {
		root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
			var text strings.Builder
			cmd.SetOut(&text)
			help(cmd, args)
			fmt.Fprint(a.out, fold(text.String(), a.Screens.Width))
		})
	}
	return root
}

// arguments returns a check of a verb's arguments.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		names := names
		if len(names) > 0 && names[0] == "TUBE" && cmd.Flags().Changed("all-tubes") {
			names = nil
		}
		for i, name := range names {
			if i >= len(args) && !strings.HasPrefix(name, "[") {
				return client.Errorf(client.Usage, "%s%s is missing; usage: %s", about(cmd), strings.TrimSuffix(name, "..."), cmd.UseLine())
			}
		}
		if len(args) > len(names) && (len(names) == 0 || !strings.HasSuffix(strings.TrimSuffix(names[len(names)-1], "]"), "...")) {
			return client.Errorf(client.Usage, "%sunknown argument %q; usage: %s", about(cmd), args[len(names)], cmd.UseLine())
		}
		return nil
	}
}

// about returns the beginning of an error about the usage of a command.
func about(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ") + ": "
}

// placeholders replace the names of Go types as the values of flags in the help.
var placeholders = map[string]string{
	"server": "ADDRESS", "token-file": "FILE", "tls-ca": "FILE", "tls-cert": "FILE", "tls-key": "FILE", "file": "FILE", "save": "FILE", "dir": "DIR", "output": "FORMAT", "jq": "EXPRESSION",
	"timeout": "TIME", "delay": "TIME", "ttr": "TIME", "older": "TIME", "last": "TIME", "step": "TIME", "id": "A-B", "state": "STATES",
	"tube": "TUBE", "to": "TUBE", "sort": "COLUMN", "order": "ORDER", "role": "ROLE", "level": "LEVEL", "bodies": "PART", "put": "PATTERN", "work": "PATTERN", "look": "PATTERN", "manage": "PATTERN", "protocol": "PROTOCOL", "series": "NAMES",
	"wait": "TIME", "backoff": "TIME", "idle": "TIME", "failed": "ACTION", "concurrency": "N", "tries": "N", "pri": "N", "limit": "N", "expect": "N", "skip": "N", "count": "N",
	"ready": "WARN:CRIT", "delayed": "WARN:CRIT", "reserved": "WARN:CRIT", "buried": "WARN:CRIT", "oldest": "WARN:CRIT", "workers": "WARN:CRIT", "connections": "WARN:CRIT",
}

// A placeholder is a value of a flag with the placeholder as its type.
type placeholder struct {
	pflag.Value
	name string
}

// Type implements pflag.Value.
func (p placeholder) Type() string { return p.name }

// namePlaceholders gives placeholders to the flags of a command and of its subcommands.
func namePlaceholders(c *cobra.Command) {
	name := func(f *pflag.Flag) {
		if _, done := f.Value.(placeholder); done || f.Value.Type() == "bool" {
			return
		}
		p := placeholder{f.Value, placeholders[f.Name]}
		if p.name == "" {
			p.name = "TEXT"
		}
		f.Value = p
		if f.DefValue = strings.Trim(f.DefValue, "[]"); f.DefValue == "0" {
			f.DefValue = ""
		}
	}
	c.LocalFlags().VisitAll(name)
	for _, sub := range c.Commands() {
		namePlaceholders(sub)
	}
}

func init() { cobra.AddTemplateFunc("groupFlags", groupFlags) } // for all Trees

// groupFlags returns the flags that a command inherits from its group.
func groupFlags(c *cobra.Command) string {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if c.Root().PersistentFlags().Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})
	return own.FlagUsages()
}

// flagsTemplate ends the usage of a command. Only the help of the program lists the flags about
// servers.
const flagsTemplate = `{{with groupFlags .}}

Flags of the group:
{{. | trimTrailingWhitespaces}}{{end}}{{if .HasParent}}

polystalk --help lists the flags of all commands, such as --server and -o.{{end}}
`

// fold breaks lines between words to fit a terminal. What follows begins below the last column.
func fold(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		indent := 0
		if at := strings.LastIndex(line, "  "); 0 <= at && at < width/2 {
			indent = at + len("  ")
		}
		for len(line) > width+len("\n") {
			at := strings.LastIndexByte(line[:width+1], ' ')
			if at <= indent {
				break
			}
			b.WriteString(line[:at] + "\n")
			line = strings.Repeat(" ", indent) + line[at+1:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// helpTemplate begins with the purpose of a command, as manuals do.
const helpTemplate = `{{if .HasParent}}{{.CommandPath}} - {{.Short}}

{{end}}{{with .Long}}{{. | trimTrailingWhitespaces}}

{{end}}{{.UsageString}}`
