package command

import (
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/output"
	"polystalk/cmd/polystalk/queue"
	"polystalk/cmd/polystalk/views"
	"polystalk/cmd/polystalk/wire"
)

func (a *App) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "stats", Short: "show how the server is: its jobs, tubes and connections", Args: arguments(),
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, _ []string) error {
			document, err := q.Server(cmd.Context())
			if err != nil {
				return err
			}
			return a.printer.Show(document, views.Server)
		}),
	}
}

func (a *App) tubesCommand() *cobra.Command {
	var query queue.TubeQuery
	c := &cobra.Command{
		Use: "tubes [GLOB]", Short: "list tubes", Args: arguments("[GLOB]"),
		Long: `All, or those that match GLOB, in which * is any characters, ? one, and [a-z] one
of those.`,
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			if len(args) > 0 {
				query.Match = args[0]
			}
			if query.Limit < 0 {
				return fault.New(fault.Usage, "--limit is %d: give a number, or 0 for all", query.Limit)
			}
			l := a.printer.List(views.Tubes)
			if err := q.Tubes(cmd.Context(), query, l.Page); err != nil {
				return err
			}
			if err := l.Close(); err != nil {
				return err
			}
			if l.N == 0 {
				return fault.New(fault.Nothing, "no tube matches %q: polystalk tubes lists all", query.Match)
			}
			return nil
		}),
	}
	c.Flags().StringVar(&query.Sort, "sort", "", "name, ready, urgent, delayed, reserved, buried, total, using, watching, waiting, bytes or oldest; with - before it the largest first")
	c.Flags().IntVar(&query.Limit, "limit", 0, "show so many; 0: all")
	return c
}

func (a *App) tubeCommand() *cobra.Command {
	var names tubeName
	c := &cobra.Command{
		Use: "tube TUBE", Short: "show one tube", Args: arguments("TUBE"),
		Long: "A name that begins with a hyphen stands after --.",
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			name, err := names.read(args[0])
			if err != nil {
				return err
			}
			document, err := q.Tube(cmd.Context(), name)
			if err != nil {
				return err
			}
			return a.printer.Show(document, views.Tube)
		}),
	}
	names.flags(c.Flags())
	return c
}

// limitDefault is how many jobs are shown unasked.
const limitDefault = 100

func (a *App) jobsCommand() *cobra.Command {
	var (
		names    tubeName
		picked   = picking{limit: limitDefault}
		all      bool
		allTubes bool
		order    string
		bodies   string
	)
	c := &cobra.Command{
		Use: "jobs TUBE", Short: "list jobs of a tube; nobody is disturbed",
		Long: `With --all-tubes it is those of all tubes. A job is shown once, also while others
come and go. beanstalkd's protocol shows the first job of each state.

  --order scan     in any order; the only one with --state of several, or filters
  --order next     as workers will get them (ready), or as they are due (delayed),
                   would be kicked (buried)
  --order oldest   by when they entered the one --state; newest: the other way round`,
		Args: func(cmd *cobra.Command, args []string) error {
			if allTubes {
				return arguments()(cmd, args)
			}
			return arguments("TUBE")(cmd, args)
		},
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) (err error) {
			if err := picked.read(); err != nil {
				return err
			}
			query := picked.query()
			query.AllTubes, query.Order, query.Body = allTubes, order, bodies
			if !allTubes {
				if query.Tube, err = names.read(args[0]); err != nil {
					return err
				}
			}
			if all {
				query.Limit = 0
			}
			return a.listJobs(cmd, q, query)
		}),
	}
	names.flags(c.Flags())
	picked.flags(c.Flags())
	c.Flags().BoolVar(&all, "all", false, "show all, whatever --limit says")
	c.Flags().BoolVar(&allTubes, "all-tubes", false, "of all tubes")
	c.Flags().StringVar(&order, "order", "", "scan, next, oldest or newest; default: scan, by beanstalkd's protocol next")
	c.Flags().StringVar(&bodies, "body", "preview", "none, preview (256 octets) or full")
	return c
}

func (a *App) listJobs(cmd *cobra.Command, q queue.Queue, query queue.JobQuery) error {
	l := a.printer.List(views.Jobs)
	var last struct {
		Next string `json:"next"`
	}
	err := q.Jobs(cmd.Context(), query, func(document []byte) error {
		last.Next = ""
		if err := json.Unmarshal(document, &last); err != nil {
			return fault.New(fault.System, "the server's answer cannot be read: use the polystalk of its version")
		}
		if err := l.Page(document); err != nil {
			return err
		}
		return a.out.Flush() // the next part may take long
	})
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	switch _, limited := q.(*wire.Conn); {
	case limited:
		a.note("beanstalkd's protocol shows the first job of each state, and no reserved ones; polystalkd's --http shows all")
	case last.Next != "" && query.Limit != 0:
		a.note("there are more: --all shows them, --limit N so many")
	case l.N == 0:
		return fault.New(fault.Nothing, "there are no such jobs: polystalk tube shows how many there are in which state")
	}
	return nil
}

func (a *App) jobCommand() *cobra.Command {
	return &cobra.Command{
		Use: "job ID", Short: "show one job, but for its body", Args: arguments("ID"),
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			id, err := readID(args[0])
			if err != nil {
				return err
			}
			document, err := q.Job(cmd.Context(), id)
			if err != nil {
				return err
			}
			return a.printer.Show(document, views.Job)
		}),
	}
}

func (a *App) bodyCommand() *cobra.Command {
	raw := false
	c := &cobra.Command{
		Use: "body ID", Short: "write the body of a job to standard output, as it is", Args: arguments("ID"),
		Long: `The body is written octet for octet, with nothing behind it. To a terminal only text
is written, unless --raw is given: what else there is in a body could do anything
with it.`,
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			id, err := readID(args[0])
			if err != nil {
				return err
			}
			// What a terminal may have of a body is decided here, and not behind a.out.
			if !a.Screens.Out || raw {
				return q.Body(cmd.Context(), id, a.Out)
			}
			g := &guard{w: a.Out}
			if err := q.Body(cmd.Context(), id, g); err != nil {
				return err
			}
			return g.end()
		}),
	}
	c.Flags().BoolVar(&raw, "raw", false, "write to a terminal whatever it is")
	return c
}

// A guard passes text on, and nothing else.
type guard struct {
	w     io.Writer
	begun []byte // a character of which the rest is to come
}

// Write implements io.Writer.
func (g *guard) Write(b []byte) (int, error) {
	text := append(g.begun, b...)
	if output.Binary(text) {
		return 0, errNoText
	}
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if at := len(text) - n; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	if _, err := g.w.Write(text[:whole]); err != nil {
		return 0, err
	}
	g.begun = text[whole:]
	return len(b), nil
}

// end reports a body that ends within a character.
func (g *guard) end() error {
	if len(g.begun) > 0 {
		return errNoText
	}
	return nil
}

var errNoText = fault.New(fault.Usage, "the body is no text: give --raw to have the terminal show it all the same, or > FILE")
