package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
	"polystalk/cmd/polystalk/top"
)

// topTimeout is how long top waits for a server before it says that there is nothing new,
// unless --timeout is given.
const topTimeout = 3 * time.Second

func (a *App) topCommand() *cobra.Command {
	var (
		o           top.Options
		delay       string
		once, batch bool
	)
	c := &cobra.Command{
		Use: "top [GLOB]", Short: "watch tubes or connections, and how much is going on", Args: arguments("[GLOB]"),
		Long: `Shows the server, and its tubes or connections, again and again: those that are most,
or as they are sorted. On a terminal ? shows the keys. Elsewhere, and with --batch, it
writes text, a table every few seconds.

GLOB shows what matches only: a pattern, or a part of a name.

  polystalk top                     tubes, those with most ready jobs first
  polystalk top --sort -oldest mail those whose name has mail, where jobs wait longest
  polystalk top --conns --sort -for who holds jobs for how long
  polystalk top --once | head -15   one table as text`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if a.printer.Format != "table" {
				return fault.New(fault.Usage, "top: -o %s is not for what is watched: polystalk tubes and polystalk conns have it", a.printer.Format)
			}
			if len(args) > 0 {
				o.Match = args[0]
			}
			if o.Every, err = readTime("--delay", delay); err != nil {
				return err
			}
			if once {
				o.Count = 1
			}
			if !cmd.Flags().Changed("timeout") {
				a.timeout = topTimeout
			}
			t, err := a.find(cmd.Context())
			if err != nil {
				return err
			}
			o.Server = t.Name
			s := &top.Source{Dial: func(ctx context.Context) (queue.Queue, error) { return a.connect(ctx, t) }}
			if a.Screens.In && a.Screens.Out && !once && !batch && a.Getenv("TERM") != "dumb" {
				return top.Screen(cmd.Context(), s, o, a.In, a.Out)
			}
			return top.Plain(cmd.Context(), s, o, a.out, a.out.Flush, func(err error) { a.note("%v", err) })
		},
	}
	c.Flags().BoolVarP(&o.Connections, "conns", "c", false, "show connections rather than tubes")
	c.Flags().StringVar(&o.Sort, "sort", "", "as in polystalk tubes, or with --conns by a column such as -holds or -for; default: -ready, or -holds")
	c.Flags().IntVar(&o.Limit, "limit", limitDefault, "rows of the text, 1000 at most")
	c.Flags().StringVarP(&delay, "delay", "d", "2", "seconds from one look to the next")
	c.Flags().IntVarP(&o.Count, "count", "n", 0, "end after so many looks; 0: go on")
	c.Flags().BoolVar(&once, "once", false, "write one table as text, also to a terminal")
	c.Flags().BoolVarP(&batch, "batch", "b", false, "write text also to a terminal")
	return c
}
