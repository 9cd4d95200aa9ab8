package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/output"
	"polystalk/cmd/polystalk/queue"
	"polystalk/cmd/polystalk/wire"
)

const idsHelp = `With - as ID, ids are read from standard input. polystalk jobs -o name writes such ids.`

// An action is something that is done to jobs, named by ids or selected.
type action struct {
	name   string   // as the API has it
	states []string // of what is selected, unless it is said
	force  string   // help of --force; empty: there is none
	long   string

	byID func(q queue.Queue) (func(ctx context.Context, id uint64, force bool) error, error)
	// byWire selects by beanstalkd's protocol; nil: that cannot be done.
	byWire func(a *App, ctx context.Context, q queue.Queue, b *bulk) error
}

const selected = `
With --tube or --all-tubes it is all jobs that are selected, in small steps between
which everybody else is served. They are counted first, and no other jobs are
touched than were counted.

`

// command is the command of an action.
func (a *App) command(name, short string, act action) *cobra.Command {
	b := new(bulk)
	c := &cobra.Command{
		Use: name + " [ID...]", Short: short, Long: strings.TrimSpace(idsHelp + "\n" + selected + act.long), Args: arguments("[ID...]"),
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			selects, err := b.selects(cmd, args)
			if err != nil {
				return err
			}
			if !selects {
				do, err := act.byID(q)
				if err != nil {
					return err
				}
				return a.each(cmd.Context(), args, act.name, func(ctx context.Context, id uint64) error { return do(ctx, id, b.force) })
			}
			if len(b.picked.states) == 0 {
				b.picked.states = act.states
			}
			client, ok := q.(*api.Client)
			if !ok && act.byWire != nil {
				return act.byWire(a, cmd.Context(), q, b)
			}
			if !ok {
				return queue.OnlyPolystalk(act.name + " jobs that are selected")
			}
			o, err := b.operation(act.name)
			if err != nil {
				return err
			}
			return a.run(cmd.Context(), client, b, o)
		}),
	}
	b.flags(c.Flags())
	if act.force != "" {
		c.Flags().BoolVar(&b.force, "force", false, act.force)
	}
	return c
}

const forceHelp = "also from workers, to whom they are gone then"

func (a *App) kickCommand() *cobra.Command {
	return a.command("kick", "make buried or delayed jobs ready", action{
		name: "kick", states: []string{"buried"}, long: "Without --state, those that are buried.",
		byID: func(q queue.Queue) (func(context.Context, uint64, bool) error, error) {
			return func(ctx context.Context, id uint64, _ bool) error { return q.Kick(ctx, id) }, nil
		},
		byWire: (*App).kickByWire,
	})
}

func (a *App) buryCommand() *cobra.Command {
	return a.command("bury", "put jobs aside, until they are kicked", action{
		name: "bury", states: []string{"ready", "delayed"}, force: forceHelp, long: "Without --state, those that are ready or delayed.",
		byID: func(q queue.Queue) (func(context.Context, uint64, bool) error, error) { return q.Bury, nil },
	})
}

func (a *App) deleteCommand() *cobra.Command {
	return a.command("delete", "delete jobs", action{
		name: "delete", states: []string{"ready", "delayed", "buried"}, force: forceHelp,
		long: `Without --state, those that no worker has. It asks for
confirmation on a terminal; elsewhere give --yes. It does not ask about ids.
To empty a tube, flush is quicker.`,
		byID: func(q queue.Queue) (func(context.Context, uint64, bool) error, error) { return q.Delete, nil },
	})
}

func (a *App) releaseCommand() *cobra.Command {
	return a.command("release", "take jobs from their workers and make them ready", action{
		name: "release", states: []string{"reserved"},
		long: `It asks for confirmation on a terminal; elsewhere give --yes.
It does not ask about ids.`,
		byID: func(q queue.Queue) (func(context.Context, uint64, bool) error, error) {
			c, ok := q.(*api.Client)
			if !ok {
				return nil, queue.OnlyPolystalk("release what another client has reserved")
			}
			return func(ctx context.Context, id uint64, _ bool) error { return c.Release(ctx, id) }, nil
		},
	})
}

// kickByWire kicks buried or delayed jobs of a tube. The protocol kicks delayed ones only if
// there are none that are buried.
func (a *App) kickByWire(ctx context.Context, q queue.Queue, b *bulk) error {
	c, ok := q.(*wire.Conn)
	query := b.picked.query()
	switch {
	case !ok || b.allTubes:
		return queue.OnlyPolystalk("kick jobs of all tubes")
	case query.Narrows():
		return queue.OnlyPolystalk("search jobs")
	case len(b.picked.states) != 1 || b.picked.states[0] != "buried" && b.picked.states[0] != "delayed":
		return fault.New(fault.Usage, "kick: by beanstalkd's protocol, give --state buried or --state delayed")
	}
	name, err := b.names.read(b.tube)
	if err != nil {
		return err
	}
	counts, err := c.Counts(ctx, name)
	if err != nil {
		return err
	}
	there := counts.Buried
	if b.picked.states[0] == "delayed" {
		if counts.Buried > 0 {
			return fault.New(fault.NotDone, "there are buried jobs, which beanstalkd's protocol kicks first: kick those, or use polystalkd with --http")
		}
		there = counts.Delayed
	}
	if b.picked.limit > 0 {
		there = min(there, uint64(b.picked.limit))
	}
	if there == 0 {
		return fault.New(fault.Nothing, "there are no such jobs %s: polystalk tube shows what there is", b.where())
	}
	if b.consent.dryRun {
		_, err := fmt.Fprintln(a.out, dryRun(there, b.where(), "kicked"))
		return err
	}
	if err := b.consent.expected(there); err != nil {
		return err
	}
	kicked, err := c.KickTube(ctx, name, int(min(there, 1<<31-1)))
	if err != nil {
		return err
	}
	return a.done(doneDocument("kick", kicked, 0), "kick: %d of %s", kicked, jobs(there))
}

// doneDocument says how many jobs something was done to.
func doneDocument(action string, done, not int) []byte {
	document, _ := json.Marshal(struct { // texts and numbers cannot fail
		Action string `json:"action"`
		Done   int    `json:"done"`
		Not    int    `json:"not_done"`
	}{action, done, not})
	return document
}

// each does something to jobs, and says of how many it was done.
func (a *App) each(ctx context.Context, args []string, action string, do func(context.Context, uint64) error) error {
	return a.eachOf(ctx, "job", args, action, do)
}

// eachOf is each for things of another kind that have ids.
func (a *App) eachOf(ctx context.Context, noun string, args []string, action string, do func(context.Context, uint64) error) error {
	return a.eachID(ctx, noun, args, do, func(done, all int) error {
		return a.done(doneDocument(action, done, all-done), "%s: %d of %s", action, done, counted(uint64(all), noun))
	})
}

// eachID does something to what has an id, one after the other. One that fails does not keep the
// others from it, but for a server that cannot be asked. After the last one it is shown what
// was done, unless all there was has failed.
func (a *App) eachID(ctx context.Context, noun string, args []string, do func(context.Context, uint64) error, show func(done, all int) error) error {
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
				return fault.New(code, "%d of %s were done, then: %v", done, counted(uint64(len(ids)), noun), err)
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
	if err := show(done, len(ids)); err != nil {
		return err
	}
	switch {
	case first == nil:
		return nil
	case gone == len(ids):
		return fault.New(fault.Nothing, "none of the %s is there: look them up again", counted(uint64(gone), noun))
	}
	return fault.New(fault.NotDone, "%d of %s were not done: see above why", len(ids)-done, counted(uint64(len(ids)), noun))
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
