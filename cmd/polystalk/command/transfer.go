package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/views"
)

func (a *App) mvCommand() *cobra.Command {
	return a.transferCommand("mv", "move", "move jobs to another tube, where they have new ids", []string{"ready", "delayed", "buried"},
		"Without --state, those that no worker has. A job for whose result a client waits\nstays.")
}

func (a *App) cpCommand() *cobra.Command {
	return a.transferCommand("cp", "copy", "copy jobs to a tube", nil, "Copies are nobody's.")
}

func (a *App) transferCommand(name, action, short string, states []string, long string) *cobra.Command {
	b := new(bulk)
	to := ""
	c := &cobra.Command{
		Use: name + " [ID...]", Short: short, Long: strings.TrimSpace(idsHelp + "\n" + selected + long), Args: arguments("[ID...]"),
		RunE: a.onPolystalk(action+" jobs", func(cmd *cobra.Command, c *api.Client, args []string) error {
			if !cmd.Flags().Changed("to") {
				return fault.New(fault.Usage, "%swhere to is missing: give --to TUBE", about(cmd))
			}
			target, err := b.names.read(to)
			if err != nil {
				return err
			}
			if !utf8.ValidString(target) {
				return fault.New(fault.Usage, "%s--to %q is no UTF-8, and JSON has no way to say it: give another tube", about(cmd), to)
			}
			selects, err := b.selects(cmd, args)
			if err != nil {
				return err
			}
			if !selects {
				return a.transfer(cmd.Context(), c, action, target, args)
			}
			if len(b.picked.states) == 0 {
				b.picked.states = states
			}
			o, err := b.operation(action)
			if err != nil {
				return err
			}
			o.To = &target
			return a.run(cmd.Context(), c, b, o)
		}),
	}
	c.Flags().StringVar(&to, "to", "", "the tube; it is made if need be")
	b.flags(c.Flags())
	return c
}

// transfer moves or copies jobs one after the other, and shows what has become of each.
func (a *App) transfer(ctx context.Context, c *api.Client, action, to string, args []string) error {
	l := a.printer.List(views.Transfers)
	return a.eachID(ctx, "job", args, func(ctx context.Context, id uint64) error {
		document, err := c.Transfer(ctx, id, action, to)
		if err != nil {
			return err
		}
		page, err := json.Marshal(map[string]any{"jobs": []json.RawMessage{document}})
		if err != nil {
			return fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		return l.Page(page)
	}, func(int, int) error { return l.Close() })
}
