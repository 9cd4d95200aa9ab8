package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalk/journal"
	"polystalk/codec/admin"
)

// otherVerbs returns the verbs that ask no server.
func (a *App) otherVerbs() []verb {
	return []verb{
		journalVerb(), a.accessVerb(), {use: "token", short: "the old name of polystalk access, which will be removed", verbs: []verb{a.newVerb()}}, a.completionVerb(),
		{
			use: "version", short: "print the version and exit",
			local: func(r *run) error {
				_, err := fmt.Fprintln(r.out, program.Line("polystalk", ""))
				return err
			},
		},
	}
}

// journalVerb returns the verb with the commands about directories.
func journalVerb() verb {
	var jobs, records bool
	var format string
	return verb{
		use: "journal", short: "inspect, check and repair the directory of a stopped server (polystalkd's -b)",
		long:   "These commands never change the directory that they read, and refuse one that a server uses.",
		adjust: directoriesOnly,
		verbs: []verb{
			{
				use: "inspect DIR", short: "show the segments and jobs of a journal", reads: true,
				long: `Shows the segments (files), and the jobs by tube and state as a server would find them if it
started now: reserved jobs are ready, and so are jobs with an ended delay. If the journal
is damaged, it shows what can be read, and exits with 1. With --jobs or --records it lists
these instead, in columns separated by tabs. Names of Gearman functions that no tube can
have are in double quotes, with escapes.`,
				flags: func(fs *pflag.FlagSet) {
					fs.BoolVar(&jobs, "jobs", false, "list every job, by id")
					fs.BoolVar(&records, "records", false, "list every record, in the order of the journal")
				},
				local: func(r *run) error { return journal.Inspect(r.args[0], jobs, records, r.out) },
			},
			{
				use: "verify DIR", short: "check a whole journal for damage", reads: true,
				long: `Reads and checks every byte. Each damage is a line with its file and offset; the search
continues after it. A torn end is not damage: the server ended during a write that it had not
acknowledged, and a start cuts the end off.`,
				local: func(r *run) error { return journal.Verify(r.args[0], r.out) },
			},
			{
				use: "salvage DIR NEWDIR", short: "copy the readable part of a damaged journal to a new one",
				long: `Reads the journal in DIR, or beanstalkd's files binlog.N in it, skips what is damaged, and
writes the jobs to a new journal in NEWDIR, which must be empty or not exist. DIR does not
change. Start polystalkd -b NEWDIR then; its account must own the files.

The output lists the losses. A job that was put in a lost part is gone. A job that was
deleted there comes back, and a job that was changed there is as it was before. Whole
batches behind a torn end are copied.`,
				local: func(r *run) error { return journal.Salvage(r.args[0], r.args[1], r.out) },
			},
			{
				use: "export DIR OUT", short: "write the jobs as files that beanstalkd can start from",
				long: `Writes all jobs of the journal in DIR to OUT, for a return to beanstalkd -b OUT. OUT must
be empty or not exist. DIR does not change. beanstalkd's account must own the files.

The output lists what beanstalkd cannot keep: paused tubes, a highest id above the ids of
the jobs, and bodies for which it needs a larger -z. beanstalkd adds one to the buries of
each buried job. A damaged journal is refused: salvage it first.`,
				flags: func(fs *pflag.FlagSet) {
					fs.StringVar(&format, "format", "v7", "write this `FORMAT`; the only one is v7, which beanstalkd 1.5 to 1.13 has")
				},
				local: func(r *run) error {
					if format != "v7" {
						return client.Errorf(client.Usage, "journal export: flag --format: unknown format %q: give v7", format)
					}
					return journal.Export(r.args[0], r.args[1], r.out)
				},
			},
		},
	}
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
		"tube": tubes, "to": tubes, "state": words(admin.States...), "order": words("scan", "next", "oldest", "newest"),
		"role": words(roles...), "level": words(levels...), "bodies": words(parts...), "failed": words("bury", "release"), "output": words(client.Formats...), "protocol": words("beanstalkd", "Gearman"),
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
