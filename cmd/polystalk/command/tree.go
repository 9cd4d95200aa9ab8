package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"polystalk/cmd/internal/release"
	"polystalk/cmd/internal/terminal"
	"polystalk/cmd/polystalk/fault"
)

// Run runs a command; it returns the exit code. When ctx ends, the command does as soon as
// it can.
func Run(ctx context.Context, a *App, args []string) int {
	out := a.Out
	if a.Screens.Out {
		out = &terminal.Writer{W: out}
	}
	a.out = bufio.NewWriterSize(out, 1<<16)
	if len(args) == 1 && (args[0] == "-v" || args[0] == "--version") {
		args = []string{"version"}
	}
	root := a.Tree()
	root.SetArgs(append([]string{}, args...)) // of nil it would take the process's
	ran, err := root.ExecuteContextC(ctx)
	if ran != nil && ran.Name() == checkName {
		return a.checked(err)
	}
	if flushed := a.out.Flush(); err == nil && flushed != nil {
		err = fmt.Errorf("writing the output: %w", flushed)
	}
	switch {
	case err == nil:
		return fault.OK
	case errors.Is(err, syscall.EPIPE):
		return fault.OK // who has read has seen enough
	case errors.Is(err, context.Canceled):
		err = interruption(ran)
	}
	fmt.Fprintf(a.Err, "polystalk: %s\n", terminal.Safe(err.Error()))
	return fault.Code(err)
}

// interruption is the error of a command that was interrupted.
func interruption(ran *cobra.Command) error {
	if ran != nil && (ran.GroupID == groupLook || looks[ran.CommandPath()]) {
		return fault.New(fault.NotDone, "interrupted")
	}
	return fault.New(fault.NotDone, "interrupted: what was done stays done")
}

// looks are the commands outside of groupLook that do nothing but look.
var looks = map[string]bool{
	"polystalk health": true, "polystalk conns": true, "polystalk audit": true,
	"polystalk cluster status": true, "polystalk journal inspect": true, "polystalk journal verify": true,
}

// The groups of the help.
const (
	groupLook   = "look"
	groupJobs   = "jobs"
	groupTubes  = "tubes"
	groupServer = "server"
	groupRest   = "rest"
)

// ofParser is what strconv says of its own functions, which is nothing to who types flags.
var ofParser = regexp.MustCompile(`strconv\.\w+: parsing "[^"]*": `)

// Tree is all commands. Those that made it run against what is in a.
func (a *App) Tree() *cobra.Command {
	if a.out == nil {
		a.out = bufio.NewWriter(a.Out)
	}
	root := &cobra.Command{
		Use:   "polystalk",
		Short: "look at, operate and repair queues",
		Long: `polystalk is the operators' program. It asks polystalkd by HTTP (its --http), and
any server by beanstalkd's protocol, as far as that goes: what it does not have is
said. It looks after journals, too (polystalkd's -b).

  polystalk --version
        print the version and exit`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			line := fmt.Sprintf("unknown command %q: see polystalk --help for those there are", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				line = fmt.Sprintf("unknown command %q: did you mean %s? polystalk --help lists those there are", args[0], strings.Join(near, " or "))
			}
			return fault.New(fault.Usage, "%s", line)
		},
		RunE: func(*cobra.Command, []string) error {
			return fault.New(fault.Usage, "no command: see polystalk --help")
		},
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.prepare() },
		SilenceErrors:     true, SilenceUsage: true,
		SuggestionsMinimumDistance: 2,
	}
	root.SetIn(a.In)
	root.SetOut(a.out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text := ofParser.ReplaceAllString(err.Error(), "")
		return fault.New(fault.Usage, "%s%s: see %s --help", about(cmd), text, cmd.CommandPath())
	})
	root.SetHelpTemplate(helpTemplate + "\n" + fault.Codes)
	a.flags(root.PersistentFlags())
	root.AddGroup(
		&cobra.Group{ID: groupLook, Title: "Look:"}, &cobra.Group{ID: groupJobs, Title: "Jobs:"}, &cobra.Group{ID: groupTubes, Title: "Tubes:"},
		&cobra.Group{ID: groupServer, Title: "Server:"}, &cobra.Group{ID: groupRest, Title: "The rest:"},
	)
	for group, commands := range map[string][]*cobra.Command{
		groupLook:   {a.statsCommand(), a.topCommand(), a.tubesCommand(), a.tubeCommand(), a.jobsCommand(), a.jobCommand(), a.bodyCommand(), a.historyCommand(), a.checkCommand()},
		groupJobs:   {a.putCommand(), a.kickCommand(), a.buryCommand(), a.deleteCommand(), a.releaseCommand(), a.mvCommand(), a.cpCommand(), a.editCommand()},
		groupTubes:  {a.pauseCommand(), a.resumeCommand(), a.flushCommand(), a.exportCommand(), a.importCommand()},
		groupServer: {a.healthCommand(), a.connsCommand(), a.killCommand(), a.opsCommand(), a.auditCommand(), a.drainCommand(), a.reloadCommand(), a.logLevelCommand(), a.clusterCommand()},
		groupRest:   {a.journalCommand(), a.tokenCommand(), a.completionCommand(), a.versionCommand()},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	a.completions(root)
	explain(root)
	root.SetHelpCommandGroupID(groupRest)
	return root
}

func (a *App) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version and exit", Args: arguments(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, release.Line("polystalk", ""))
			return err
		},
	}
}

// arguments wants one for each name; the last may be left out if it is in brackets, and
// there may be more of it if it ends with dots.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for i, name := range names {
			if i >= len(args) && !strings.HasPrefix(name, "[") {
				return fault.New(fault.Usage, "%s%s is missing: the use is %s", about(cmd), strings.TrimSuffix(name, "..."), cmd.UseLine())
			}
		}
		if len(args) > len(names) && (len(names) == 0 || !strings.HasSuffix(strings.TrimSuffix(names[len(names)-1], "]"), "...")) {
			return fault.New(fault.Usage, "%sunknown argument %q: the use is %s", about(cmd), args[len(names)], cmd.UseLine())
		}
		return nil
	}
}

// about is a command as it stands before what is wrong with its use.
func about(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ") + ": "
}

// examples are of commands whose use is not plain from their line.
var examples = map[string]string{
	"stats":   "polystalk stats -o wide\npolystalk stats --server beanstalk://10.0.0.5:11300",
	"tubes":   "polystalk tubes 'mail*' --sort -ready --limit 10\npolystalk tubes --jq '.tubes[] | select(.jobs.buried > 0) | .name'",
	"tube":    "polystalk tube mail\npolystalk tube -- -x\npolystalk tube --path a%20b",
	"jobs":    "polystalk jobs mail --state buried\npolystalk jobs mail --contains user-17 --older 1h -o wide",
	"body":    "polystalk body 17 > file",
	"put":     "polystalk put mail --body hello\npolystalk put mail file --pri 10 --delay 1h\nprintf 'one\\ntwo\\n' | polystalk put mail --lines",
	"kick":    "polystalk kick 17 18\npolystalk kick --tube mail --limit 100\npolystalk jobs mail --contains user-17 -o name | polystalk kick -",
	"delete":  "polystalk delete 17\npolystalk delete --tube mail --contains user-17 --dry-run",
	"mv":      "polystalk mv 17 --to mail-later\npolystalk mv --tube mail --state buried --to mail-broken",
	"cp":      "polystalk cp --tube mail --to mail-copy",
	"edit":    "polystalk edit 17 --editor\npolystalk edit --tube mail --pri 5 --older 1h",
	"pause":   "polystalk pause mail 5m",
	"flush":   "polystalk flush mail --dry-run\npolystalk flush mail --state buried --save buried.jsonl",
	"export":  "polystalk export mail --file mail.jsonl\npolystalk export --all-tubes | gzip > all.gz",
	"import":  "polystalk import mail.jsonl\npolystalk import mail.jsonl --to mail-copy --skip 0",
	"conns":   "polystalk conns --holding\npolystalk conns --tube mail -o wide",
	"cluster": "polystalk cluster status --dir /var/lib/polystalkd\npolystalk cluster remove jobs3 --dir /var/lib/polystalkd",
	"history": "polystalk history mail --last 1h --step 1m",
	"check":   "polystalk check --tube mail --ready 1000:10000 --oldest 60s:5m --workers 1:\npolystalk check --journal --connections 5000:9000",
}

// helpTemplate begins with what a command does, as manuals do.
const helpTemplate = `{{if .HasParent}}{{.CommandPath}} - {{.Short}}

{{end}}{{with .Long}}{{. | trimTrailingWhitespaces}}

{{end}}{{.UsageString}}`

// explain gives commands their examples.
func explain(root *cobra.Command) {
	for _, c := range root.Commands() {
		if lines := examples[c.Name()]; lines != "" {
			c.Example = "  " + strings.ReplaceAll(lines, "\n", "\n  ")
		}
	}
}
