package command

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/cluster"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/output"
	"polystalk/cmd/polystalk/views"
	"polystalk/codec/admin"
)

func (a *App) healthCommand() *cobra.Command {
	live := false
	c := &cobra.Command{
		Use: "health", Short: "ask whether the server serves clients; 0: it does, 1: it does not", Args: arguments(),
		Long: `Asks what /readyz tells a load balancer: 1 while the journal is read, when it has
failed, and while the server ends. With --live it asks what /livez tells who
would start the server again.`,
		RunE: a.onPolystalk("tell how it is", func(cmd *cobra.Command, c *api.Client, _ []string) error {
			r := api.Request{Method: "GET", Path: "/readyz?verbose", Probe: true}
			if live {
				r.Path = "/livez?verbose"
			}
			answer, err := c.Do(cmd.Context(), r)
			if err != nil {
				return err
			}
			if err := a.printer.Show(answer.Document, views.Health); err != nil {
				return err
			}
			if answer.Status != http.StatusOK {
				var h admin.Health
				_ = json.Unmarshal(answer.Document, &h) // what it is, was shown
				return fault.New(fault.NotDone, "the server is not well (%s): its log says more", h.State)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&live, "live", false, "ask whether its threads answer, whatever it does")
	return c
}

// onPolystalk runs do with a polystalkd; what is named after "cannot" is what no other can.
func (a *App) onPolystalk(what string, do func(cmd *cobra.Command, c *api.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.polystalk(cmd.Context(), what)
		if err != nil {
			return err
		}
		defer c.Close()
		return do(cmd, c, args)
	}
}

// request is a command that sends one request, and shows the answer.
func (a *App) request(what string, view output.View, make func(args []string) (api.Request, error)) func(*cobra.Command, []string) error {
	return a.onPolystalk(what, func(cmd *cobra.Command, c *api.Client, args []string) error {
		r, err := make(args)
		if err != nil {
			return err
		}
		answer, err := c.Do(cmd.Context(), r)
		if err != nil || answer.Document == nil {
			return err
		}
		return a.printer.Show(answer.Document, view)
	})
}

func (a *App) drainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "drain [STATE]", Short: "have the server take no new jobs, or take them again: on or off; without either, say whether it does", Args: arguments("[STATE]"),
		ValidArgs: []string{"on", "off"},
		RunE: a.request("drain and take jobs again", views.Drain, func(args []string) (api.Request, error) {
			r := api.Request{Method: "GET", Path: "/drain"}
			if len(args) > 0 {
				switch args[0] {
				case "on":
					r.Method = "PUT"
				case "off":
					r.Method = "DELETE"
				default:
					return r, fault.New(fault.Usage, "drain: %q is neither on nor off: give one of them", args[0])
				}
			}
			return r, nil
		}),
	}
}

func (a *App) reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "have the server read its configuration again, all of it or nothing", Args: arguments(),
		RunE: a.request("reload", views.Reload, func([]string) (api.Request, error) {
			return api.Request{Method: "POST", Path: "/reload"}, nil
		}),
	}
}

func (a *App) logLevelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "log-level [LEVEL]", Short: "show or set from which level on the server logs: debug, info, warn or error", Args: arguments("[LEVEL]"),
		ValidArgs: []string{"debug", "info", "warn", "error"},
		RunE: a.request("set the level of its log", views.LogLevel, func(args []string) (api.Request, error) {
			r := api.Request{Method: "GET", Path: "/log-level"}
			if len(args) > 0 {
				r.Method, r.JSON = "PUT", admin.LogLevel{Level: args[0]}
			}
			return r, nil
		}),
	}
}

// clusterCommand has the commands of package cluster below it.
func (a *App) clusterCommand() *cobra.Command { return cluster.Command(asker{a}) }

// An asker is an App as the commands of package cluster see it.
type asker struct{ a *App }

// Choose implements cluster.Program.
func (k asker) Choose(server string) { k.a.server = server }

// Timeout implements cluster.Program.
func (k asker) Timeout() time.Duration { return k.a.timeout }

// Ask implements cluster.Program.
func (k asker) Ask(ctx context.Context, what string, r api.Request) (api.Answer, error) {
	c, err := k.a.polystalk(ctx, what)
	if err != nil {
		return api.Answer{}, err
	}
	defer c.Close()
	return c.Do(ctx, r)
}

// Show implements cluster.Program.
func (k asker) Show(document []byte, view output.View) error { return k.a.printer.Show(document, view) }
