package command

import (
	"strings"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/journal"
)

// journalCommand has the commands of package journal below it. They read their flags
// themselves; here those are named for completion and manuals.
func (a *App) journalCommand() *cobra.Command {
	all := &cobra.Command{
		Use: "journal", Short: "look at, check and rescue the directory of a stopped server (polystalkd's -b)",
		Long: "A directory that is read is never changed, and one that a server uses is refused.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fault.New(fault.Usage, "journal: what is to be done with it is missing: see polystalk journal --help")
			}
			return fault.New(fault.Usage, "journal: unknown command %q: see polystalk journal --help for those there are", args[0])
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	// Of what servers are asked, nothing goes with a directory.
	all.SetUsageTemplate(strings.ReplaceAll(all.UsageTemplate(), ".HasAvailableInheritedFlags", "false"))
	all.SetHelpTemplate(all.HelpTemplate() + "\n" + journal.Codes)
	for _, j := range journal.Commands() {
		c := &cobra.Command{
			Use: j.Name + " " + strings.Join(j.Args, " "), Short: j.Short, Long: j.Long,
			DisableFlagParsing: true,
			PersistentPreRunE:  func(*cobra.Command, []string) error { return nil },
			RunE:               func(_ *cobra.Command, args []string) error { return j.Run(args, a.out) },
			ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return nil, cobra.ShellCompDirectiveFilterDirs
			},
		}
		j.Flags(c.Flags())
		all.AddCommand(c)
	}
	return all
}
