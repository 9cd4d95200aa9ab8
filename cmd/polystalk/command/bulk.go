package command

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/codec/admin"
)

// A bulk is the same to be done to all jobs that are selected.
type bulk struct {
	names    tubeName
	tube     string
	allTubes bool
	picked   picking
	consent  consent
	force    bool // set by the command
}

func (b *bulk) flags(fs *pflag.FlagSet) {
	fs.StringVar(&b.tube, "tube", "", "instead of ids: the jobs of this tube")
	fs.BoolVar(&b.allTubes, "all-tubes", false, "instead of ids: the jobs of all tubes")
	b.names.flags(fs)
	b.picked.flags(fs)
	b.consent.flags(fs)
}

// selects reports whether jobs are selected, not named by ids; it is a fault if it is both,
// or neither.
func (b *bulk) selects(cmd *cobra.Command, args []string) (bool, error) {
	byTube := cmd.Flags().Changed("tube")
	switch {
	case byTube && b.allTubes:
		return false, fault.New(fault.Usage, "%sthere are --tube and --all-tubes: give one of them", about(cmd))
	case (byTube || b.allTubes) && len(args) > 0:
		return false, fault.New(fault.Usage, "%sthere are ids and a tube: give either", about(cmd))
	case !byTube && !b.allTubes && len(args) == 0:
		return false, fault.New(fault.Usage, "%swhich jobs is missing: give ids, or --tube TUBE", about(cmd))
	}
	if byTube || b.allTubes {
		return true, b.picked.read()
	}
	for _, flag := range []string{"state", "contains", "id", "older", "limit", "dry-run", "expect", "path"} {
		if flag != "path" && cmd.Flags().Changed(flag) || flag == "path" && cmd.Flags().Changed(flag) && cmd.Flags().Lookup("to") == nil {
			return false, fault.New(fault.Usage, "%s--%s goes with --tube or --all-tubes, not with ids", about(cmd), flag)
		}
	}
	return false, nil
}

// operation is what is asked of the server.
func (b *bulk) operation(action string) (admin.NewOperation, error) {
	o := admin.NewOperation{
		Action: action, Force: b.force, Limit: uint64(b.picked.limit),
		Select: admin.Selection{
			AllTubes: b.allTubes, States: b.picked.states, Contains: b.picked.contains,
			MinID: b.picked.minID, MaxID: b.picked.maxID, OlderThanSeconds: b.picked.olderThan,
		},
	}
	if !b.allTubes {
		name, err := b.names.read(b.tube)
		if err != nil {
			return o, err
		}
		path := admin.PathName(name)
		o.Select.TubePath = &path
	}
	return o, nil
}

// where is the selection as a question has it.
func (b *bulk) where() string {
	if b.allTubes {
		return "in all tubes"
	}
	name, _ := b.names.read(b.tube) // it was read before
	return "in tube " + admin.ShownName(name)
}

// verbs are the words for what is done to selected jobs, by the action of the API: the command,
// and what the jobs are afterwards.
var verbs = map[string]struct{ command, done string }{
	"delete": {"delete", "deleted"}, "kick": {"kick", "kicked"}, "bury": {"bury", "buried"}, "release": {"release", "released"},
	"set": {"edit", "changed"}, "move": {"mv", "moved"}, "copy": {"cp", "copied"},
}

// dryRun says what would be done to some jobs.
func dryRun(n uint64, where, done string) string {
	return fmt.Sprintf("dry run: %s %s would be %s", jobs(n), where, done)
}

// careful are the actions that cannot be undone, or that workers feel.
var careful = []string{"delete", "release"}

// run counts what is selected, asks if need be, and does it to no other jobs than were
// counted.
func (a *App) run(ctx context.Context, c *api.Client, b *bulk, o admin.NewOperation) error {
	o.DryRun = true
	counted, err := a.operate(ctx, c, o)
	if err != nil {
		return err
	}
	var dry admin.Operation
	if err := json.Unmarshal(counted, &dry); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	if dry.Problem != nil {
		return api.ProblemFault(dry.Problem) // there are more than it has counted
	}
	left := dry.Matched - skippedOf(dry)
	if b.consent.dryRun {
		if err := a.done(counted, "%s%s", dryRun(left, b.where(), verbs[o.Action].done), reasons(dry)); err != nil {
			return err
		}
	}
	switch {
	case dry.Matched == 0:
		return fault.New(fault.Nothing, "there are no such jobs %s: polystalk jobs lists what there is", b.where())
	case b.consent.dryRun:
		return nil
	}
	if err := b.consent.expected(left); err != nil {
		return err
	}
	if slices.Contains(careful, o.Action) || o.Force {
		if err := a.confirm(ctx, &b.consent, fmt.Sprintf("%s %s %s", o.Action, jobs(left), b.where())); err != nil {
			return err
		}
	}
	o.DryRun, o.AsOf = false, dry.AsOf
	document, err := a.operate(ctx, c, o)
	if document == nil {
		return err
	}
	var did admin.Operation
	if failed := json.Unmarshal(document, &did); failed != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", failed)
	}
	if shown := a.done(document, "%s: %d of %s%s", verbs[o.Action].command, did.Done, jobs(did.Matched), reasons(did)); shown != nil {
		return shown
	}
	switch {
	case err != nil:
		return err
	case did.Problem != nil:
		return api.ProblemFault(did.Problem)
	case did.Done < did.Matched:
		return fault.New(fault.NotDone, "%d of %s were not done%s: look at them, and try again", did.Matched-did.Done, jobs(did.Matched), reasons(did))
	}
	return nil
}

func jobs(n uint64) string { return counted(n, "job") }

func skippedOf(o admin.Operation) (n uint64) {
	for _, k := range o.Skipped {
		n += k
	}
	return n
}

// reasons are why jobs were left alone, in brackets.
func reasons(o admin.Operation) string {
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(o.Skipped)) {
		if n := o.Skipped[reason]; n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, strings.ReplaceAll(reason, "_", " ")))
		}
	}
	if o.Unconfirmed > 0 {
		all = append(all, fmt.Sprintf("%d not confirmed by the disk", o.Unconfirmed))
	}
	if len(all) == 0 {
		return ""
	}
	return " (left alone: " + strings.Join(all, ", ") + ")"
}

// pollEach is how often the server is asked how far an operation is. It is asked, and not
// listened to: an answer is small, and one that is lost is asked for again.
const pollEach = 200 * time.Millisecond

// operate has the server do an operation, and waits for its end. Who interrupts it has the
// server cancel it; the document is there then, beside the error.
func (a *App) operate(ctx context.Context, c *api.Client, o admin.NewOperation) ([]byte, error) {
	// Once it is asked for, its number must be known: the server answers soon, done or not.
	answer, err := c.Do(context.WithoutCancel(ctx), api.Request{Method: "POST", Path: "/operations", JSON: o})
	if err != nil {
		return nil, err
	}
	what := verbs[o.Action].command
	if o.DryRun {
		what = "counting"
	}
	p := a.progress(what)
	defer p.end()
	interrupted := error(nil)
	waiting := ctx // until it is interrupted
	for document := answer.Document; ; {
		var now admin.Operation
		if err := json.Unmarshal(document, &now); err != nil {
			return nil, fault.New(fault.System, "the server's answer cannot be read: use the polystalk of its version")
		}
		switch now.State {
		case "waiting", "running":
		default:
			if interrupted != nil {
				return document, interrupted
			}
			return document, nil
		}
		p.at(now.Looked, now.ToLook)
		select {
		case <-waiting.Done():
			waiting = context.WithoutCancel(ctx)
			p.end()
			a.note("cancelling operation %d; interrupted again, this program ends, and polystalk ops %d says what has become of it", now.ID, now.ID)
			if err := c.Cancel(waiting, now.ID); err != nil {
				return nil, err
			}
			interrupted = fault.New(fault.NotDone, "interrupted: what was done stays done; the same again goes on with what is left")
		case <-time.After(pollEach):
		}
		if document, err = c.Get(waiting, api.OperationPath(now.ID), nil); err != nil {
			if ctx.Err() != nil && interrupted == nil {
				document = answer.Document // ask once more, to cancel it
				continue
			}
			return nil, err
		}
	}
}
