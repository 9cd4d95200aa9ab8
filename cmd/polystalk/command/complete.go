package command

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/output"
	"polystalk/cmd/polystalk/queue"
)

// completionMax is how long whoever has pressed a key waits for names of tubes.
const completionMax = 200 * time.Millisecond

// completionTubes is how many names are more than anybody reads.
const completionTubes = 100

// shells are those that completions are written for.
var shells = []string{"bash", "zsh", "fish"}

func (a *App) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion SHELL", Short: "write completions for a shell: bash, zsh or fish", Args: arguments("SHELL"),
		Long: `Writes what the shell reads to complete commands, flags and names of tubes; those come
from the server, if it answers within 0.2 s. For the shell that runs now, and for all:

  bash   source <(polystalk completion bash)
         polystalk completion bash > ~/.local/share/bash-completion/completions/polystalk
         without the package bash-completion the first line stands in ~/.bashrc
  zsh    source <(polystalk completion zsh)
         polystalk completion zsh > "${fpath[1]}/_polystalk"
  fish   polystalk completion fish | source
         polystalk completion fish > ~/.config/fish/completions/polystalk.fish`,
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				var script bytes.Buffer
				if err := root.GenBashCompletionV2(&script, true); err != nil {
					return err
				}
				_, err := a.out.WriteString(strings.Replace(script.String(), packaged, withoutPackage, 1))
				return err
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			}
			return fault.New(fault.Usage, "completion: %q is no shell that is known: give %s", args[0], strings.Join(shells, ", "))
		},
	}
}

// packaged is where the script for bash takes the words of the line by a function of the
// package bash-completion. Many machines do not have it: withoutPackage puts the words
// together that bash has split at = and :, as that function does.
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

// completions adds what can stand after commands and flags.
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
	words := func(all ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return all, cobra.ShellCompDirectiveNoFileComp
		}
	}
	tubes := func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.tubesLike(cmd, begun)
	}
	for flag, complete := range map[string]func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective){
		"tube": tubes, "to": tubes, "state": words("ready", "delayed", "reserved", "buried"), "order": words("scan", "next", "oldest", "newest"),
		"role": words(roles...), "output": words(output.Formats...), "protocol": words("beanstalkd", "Gearman"),
	} {
		if c.LocalFlags().Lookup(flag) != nil {
			_ = c.RegisterFlagCompletionFunc(flag, complete) // it fails for what has one
		}
	}
}

// tubesLike are the tubes whose names begin so, if the server answers soon.
func (a *App) tubesLike(cmd *cobra.Command, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionMax)
	defer cancel()
	a.timeout, a.verbose = completionMax, false
	q, err := a.queue(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer q.Close()
	encoded, _ := cmd.Flags().GetBool("path")
	var names []string
	query := queue.TubeQuery{Match: globOf(begun) + "*", Limit: completionTubes}
	if encoded {
		query.Match = ""
	}
	_ = q.Tubes(ctx, query, func(document []byte) error {
		var part struct {
			Tubes []struct{ Name, Path string }
		}
		if err := json.Unmarshal(document, &part); err != nil {
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

// isWord reports whether a name means itself to every shell. What two names have in common is
// put on the line as it is, and scripts of completions evaluate the line: a name with more in
// it, which anybody can give a tube, would be run. Such a one is typed, in quotes.
func isWord(name string) bool {
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-+/._%:@", c) {
			return false
		}
	}
	return true
}

// globOf is a pattern for a text as it is.
func globOf(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}
