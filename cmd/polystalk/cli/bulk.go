package cli

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// A bulk is an action on all selected jobs.
type bulk struct {
	action
	tube     string // the value of --tube
	tubeName string // empty: all tubes
	picked   selection
	consent  consent
	force    bool
}

func (b *bulk) flags(fs *pflag.FlagSet, a *App) {
	fs.StringVar(&b.tube, "tube", "", "instead of ids: the jobs of this tube")
	a.pathFlag(fs)
	b.picked.flags(fs, 0)
	b.consent.flags(fs)
}

// selects reports whether flags select the jobs; otherwise ids name them.
func (b *bulk) selects(r *run) (bool, error) {
	byTube := r.changed("tube")
	switch {
	case byTube && b.picked.AllTubes:
		return false, r.usagef("--tube and --all-tubes exclude each other: give one of them")
	case (byTube || b.picked.AllTubes) && len(r.args) > 0:
		return false, r.usagef("ids and a tube exclude each other: give one of them")
	case byTube || b.picked.AllTubes:
		return true, b.picked.read()
	case len(r.args) == 0:
		return false, r.usagef("the jobs are missing: give ids, or --tube TUBE")
	}
	for _, flag := range []string{"state", "contains", "id", "older", "limit", "dry-run", "expect", "path"} {
		if r.changed(flag) && (flag != "path" || r.cmd.Flags().Lookup("to") == nil) {
			return false, r.usagef("--%s works with --tube or --all-tubes, not with ids", flag)
		}
	}
	return false, nil
}

// operation returns the operation to request.
func (b *bulk) operation(r *run) (o admin.NewOperation, err error) {
	if len(b.picked.States) == 0 {
		b.picked.States = b.states
	}
	o = admin.NewOperation{Action: b.action.name, Force: b.force, Limit: uint64(b.picked.limit), Select: b.picked.Selection}
	if !b.picked.AllTubes {
		if b.tubeName, err = r.tubeName(b.tube); err != nil {
			return o, err
		}
		path := admin.PathName(b.tubeName)
		o.Select.TubePath = &path
	}
	return o, nil
}

// where returns the selection as a part of a question.
func (b *bulk) where() string {
	if b.picked.AllTubes {
		return "in all tubes"
	}
	return "in tube " + admin.ShownName(b.tubeName)
}

func dryRun(n uint64, where, done string) string {
	return fmt.Sprintf("dry run: %s %s would be %s", jobs(n), where, done)
}

// bulk counts the selected jobs, asks for confirmation if necessary, and carries out the
// operation on the counted jobs.
func (r *run) bulk(b *bulk, o admin.NewOperation) error {
	o.DryRun = true
	document, err := r.operate(o, "counting")
	if err != nil {
		return err
	}
	var dry, did admin.Operation
	if err := client.Read(document, &dry); err != nil {
		return err
	}
	if dry.Problem != nil {
		return client.ProblemError(dry.Problem) // the count was cancelled before its end
	}
	left := dry.Matched
	for _, n := range dry.Skipped {
		left -= n
	}
	if b.consent.dryRun {
		if err := r.done(document, "%s%s", dryRun(left, b.where(), b.action.done), reasons(dry)); err != nil {
			return err
		}
	}
	switch {
	case dry.Matched == 0:
		return client.Errorf(client.Nothing, "there are no such jobs %s: polystalk jobs lists the jobs", b.where())
	case b.consent.dryRun:
		return nil
	}
	if err := b.consent.expected(left); err != nil {
		return err
	}
	if b.careful || o.Force {
		if err := r.confirm(r.ctx, &b.consent, fmt.Sprintf("%s %s %s", o.Action, jobs(left), b.where())); err != nil {
			return err
		}
	}
	o.DryRun, o.AsOf = false, dry.AsOf
	document, err = r.operate(o, b.verb)
	if document == nil {
		return err
	}
	if failed := client.Read(document, &did); failed != nil {
		return failed
	}
	if failed := r.done(document, "%s: %d of %s%s", b.verb, did.Done, jobs(did.Matched), reasons(did)); failed != nil {
		return failed
	}
	switch {
	case err != nil:
		return err
	case did.Problem != nil:
		return client.ProblemError(did.Problem)
	case did.Done < did.Matched:
		return client.Errorf(client.NotDone, "%d of %s were not done%s: look at them, and try again", did.Matched-did.Done, jobs(did.Matched), reasons(did))
	}
	return nil
}

// reasons returns, in brackets, why the operation skipped jobs.
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
	return " (skipped: " + strings.Join(all, ", ") + ")"
}

// pollEach is the time between requests for the state of an operation. Polling survives a lost
// answer; a lost event would not come again.
const pollEach = 200 * time.Millisecond

// operate makes the server carry out an operation, and waits for its end. An interrupt cancels
// the operation; then operate returns its document with the error.
func (r *run) operate(o admin.NewOperation, what string) ([]byte, error) {
	// The context does not end this request: the server answers at once, and cancelling needs the
	// operation's number.
	a, err := r.server.Ask(context.WithoutCancel(r.ctx), client.Request{Method: "POST", Path: "/operations", JSON: o})
	if err != nil {
		return nil, err
	}
	p := r.progress(what)
	defer p.end()
	var interrupted error
	waiting := r.ctx // ends with the interrupt
	for {
		var now admin.Operation
		if err := a.Read(&now); err != nil {
			return nil, err
		}
		if now.State != "waiting" && now.State != "running" {
			return a.Document, interrupted
		}
		p.at(now.Looked, now.ToLook)
		select {
		case <-waiting.Done():
			waiting = context.WithoutCancel(r.ctx)
			p.end()
			r.note("cancelling operation %d; another Ctrl-C ends this program, and polystalk ops %d shows the result", now.ID, now.ID)
			if _, err := r.server.Ask(waiting, client.Request{Method: "DELETE", Path: "/operations/{id}", ID: now.ID}); err != nil {
				return nil, err
			}
			interrupted = client.Errorf(client.NotDone, "interrupted: changes so far remain; repeat the command for the rest")
		case <-time.After(pollEach):
		}
		next, err := r.server.Ask(waiting, client.Request{Method: "GET", Path: "/operations/{id}", ID: now.ID})
		switch {
		case err == nil:
			a = next
		case r.ctx.Err() == nil || interrupted != nil:
			return nil, err
		}
	}
}

// A consent holds the flags by which an operator confirms an action.
type consent struct {
	yes, dryRun bool
	expect      int64 // the largest number of jobs; negative: any
}

func (c *consent) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.yes, "yes", false, "do not ask for confirmation")
	fs.BoolVar(&c.dryRun, "dry-run", false, "only count the selected jobs")
	fs.Int64Var(&c.expect, "expect", -1, "do nothing if more jobs than this are selected; default: any number")
	fs.Lookup("expect").DefValue = "0" // the help does not show it
}

// expected refuses more jobs than --expect allows.
func (c *consent) expected(jobs uint64) error {
	if c.expect >= 0 && jobs > uint64(c.expect) {
		return client.Errorf(client.NotDone, "%s selected, and at most %d expected: nothing was done; check the selection, or raise --expect", counted(jobs, "job"), c.expect)
	}
	return nil
}

// confirm asks for confirmation on a terminal. what is such as "delete 5 jobs of tube mail".
func (a *App) confirm(ctx context.Context, c *consent, what string) error {
	if c.yes {
		return nil
	}
	if !a.Screens.In || !a.Screens.Err {
		return client.Errorf(client.Unconfirmed, "this would %s: give --yes to do it, or --dry-run to only count", what)
	}
	_ = a.out.Flush() // the next write fails as well
	fmt.Fprintf(a.Err, "%s%s? [y/N] ", strings.ToUpper(what[:1]), program.Safe(what[1:]))
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.In).ReadString('\n') // no answer means no
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return ctx.Err()
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		if !strings.HasSuffix(line, "\n") {
			fmt.Fprintln(a.Err)
		}
		return client.Errorf(client.Unconfirmed, "nothing was done: answer y to continue")
	}
}

// A progress shows the progress of a verb in a line on a terminal, and nothing elsewhere.
type progress struct {
	a      *App
	what   string
	began  time.Time
	shown  time.Time
	length int // of the line
}

func (a *App) progress(what string) *progress {
	return &progress{a: a, what: what, began: time.Now()}
}

// at shows the progress. of is the total; 0: unknown.
func (p *progress) at(done, of uint64) {
	line := fmt.Sprintf("%s: %d", p.what, done)
	if of > 0 {
		done = min(done, of)
		line += fmt.Sprintf(" of about %d, %d %%", of, done*100/of)
		if took := time.Since(p.began).Seconds(); done > 0 && took > 1 {
			line += ", " + client.FormatAge(took/float64(done)*float64(of-done)) + " left"
		}
	}
	p.show(line)
}

// show shows a line, unless it showed another one just before.
func (p *progress) show(line string) {
	if now := time.Now(); p.a.Screens.Err && now.Sub(p.shown) >= pollEach {
		p.shown = now
		p.write(line)
	}
}

// end clears the line.
func (p *progress) end() {
	if p.length > 0 {
		p.write("")
		fmt.Fprint(p.a.Err, "\r")
	}
}

func (p *progress) write(line string) {
	fmt.Fprint(p.a.Err, "\r", line, strings.Repeat(" ", max(0, p.length-len(line))))
	p.length = len(line)
}
