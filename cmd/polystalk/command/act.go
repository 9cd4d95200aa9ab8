package command

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/output"
	"polystalk/cmd/polystalk/queue"
)

const idsHelp = `ID - reads ids from standard input, as polystalk jobs -o name writes them.`

func (a *App) kickCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kick ID...", Short: "make buried or delayed jobs ready", Long: idsHelp, Args: arguments("ID..."),
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			return a.each(cmd.Context(), args, "kick", func(ctx context.Context, id uint64) error { return q.Kick(ctx, id) })
		}),
	}
}

func (a *App) buryCommand() *cobra.Command {
	force := false
	c := &cobra.Command{
		Use: "bury ID...", Short: "put jobs aside, until they are kicked", Long: idsHelp, Args: arguments("ID..."),
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			return a.each(cmd.Context(), args, "bury", func(ctx context.Context, id uint64) error { return q.Bury(ctx, id, force) })
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "also from workers, to whom they are gone then")
	return c
}

func (a *App) deleteCommand() *cobra.Command {
	force := false
	c := &cobra.Command{
		Use: "delete ID...", Short: "delete jobs", Args: arguments("ID..."),
		Long: "What is named is deleted, without a question.\n" + idsHelp,
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			return a.each(cmd.Context(), args, "delete", func(ctx context.Context, id uint64) error { return q.Delete(ctx, id, force) })
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "also from workers, to whom they are gone then")
	return c
}

func (a *App) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "release ID...", Short: "take jobs from their workers and make them ready", Long: idsHelp, Args: arguments("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.polystalk(cmd.Context(), "release what another client has reserved")
			if err != nil {
				return err
			}
			defer c.Close()
			return a.each(cmd.Context(), args, "release", c.Release)
		},
	}
}

// each does something to jobs, one after the other. One that fails does not keep the others
// from it, but for a server that cannot be asked.
func (a *App) each(ctx context.Context, args []string, action string, do func(context.Context, uint64) error) error {
	ids, err := a.readIDs(args)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fault.New(fault.Nothing, "no id was given on standard input: polystalk jobs -o name lists some")
	}
	var done, gone int
	var first error
	for _, id := range ids {
		err := do(ctx, id)
		if err == nil {
			done++
			continue
		}
		switch code := fault.Code(err); {
		case code == fault.Nothing:
			gone++
		case code != fault.NotDone || ctx.Err() != nil:
			if done > 0 {
				return fault.New(code, "%d of %d jobs were done, then: %v", done, len(ids), err)
			}
			return err
		}
		if len(ids) > 1 {
			a.note("%v", err)
		}
		if first == nil {
			first = err
		}
	}
	if len(ids) == 1 && first != nil {
		return first
	}
	document, err := json.Marshal(struct {
		Action string `json:"action"`
		Done   int    `json:"done"`
		Not    int    `json:"not_done"`
	}{action, done, len(ids) - done})
	if err != nil {
		return err
	}
	if err := a.done(document, "%s: %d of %s", action, done, counted(uint64(len(ids)), "job")); err != nil {
		return err
	}
	switch {
	case first == nil:
		return nil
	case gone == len(ids):
		return fault.New(fault.Nothing, "none of the %d jobs is there: look them up again", gone)
	}
	return fault.New(fault.NotDone, "%d of %d jobs were not done: see above why", len(ids)-done, len(ids))
}

// done shows a document, in tables as a line for people.
func (a *App) done(document []byte, format string, args ...any) error {
	if f := a.printer.Format; f == "table" || f == "wide" {
		_, err := fmt.Fprintf(a.out, format+"\n", args...)
		return err
	}
	return a.printer.Show(document, output.View{})
}

// counted is a number with its noun.
func counted(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
