package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
	"polystalk/cmd/polystalk/wire"
	"polystalk/codec/admin"
)

// flushable are the states of the jobs that a flush may end.
var flushable = []string{"ready", "delayed", "buried"}

// A flush ends the jobs of a tube.
type flush struct {
	tube    string
	states  []string
	save    string // a file; empty: none
	consent consent
}

func (a *App) flushCommand() *cobra.Command {
	var (
		f     flush
		names tubeName
	)
	c := &cobra.Command{
		Use: "flush TUBE", Short: "empty a tube, but for what workers have", Args: arguments("TUBE"),
		Long: `All jobs of the tube in the states that are named are gone at one moment, however
many there are. They are counted first, and no jobs are touched that have come
since. By beanstalkd's protocol they are deleted one after the other. It asks for
confirmation on a terminal; elsewhere give --yes.`,
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) (err error) {
			if f.tube, err = names.read(args[0]); err != nil {
				return err
			}
			for _, s := range f.states {
				if !slices.Contains(flushable, s) {
					return fault.New(fault.Usage, "--state %q cannot be flushed: give ready, delayed or buried; polystalk delete --force deletes what workers have", s)
				}
			}
			if c, ok := q.(*api.Client); ok {
				return a.flushAtOnce(cmd.Context(), c, &f)
			}
			return a.flushByWire(cmd.Context(), q.(*wire.Conn), &f)
		}),
	}
	names.flags(c.Flags())
	c.Flags().StringSliceVar(&f.states, "state", flushable, "ready, delayed or buried; several with commas between them")
	c.Flags().StringVar(&f.save, "save", "", "write the jobs to this new file first, as export does")
	f.consent.flags(c.Flags())
	return c
}

func (f *flush) what(jobsThere uint64) string {
	return fmt.Sprintf("delete %s of tube %s", jobs(jobsThere), admin.ShownName(f.tube))
}

// agree counts, and asks.
func (a *App) agree(ctx context.Context, f *flush, there uint64, document []byte) (goOn bool, err error) {
	if f.consent.dryRun {
		if err := a.done(document, "%s", dryRun(there, "of tube "+admin.ShownName(f.tube), "deleted")); err != nil {
			return false, err
		}
	}
	switch {
	case there == 0:
		return false, fault.New(fault.Nothing, "there are no such jobs in tube %s: polystalk tube shows what there is", admin.ShownName(f.tube))
	case f.consent.dryRun:
		return false, nil
	}
	if err := f.consent.expected(there); err != nil {
		return false, err
	}
	return true, a.confirm(ctx, &f.consent, f.what(there))
}

// flushAtOnce is the flush of polystalkd.
func (a *App) flushAtOnce(ctx context.Context, c *api.Client, f *flush) error {
	dry, document, err := c.Flush(ctx, f.tube, f.states, true, "")
	if err != nil {
		return err
	}
	if goOn, err := a.agree(ctx, f, dry.Jobs, document); !goOn || err != nil {
		return err
	}
	if f.save != "" {
		// What is flushed below was there, in these states, all the time: a list shows it.
		err := a.saveTo(f.save, func(s *sink) error {
			s.whole = wholeBodies(ctx, c)
			return c.Jobs(ctx, queue.JobQuery{Tube: f.tube, States: f.states, Body: "full"}, s.page)
		})
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// It cannot be stopped, so that who interrupts it hears what it has done.
	did, document, err := c.Flush(context.WithoutCancel(ctx), f.tube, f.states, false, dry.AsOf)
	if err != nil {
		return err
	}
	return a.done(document, "flush: %s of tube %s", jobs(did.Jobs), admin.ShownName(f.tube))
}

// flushByWire deletes jobs one after the other, and saves each before, if it is to be.
func (a *App) flushByWire(ctx context.Context, c *wire.Conn, f *flush) error {
	counts, err := c.Counts(ctx, f.tube)
	if err != nil {
		return err
	}
	of := map[string]uint64{"ready": counts.Ready, "delayed": counts.Delayed, "buried": counts.Buried}
	var there uint64
	for _, s := range slices.Compact(slices.Sorted(slices.Values(f.states))) {
		there += of[s]
	}
	if goOn, err := a.agree(ctx, f, there, doneDocument("flush", int(there), 0)); !goOn || err != nil {
		return err
	}
	var deleted uint64
	run := func(s *sink) error {
		p := a.progress("flush")
		defer p.end()
		for _, state := range flushable {
			if !slices.Contains(f.states, state) {
				continue
			}
			// As many as were counted: others may put jobs all the time.
			for left := of[state]; left > 0; left-- {
				gone, err := c.Pop(ctx, f.tube, state, s.keep)
				if err != nil {
					return err
				}
				if !gone {
					break
				}
				deleted++
				p.at(deleted, there)
			}
		}
		return nil
	}
	if f.save == "" {
		err = run(new(sink))
	} else {
		err = a.saveTo(f.save, run)
	}
	if err != nil && deleted > 0 && !errors.Is(err, os.ErrExist) {
		return fault.New(fault.NotDone, "%s of about %d deleted, then: %v", jobs(deleted), there, err)
	}
	if err != nil {
		return err
	}
	return a.done(doneDocument("flush", int(deleted), 0), "flush: %s of tube %s", jobs(deleted), admin.ShownName(f.tube))
}
