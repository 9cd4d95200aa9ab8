package command

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/output"
	"polystalk/cmd/polystalk/queue"
)

// completionMax is how long whoever has pressed a key waits for names of tubes.
const completionMax = 200 * time.Millisecond

// completionTubes is how many names are more than anybody reads.
const completionTubes = 100

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
			if strings.HasPrefix(name, begun) && output.Safe(name) == name {
				names = append(names, name)
			}
		}
		return nil
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// globOf is a pattern for a text as it is.
func globOf(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}
