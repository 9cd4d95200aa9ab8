package command

import (
	"bufio"
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
	"polystalk/cmd/polystalk/wire"
)

func (a *App) exportCommand() *cobra.Command {
	var (
		names    tubeName
		picked   picking
		allTubes bool
		file     string
	)
	c := &cobra.Command{
		Use: "export [TUBE]", Short: "write jobs with their bodies, each as JSON on a line, for import", Args: arguments("[TUBE]"),
		Long: `Writes the jobs of a tube, or with --all-tubes of all, as the API shows them, each on
a line. A job that is there all the time is written once. beanstalkd's protocol has
no list: by it, each id of --id A-B is looked at.`,
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) (err error) {
			if allTubes == (len(args) > 0) {
				return fault.New(fault.Usage, "export: give either TUBE or --all-tubes")
			}
			if err := picked.read(); err != nil {
				return err
			}
			query := picked.query()
			query.AllTubes, query.Body = allTubes, "full"
			if !allTubes {
				if query.Tube, err = names.read(args[0]); err != nil {
					return err
				}
			}
			if file != "" {
				n := 0
				err := a.saveTo(file, func(s *sink) error {
					err := a.export(cmd.Context(), q, query, s)
					n = int(s.n)
					return err
				})
				if err != nil {
					return err
				}
				return a.done(doneDocument("export", n, 0), "export: %s", jobs(uint64(n)))
			}
			return a.export(cmd.Context(), q, query, &sink{w: bufio.NewWriterSize(a.out, 1<<16)})
		}),
	}
	names.flags(c.Flags())
	picked.flags(c.Flags())
	c.Flags().BoolVar(&allTubes, "all-tubes", false, "the jobs of all tubes")
	c.Flags().StringVar(&file, "file", "", "write to this new file, not to standard output")
	return c
}

// export writes the jobs of a list, and says of how many there were none.
func (a *App) export(ctx context.Context, q queue.Queue, query queue.JobQuery, s *sink) error {
	p := a.progress("export")
	defer p.end()
	if c, ok := q.(*wire.Conn); ok {
		if query.Contains != "" || query.Older != 0 {
			return queue.OnlyPolystalk("search jobs")
		}
		if query.MaxID == 0 {
			return fault.New(fault.Usage, "export: by beanstalkd's protocol each id is looked at: give --id A-B")
		}
		err := c.Walk(ctx, query, s.add, p.at)
		if err != nil {
			return err
		}
		return s.end()
	}
	of, err := there(ctx, q, query)
	if err != nil {
		return err
	}
	s.whole = wholeBodies(ctx, q)
	err = q.Jobs(ctx, query, func(document []byte) error {
		defer func() { p.at(s.n, of) }()
		return s.page(document)
	})
	if err != nil {
		return err
	}
	return s.end()
}

// wholeBodies writes bodies of a server.
func wholeBodies(ctx context.Context, q queue.Queue) func(id uint64, w io.Writer) error {
	return func(id uint64, w io.Writer) error { return q.Body(ctx, id, w) }
}

// end flushes what was written.
func (s *sink) end() error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	if s.n == 0 {
		return fault.New(fault.Nothing, "there are no such jobs: polystalk tubes shows how many there are")
	}
	return nil
}

// there is how many jobs are exported, about; 0: that is not known.
func there(ctx context.Context, q queue.Queue, query queue.JobQuery) (uint64, error) {
	if _, ok := q.(*api.Client); !ok || query.Narrows() || len(query.States) > 0 {
		return 0, nil
	}
	look := q.Server
	if !query.AllTubes {
		look = func(ctx context.Context) ([]byte, error) { return q.Tube(ctx, query.Tube) }
	}
	document, err := look(ctx)
	if err != nil {
		return 0, err
	}
	var v struct {
		Jobs struct{ Ready, Delayed, Reserved, Buried uint64 } `json:"jobs"`
	}
	_ = json.Unmarshal(document, &v) // a progress without an end, then
	n := v.Jobs.Ready + v.Jobs.Delayed + v.Jobs.Reserved + v.Jobs.Buried
	if query.Limit > 0 {
		n = min(n, uint64(query.Limit))
	}
	return n, nil
}
