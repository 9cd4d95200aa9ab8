package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

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

// completionMax is how long a completion waits for tube names.
const completionMax = 200 * time.Millisecond

// completionTubes is how many tube names a completion asks for.
const completionTubes = 100

var shells = []string{"bash", "zsh", "fish"}

func (a *App) completionVerb() verb {
	return verb{
		use: "completion SHELL", short: "write completions for a shell: bash, zsh or fish", values: shells,
		long: `Writes a script by which the shell completes commands, flags and names of tubes. The names
come from the server, if it answers within 0.2 s. For this shell, and for all shells:

  bash   source <(polystalk completion bash)
         polystalk completion bash > ~/.local/share/bash-completion/completions/polystalk
         without the package bash-completion, put the first line into ~/.bashrc
  zsh    source <(polystalk completion zsh)
         polystalk completion zsh > "${fpath[1]}/_polystalk"
  fish   polystalk completion fish | source
         polystalk completion fish > ~/.config/fish/completions/polystalk.fish`,
		local: func(r *run) error {
			switch root := r.cmd.Root(); r.args[0] {
			case "bash":
				var script bytes.Buffer
				if err := root.GenBashCompletionV2(&script, true); err != nil {
					return err
				}
				_, err := r.out.WriteString(strings.Replace(script.String(), packaged, withoutPackage, 1))
				return err
			case "zsh":
				return root.GenZshCompletion(r.out)
			case "fish":
				return root.GenFishCompletion(r.out, true)
			}
			return client.Errorf(client.Usage, "completion: the shell %q is unknown: give %s", r.args[0], strings.Join(shells, ", "))
		},
	}
}

// packaged is the line of bash's script that calls a function of the package bash-completion.
// Many machines lack the package: withoutPackage does the same as that function, and joins the
// words that bash splits at = and :.
const packaged = `    _get_comp_words_by_ref "$@" cur prev words cword
`

const withoutPackage = `    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local i word joins=""
    words=()
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ -n $joins || $word == [=:]* ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        joins=""
        [[ $word == *[=:] ]] && joins=1
        ((i == COMP_CWORD)) && cword=$((${#words[@]} - 1))
    done
    cur=${words[cword]} prev=""
    ((cword > 0)) && prev=${words[cword - 1]}
    return 0
`

// completions adds completions of arguments and flag values.
func (a *App) completions(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.completions(sub)
	}
	_, first, _ := strings.Cut(c.Use, " ")
	if strings.HasPrefix(strings.TrimPrefix(first, "["), "TUBE") || strings.HasPrefix(first, "[GLOB") {
		c.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.tubesLike(cmd, begun)
		}
	}
	words := func(all ...string) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return all, cobra.ShellCompDirectiveNoFileComp
		}
	}
	tubes := func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.tubesLike(cmd, begun)
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"tube": tubes, "to": tubes, "state": words(jobStates...), "order": words("scan", "next", "oldest", "newest"),
		"role": words(roles...), "output": words(client.Formats...), "protocol": words("beanstalkd", "Gearman"),
	} {
		if c.LocalFlags().Lookup(flag) != nil {
			_ = c.RegisterFlagCompletionFunc(flag, complete) // fails for a flag that already has completions
		}
	}
}

// tubesLike returns the tubes with a prefix if the server answers in time.
func (a *App) tubesLike(cmd *cobra.Command, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionMax)
	defer cancel()
	a.timeout, a.verbose = completionMax, false
	s, err := a.connect(ctx, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.Close()
	q := client.Request{Path: "/tubes", Limit: completionTubes}
	encoded, _ := cmd.Flags().GetBool("path")
	if !encoded {
		escaped := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(begun)
		q.Query = url.Values{"match": {escaped + "*"}}
	}
	var names []string
	_ = s.List(ctx, q, func(document []byte) error {
		var part struct {
			Tubes []struct{ Name, Path string }
		}
		if err := client.Read(document, &part); err != nil {
			return err
		}
		for _, t := range part.Tubes {
			name := t.Name
			if encoded {
				name = t.Path
			}
			if strings.HasPrefix(name, begun) && isWord(name) {
				names = append(names, name)
			}
		}
		return nil
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// isWord reports whether a name has no special characters for any shell. Completion scripts
// evaluate the line with the common part of the names, and any client can name a tube, so other
// names are not completed.
func isWord(name string) bool {
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-+/._%:@", c) {
			return false
		}
	}
	return true
}
