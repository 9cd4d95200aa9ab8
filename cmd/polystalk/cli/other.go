package cli

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalk/journal"
)

// otherVerbs returns the verbs that ask no server.
func (a *App) otherVerbs() []verb {
	return []verb{
		journalVerb(), a.tokenVerb(), a.completionVerb(),
		{
			use: "version", short: "print the version and exit",
			local: func(r *run) error {
				_, err := fmt.Fprintln(r.out, program.Line("polystalk", ""))
				return err
			},
		},
	}
}

// journalVerb returns the verb with the commands of package journal.
func journalVerb() verb {
	v := verb{
		use: "journal", short: "inspect, check and repair the directory of a stopped server (polystalkd's -b)",
		long:   "These commands never change the directory that they read, and refuse one that a server uses.",
		adjust: directoriesOnly,
	}
	for _, c := range journal.Commands() {
		var do func(args []string, out io.Writer) error
		v.verbs = append(v.verbs, verb{
			use: c.Use, short: c.Short, long: c.Long, reads: c.Reads,
			flags: func(fs *pflag.FlagSet) { do = c.New(fs) },
			local: func(r *run) error { return do(r.args, r.out) },
		})
	}
	return v
}

// directoriesOnly makes the commands of c refuse the flags about servers.
func directoriesOnly(c *cobra.Command) {
	c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), ".HasAvailableInheritedFlags", "false"))
	c.SetHelpTemplate(helpTemplate + "\n" + journal.Codes)
	c.PersistentPreRunE = func(cmd *cobra.Command, args []string) (err error) {
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Changed {
				err = client.Errorf(client.Usage, "%s--%s is for verbs that talk to servers: leave it out", about(cmd), f.Name)
			}
		})
		for _, arg := range args {
			if arg == "" {
				err = client.Errorf(client.Usage, "%san argument is empty: give the name of a directory", about(cmd))
			}
		}
		return err
	}
	for _, sub := range c.Commands() {
		sub.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
	}
}

var roles = []string{"read", "operate", "admin"}

func (a *App) tokenVerb() verb {
	var (
		role   string
		bodies bool
	)
	return verb{
		use: "token", short: "make tokens for polystalkd's --http-tokens-file",
		verbs: []verb{{
			use: "new NAME", short: "make a token, and its line for the file of --http-tokens-file",
			long: `Shows a new token for its holder, and the line for the file. The line does not reveal the
token. NAME is the holder's name; the audit shows it. No server is asked; polystalk reload
makes the server read the file again.`,
			flags: func(fs *pflag.FlagSet) {
				fs.StringVar(&role, "role", "read", "read, operate or admin")
				fs.BoolVar(&bodies, "bodies", false, "the holder may see whole bodies, whatever the role")
			},
			local: func(r *run) error {
				name := r.args[0]
				switch {
				case !slices.Contains(roles, role):
					return client.Errorf(client.Usage, "--role %q is not a role: give read, operate or admin", role)
				case strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r == '#' || r >= 0x7F }) >= 0 || name == "":
					return client.Errorf(client.Usage, "%q cannot be a name: give letters, digits or signs without spaces and #", name)
				}
				token := rand.Text()
				line := fmt.Sprintf("%s %s sha256:%x", name, role, sha256.Sum256([]byte(token)))
				if bodies {
					line += " +bodies"
				}
				document, err := json.Marshal(map[string]string{"token": token, "line": line})
				if err != nil {
					return err
				}
				return r.printer.Show(document, client.TokenView)
			},
		}},
	}
}
