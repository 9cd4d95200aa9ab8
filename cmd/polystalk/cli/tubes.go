package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// tubeVerbs returns the verbs about tubes.
func (a *App) tubeVerbs() []verb {
	return []verb{
		{
			use: "pause TUBE TIME", short: "stop reservations from a tube for a time such as 90s, 5m or 12h",
			examples: "polystalk pause mail 5m", flags: a.pathFlag, method: "PUT", path: "/tubes/{tube}/pause",
			request: func(r *run, q *client.Request) error {
				seconds, err := readSeconds("TIME", r.args[1])
				if err == nil && seconds == 0 {
					err = client.Errorf(client.Usage, "TIME is 0: give a longer one; polystalk resume ends a pause")
				}
				q.JSON = admin.Pause{Seconds: seconds}
				return err
			},
		},
		{use: "resume TUBE", short: "end the pause of a tube", flags: a.pathFlag, method: "DELETE", path: "/tubes/{tube}/pause"},
		a.flushVerb(),
		a.exportVerb(),
		a.importVerb(),
	}
}

// flushable are the states of the jobs that a flush deletes.
var flushable = []string{"ready", "delayed", "buried"}

// A flush deletes the jobs of a tube.
type flush struct {
	tube    string
	states  []string
	save    string // a file; empty: none
	consent consent
}

func (a *App) flushVerb() verb {
	var f flush
	return verb{
		use: "flush TUBE", short: "delete all jobs of a tube except reserved ones",
		long: `Deletes the jobs of the tube in the named states, all at the same instant. It counts them
first; jobs that are put later stay. By beanstalkd's protocol, it deletes jobs one by one.
It asks for confirmation on a terminal; elsewhere give --yes.`,
		examples: "polystalk flush mail --dry-run\npolystalk flush mail --state buried --save buried.jsonl",
		flags: func(fs *pflag.FlagSet) {
			a.pathFlag(fs)
			fs.StringSliceVar(&f.states, "state", flushable, "ready, delayed or buried; several with commas between them")
			fs.StringVar(&f.save, "save", "", "write the jobs to this new file first, as export does")
			f.consent.flags(fs)
		},
		do: func(r *run) (err error) {
			if f.tube, err = r.tubeName(r.args[0]); err != nil {
				return err
			}
			for _, s := range f.states {
				if !slices.Contains(flushable, s) {
					return client.Errorf(client.Usage, "--state %q cannot be flushed: give ready, delayed or buried; polystalk delete --force deletes reserved jobs too", s)
				}
			}
			if s, ok := r.server.(*client.Beanstalk); ok {
				return r.flushOneByOne(s, &f)
			}
			return r.flushAtOnce(&f)
		},
	}
}

// agree handles a dry run, and otherwise asks for confirmation.
func (r *run) agree(f *flush, there uint64, document []byte) (goOn bool, err error) {
	shown := admin.ShownName(f.tube)
	if f.consent.dryRun {
		if err := r.done(document, "%s", dryRun(there, "of tube "+shown, "deleted")); err != nil {
			return false, err
		}
	}
	switch {
	case there == 0:
		return false, client.Errorf(client.Nothing, "there are no such jobs in tube %s: polystalk tube shows how many there are", shown)
	case f.consent.dryRun:
		return false, nil
	}
	if err := f.consent.expected(there); err != nil {
		return false, err
	}
	return true, r.confirm(r.ctx, &f.consent, fmt.Sprintf("delete %s of tube %s", jobs(there), shown))
}

// flushAtOnce flushes by HTTP.
func (r *run) flushAtOnce(f *flush) error {
	ask := func(ctx context.Context, asOf string, dry bool) (done admin.Flushed, document []byte, err error) {
		query := url.Values{"dry_run": {strconv.FormatBool(dry)}, "state": {strings.Join(f.states, ",")}}
		if asOf != "" {
			query.Set("as_of", asOf)
		}
		a, err := r.server.Ask(ctx, client.Request{Method: "DELETE", Path: "/tubes/{tube}/jobs", Tube: f.tube, Query: query})
		if err == nil {
			err = a.Read(&done)
		}
		return done, a.Document, err
	}
	dry, document, err := ask(r.ctx, "", true)
	if err != nil {
		return err
	}
	if goOn, err := r.agree(f, dry.Jobs, document); !goOn || err != nil {
		return err
	}
	if f.save != "" {
		// A job that the flush deletes stays in these states until then, so the list has it.
		list := selection{states: f.states}
		err := r.saveTo(f.save, func(s *sink) error {
			s.body = r.body
			return r.server.List(r.ctx, list.request(f.tube, "full"), s.page)
		})
		if err != nil {
			return err
		}
	}
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	// A flush cannot be stopped, so an interrupt must not hide the result.
	did, document, err := ask(context.WithoutCancel(r.ctx), dry.AsOf, false)
	if err != nil {
		return err
	}
	return r.done(document, "flush: %s of tube %s", jobs(did.Jobs), admin.ShownName(f.tube))
}

// flushOneByOne flushes by beanstalkd's protocol. It saves each job before it deletes it.
func (r *run) flushOneByOne(c *client.Beanstalk, f *flush) error {
	counts, err := r.counts(f.tube)
	if err != nil {
		return err
	}
	of := map[string]uint64{"ready": counts.Ready, "delayed": counts.Delayed, "buried": counts.Buried}
	var there, deleted uint64
	for _, s := range slices.Compact(slices.Sorted(slices.Values(f.states))) {
		there += of[s]
	}
	if goOn, err := r.agree(f, there, doneDocument("flush", there, 0)); !goOn || err != nil {
		return err
	}
	all := func(s *sink) error {
		p := r.progress("flush")
		defer p.end()
		for _, state := range flushable {
			if !slices.Contains(f.states, state) {
				continue
			}
			// Only as many as were counted: producers may put jobs all the time.
			for left := of[state]; left > 0; left-- {
				found, err := c.Pop(r.ctx, f.tube, state, s.keep)
				if err != nil {
					return err
				}
				if !found {
					break
				}
				deleted++
				p.at(deleted, there)
			}
		}
		return nil
	}
	if f.save == "" {
		err = all(new(sink))
	} else {
		err = r.saveTo(f.save, all)
	}
	if err != nil && deleted > 0 && !errors.Is(err, os.ErrExist) {
		return client.Errorf(client.NotDone, "%s of about %d deleted, then: %v", jobs(deleted), there, err)
	}
	if err != nil {
		return err
	}
	return r.done(doneDocument("flush", deleted, 0), "flush: %s of tube %s", jobs(deleted), admin.ShownName(f.tube))
}
