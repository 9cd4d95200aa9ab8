package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
			done: func(r *run) string {
				seconds, _ := readSeconds("TIME", r.args[1]) // it was read before
				return "pause: tube " + admin.ShownName(r.args[0]) + " for " + client.FormatAge(float64(seconds))
			},
		},
		{use: "resume TUBE", short: "end the pause of a tube", flags: a.pathFlag, method: "DELETE", path: "/tubes/{tube}/pause",
			done: func(r *run) string { return "resume: tube " + admin.ShownName(r.args[0]) }},
		a.policyVerb(),
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
		list := selection{Selection: admin.Selection{States: f.states}}
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

func (a *App) exportVerb() verb {
	var (
		picked selection
		file   string
	)
	return verb{
		use: "export [TUBE]", short: "write jobs with their bodies for import, each as JSON on a line",
		long: `Writes the jobs of a tube, or with --all-tubes of all tubes, as the API shows them, each on a
line. A job that exists during the whole export is written once. beanstalkd's protocol has no
list of jobs: give --id A-B, and each of these ids is tried.`,
		examples: "polystalk export mail --file mail.jsonl\npolystalk export --all-tubes | gzip > all.gz",
		reads:    true,
		flags: func(fs *pflag.FlagSet) {
			a.pathFlag(fs)
			picked.flags(fs, 0)
			fs.StringVar(&file, "file", "", "write to this new file, not to standard output")
		},
		do: func(r *run) error {
			if picked.AllTubes == (len(r.args) > 0) {
				return client.Errorf(client.Usage, "export: give either TUBE or --all-tubes")
			}
			q, err := picked.list(r, "full")
			if err != nil {
				return err
			}
			if file == "" {
				return r.export(&picked, q, &sink{w: bufio.NewWriterSize(r.out, 1<<16)})
			}
			var n uint64
			err = r.saveTo(file, func(s *sink) error {
				err := r.export(&picked, q, s)
				n = s.n
				return err
			})
			if err != nil {
				return err
			}
			return r.done(doneDocument("export", n, 0), "export: %s", jobs(n))
		},
	}
}

// export writes the selected jobs.
func (r *run) export(picked *selection, q client.Request, s *sink) error {
	p := r.progress("export")
	defer p.end()
	var err error
	if c, ok := r.server.(*client.Beanstalk); ok {
		switch {
		case picked.Contains != "" || picked.OlderThanSeconds != 0:
			return client.Unsupported("search jobs")
		case picked.MaxID == 0:
			return client.Errorf(client.Usage, "export: beanstalkd's protocol has no list of jobs: give --id A-B")
		}
		err = c.Walk(r.ctx, q, s.write, p.at)
	} else {
		var of uint64 // approximate number of jobs; 0: unknown
		if !client.Narrows(q.Query) && len(picked.States) == 0 {
			counts, err := r.counts(q.Tube)
			if err != nil {
				return err
			}
			of = counts.Ready + counts.Delayed + counts.Reserved + counts.Buried
			if q.Limit > 0 {
				of = min(of, uint64(q.Limit))
			}
		}
		s.body = r.body
		err = r.server.List(r.ctx, q, func(document []byte) error {
			defer func() { p.at(s.n, of) }()
			return s.page(document)
		})
	}
	if err != nil {
		return err
	}
	if err := s.w.Flush(); err != nil {
		return err
	}
	if s.n == 0 {
		return client.Errorf(client.Nothing, "there are no such jobs: polystalk tubes shows how many there are")
	}
	return nil
}

// A sink writes jobs, each as JSON on a line.
type sink struct {
	w *bufio.Writer // nil: the sink drops the jobs
	n uint64        // jobs so far
	// body writes the complete body of a job. Lists have only the first 64 kB.
	body func(id uint64, w io.Writer) error
}

// body writes the body of a job to w.
func (r *run) body(id uint64, w io.Writer) error { return r.server.Body(r.ctx, id, w) }

// page writes the jobs of one part of a list.
func (s *sink) page(document []byte) error {
	var part struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	if err := client.Read(document, &part); err != nil {
		return err
	}
	for _, job := range part.Jobs {
		if err := s.listed(job); err != nil {
			return err
		}
	}
	return nil
}

// listed writes a job of a list. The body may be truncated.
func (s *sink) listed(job []byte) error {
	var v struct {
		ID        uint64          `json:"id,string"`
		Size      float64         `json:"body_bytes"`
		Text      json.RawMessage `json:"body"`
		Base64    json.RawMessage `json:"body_base64"`
		Truncated bool            `json:"body_truncated"`
	}
	if err := client.Read(job, &v); err != nil {
		return err
	}
	if !v.Truncated && (v.Size == 0 || v.Text != nil || v.Base64 != nil) {
		return s.add(job)
	}
	var members map[string]any
	if err := client.Read(job, &members); err != nil {
		return err
	}
	var body bytes.Buffer
	body.Grow(int(min(max(v.Size, 0), largeMax)))
	switch err := s.body(v.ID, &body); {
	case client.ExitCode(err) == client.Nothing:
		return nil // the job was deleted meanwhile
	case err != nil:
		return err
	}
	for _, name := range []string{"body", "body_base64", "body_truncated"} {
		delete(members, name)
	}
	return s.write(members, body.Bytes())
}

// write writes a job with its body, which may have been edited since the list was made.
func (s *sink) write(job map[string]any, body []byte) error {
	if s.w == nil {
		return nil
	}
	s.n++
	return client.WriteLine(s.w, job, body)
}

// add writes a job.
func (s *sink) add(job []byte) error {
	if s.w == nil {
		return nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, job); err != nil {
		return err
	}
	line.WriteByte('\n')
	s.n++
	_, err := s.w.Write(line.Bytes())
	return err
}

// keep writes a job durably before the job is deleted: afterwards neither the end of the program
// nor a full disk can lose it.
func (s *sink) keep(job map[string]any, body []byte) error {
	if err := s.write(job, body); err != nil || s.w == nil {
		return err
	}
	return s.w.Flush()
}

// saveTo creates a file, calls write to fill it, and makes it durable. After a failure the file
// stays, because jobs in it may already be deleted on the server.
func (a *App) saveTo(name string, write func(*sink) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return client.Errorf(client.Usage, "%s already exists: give the name of a new file", name)
	}
	if err != nil {
		return client.Errorf(client.System, "the file cannot be made: %v", err)
	}
	defer f.Close()
	s := &sink{w: bufio.NewWriterSize(f, 1<<18)}
	err = write(s)
	if flushed := s.w.Flush(); err == nil {
		err = flushed
	}
	if synced := f.Sync(); err == nil && synced != nil && !errors.Is(synced, fs.ErrInvalid) {
		err = synced
	}
	if err != nil {
		if _, ok := errors.AsType[*client.Error](err); ok || errors.Is(err, context.Canceled) {
			return err
		}
		return client.Errorf(client.System, "%s cannot be written: %v", name, err)
	}
	return nil
}
