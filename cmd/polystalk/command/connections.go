package command

import (
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/views"
)

func (a *App) connsCommand() *cobra.Command {
	var (
		names          tubeName
		protocol, tube string
		holding        bool
		limit          int
	)
	c := &cobra.Command{
		Use: "conns", Short: "list who is connected, in the order in which they came", Args: arguments(),
		RunE: a.onPolystalk("list connections", func(cmd *cobra.Command, c *api.Client, _ []string) error {
			query := url.Values{}
			if protocol != "" {
				query.Set("protocol", protocol)
			}
			if holding {
				query.Set("holding", "true")
			}
			if cmd.Flags().Changed("tube") {
				name, err := names.read(tube)
				if err != nil {
					return err
				}
				query.Set("tube", name)
			}
			if limit < 0 {
				return fault.New(fault.Usage, "--limit is %d: give a number, or 0 for all", limit)
			}
			l := a.printer.List(views.Connections)
			if err := c.List(cmd.Context(), "/connections", "connections", query, limit, l.Page); err != nil {
				return err
			}
			return l.Close()
		}),
	}
	names.flags(c.Flags())
	c.Flags().StringVar(&protocol, "protocol", "", "beanstalkd or Gearman")
	c.Flags().StringVar(&tube, "tube", "", "those that use or watch this tube")
	c.Flags().BoolVar(&holding, "holding", false, "those that hold jobs; with --tube, jobs of it")
	c.Flags().IntVar(&limit, "limit", 0, "show so many; 0: all")
	return c
}

func (a *App) killCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kill ID...", Short: "close connections, as conns lists them; their jobs are ready again", Long: idsHelp, Args: arguments("ID..."),
		RunE: a.onPolystalk("close connections", func(cmd *cobra.Command, c *api.Client, args []string) error {
			return a.eachOf(cmd.Context(), "connection", args, "kill", c.Kill)
		}),
	}
}

func (a *App) opsCommand() *cobra.Command {
	cancel := false
	c := &cobra.Command{
		Use: "ops [ID]", Short: "list operations on many jobs, the newest first, or show or cancel one", Args: arguments("[ID]"),
		RunE: a.onPolystalk("list operations", func(cmd *cobra.Command, c *api.Client, args []string) error {
			if len(args) == 0 {
				if cancel {
					return fault.New(fault.Usage, "ops: which one is to be cancelled is missing: give its ID")
				}
				document, err := c.Get(cmd.Context(), "/operations", nil)
				if err != nil {
					return err
				}
				return a.printer.Show(document, views.Operations)
			}
			id, err := readID(args[0])
			if err != nil {
				return err
			}
			if cancel {
				return c.Cancel(cmd.Context(), id)
			}
			document, err := c.Get(cmd.Context(), api.OperationPath(id), nil)
			if err != nil {
				return err
			}
			view := views.Operations
			view.Rows, view.Columns = "", append(view.Columns[:len(view.Columns):len(view.Columns)], view.Wide...)
			return a.printer.Show(document, view)
		}),
	}
	c.Flags().BoolVar(&cancel, "cancel", false, "cancel it; what was done stays done")
	return c
}

func (a *App) auditCommand() *cobra.Command {
	limit := 0
	c := &cobra.Command{
		Use: "audit", Short: "list who has changed what, the newest first", Args: arguments(),
		RunE: a.onPolystalk("tell who has changed what", func(cmd *cobra.Command, c *api.Client, _ []string) error {
			document, err := c.Get(cmd.Context(), "/audit", url.Values{"limit": {strconv.Itoa(limit)}})
			if err != nil {
				return err
			}
			return a.printer.Show(document, views.Audit)
		}),
	}
	c.Flags().IntVar(&limit, "limit", 100, "show so many, 1,000 at most")
	return c
}
