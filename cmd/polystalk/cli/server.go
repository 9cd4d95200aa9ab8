package cli

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// serverVerbs returns the verbs about servers and their connections.
func (a *App) serverVerbs() []verb {
	var (
		live, holding, cancel bool
		protocol, tube        string
		limit, entries        int
	)
	return []verb{
		{
			use: "health", short: "check whether the server is healthy; exit code 0: it is, 1: it is not", reads: true, cannot: "report its health",
			long: `Asks /readyz, like a load balancer: the server is not healthy while it reads the journal,
after the journal has failed, and while it stops. With --live it asks /livez,
like a supervisor that would restart the server.`,
			flags: func(fs *pflag.FlagSet) { fs.BoolVar(&live, "live", false, "check only whether its threads answer") },
			do: func(r *run) error {
				q := client.Request{Method: "GET", Path: "/readyz", Query: url.Values{"verbose": {""}}, Probe: true}
				if live {
					q.Path = "/livez"
				}
				a, err := r.server.Ask(r.ctx, q)
				if err == nil {
					err = r.printer.Show(a.Document, client.HealthView)
				}
				if err != nil || a.Status == http.StatusOK {
					return err
				}
				var h admin.Health
				_ = a.Read(&h) // it has already been shown
				return client.Errorf(client.NotDone, "the server is not healthy (%s): see its log", h.State)
			},
		},
		{
			use: "conns", short: "list connections, the oldest first", reads: true, cannot: "list connections",
			examples: "polystalk conns --holding\npolystalk conns --tube mail -o wide",
			flags: func(fs *pflag.FlagSet) {
				a.pathFlag(fs)
				fs.StringVar(&protocol, "protocol", "", "beanstalkd or Gearman")
				fs.StringVar(&tube, "tube", "", "connections that use or watch this tube")
				fs.BoolVar(&holding, "holding", false, "connections that hold jobs; with --tube, jobs of this tube")
				fs.IntVar(&limit, "limit", 0, "show at most this number; 0: all")
			},
			do: func(r *run) error {
				query := url.Values{}
				if protocol != "" {
					query.Set("protocol", protocol)
				}
				if holding {
					query.Set("holding", "true")
				}
				if r.changed("tube") {
					name, err := r.tubeName(tube)
					if err != nil {
						return err
					}
					query.Set("tube", name)
				}
				_, err := r.list(client.Request{Path: "/connections", Query: query, Limit: limit}, client.ConnectionsView)
				return err
			},
		},
		{
			use: "kill ID...", short: "close connections; their jobs become ready", long: idsHelp, cannot: "close connections",
			do: func(r *run) error {
				return r.eachOf("connection", "kill", func(ctx context.Context, id uint64) error {
					_, err := r.server.Ask(ctx, client.Request{Method: "DELETE", Path: "/connections/{id}", ID: id})
					return err
				})
			},
		},
		{
			use: "ops [ID]", short: "list bulk operations, the newest first, or show or cancel one", cannot: "list operations",
			flags: func(fs *pflag.FlagSet) { fs.BoolVar(&cancel, "cancel", false, "cancel it; changes so far remain") },
			do: func(r *run) error {
				if len(r.args) == 0 {
					if cancel {
						return client.Errorf(client.Usage, "ops: the operation to cancel is missing: give its ID")
					}
					a, err := r.ask("GET", "/operations", 0)
					if err != nil {
						return err
					}
					return r.printer.Show(a.Document, client.OperationsView)
				}
				id, err := readID(r.args[0])
				if err != nil {
					return err
				}
				method := "GET"
				if cancel {
					method = "DELETE"
				}
				a, err := r.ask(method, "/operations/{id}", id)
				if err != nil || cancel {
					return err
				}
				view := client.OperationsView
				view.Rows, view.Columns = "", append(view.Columns[:len(view.Columns):len(view.Columns)], view.Wide...)
				return r.printer.Show(a.Document, view)
			},
		},
		{
			use: "audit", short: "list the changes and their authors, the newest first", reads: true, cannot: "report the audit log",
			flags: func(fs *pflag.FlagSet) {
				fs.IntVar(&entries, "limit", 100, "show at most this number, up to 1,000")
			},
			path: "/audit", view: client.AuditView,
			request: func(_ *run, q *client.Request) error {
				q.Query = url.Values{"limit": {strconv.Itoa(entries)}}
				return nil
			},
		},
		{
			use: "drain [STATE]", short: "stop accepting new jobs (on), or accept them again (off); without STATE, show the state", values: []string{"on", "off"},
			cannot: "drain and take jobs again", path: "/drain", view: client.DrainView,
			request: func(r *run, q *client.Request) error {
				if len(r.args) == 0 {
					return nil
				}
				if q.Method = map[string]string{"on": "PUT", "off": "DELETE"}[r.args[0]]; q.Method == "" {
					return client.Errorf(client.Usage, "drain: %q is neither on nor off: give one of them", r.args[0])
				}
				return nil
			},
		},
		{
			use: "reload", short: "make the server read its configuration again; it applies all changes or none", cannot: "reload",
			method: "POST", path: "/reload", view: client.ReloadView,
		},
		{
			use: "log-level [LEVEL]", short: "show or set the lowest level that the server logs: debug, info, warn or error",
			values: []string{"debug", "info", "warn", "error"}, cannot: "set the level of its log", path: "/log-level", view: client.LogLevelView,
			request: func(r *run, q *client.Request) error {
				if len(r.args) > 0 {
					q.Method, q.JSON = "PUT", admin.LogLevel{Level: r.args[0]}
				}
				return nil
			},
		},
		a.clusterVerb(),
	}
}
