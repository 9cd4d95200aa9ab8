package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

const (
	idsHelp  = "With - as ID, ids are read from standard input. polystalk jobs -o name writes such ids.\n"
	bulkHelp = `
With --tube or --all-tubes, selects jobs instead. The server works in small steps, and
serves its clients between them. It counts the jobs first; jobs that are put later stay
unchanged.

`
	forceHelp = "also reserved jobs, which their workers lose"
)

// An action changes jobs, which ids name or flags select.
type action struct {
	use, short, long, examples string

	method, path string   // of the request for one job; the query force=true stands for --force
	name         string   // in a bulk operation
	verb, done   string   // the verb's name, and its participle
	states       []string // states selected without --state
	force        string   // help of --force; empty: there is none
	careful      bool     // needs a confirmation
	cannot       string   // what beanstalkd's protocol cannot do by id; empty: nothing
}

var actions = []action{
	{
		use: "kick [ID...]", short: "make buried or delayed jobs ready", long: "Without --state, selects buried jobs.",
		examples: "polystalk kick 17 18\npolystalk kick --tube mail --limit 100\npolystalk jobs mail --contains user-17 -o name | polystalk kick -",
		method:   "POST", path: "/jobs/{id}/kick", name: "kick", verb: "kick", done: "kicked", states: []string{"buried"},
	},
	{
		use: "bury [ID...]", short: "put jobs aside until they are kicked", long: "Without --state, selects ready and delayed jobs.",
		method: "POST", path: "/jobs/{id}/bury", name: "bury", verb: "bury", done: "buried", states: []string{"ready", "delayed"}, force: forceHelp,
	},
	{
		use: "delete [ID...]", short: "delete jobs",
		long: `Without --state, selects all jobs that are not reserved. It asks for confirmation on a
terminal; elsewhere give --yes. It does not ask if jobs are named by ids. flush empties
a tube faster.`,
		examples: "polystalk delete 17\npolystalk delete --tube mail --contains user-17 --dry-run",
		method:   "DELETE", path: "/jobs/{id}", name: "delete", verb: "delete", done: "deleted", states: []string{"ready", "delayed", "buried"}, force: forceHelp, careful: true,
	},
	{
		use: "release [ID...]", short: "take jobs from their workers and make them ready",
		long: `It asks for confirmation on a terminal; elsewhere give --yes. It does not ask if jobs
are named by ids.`,
		method: "POST", path: "/jobs/{id}/release", name: "release", verb: "release", done: "released", states: []string{"reserved"}, careful: true,
		cannot: "release what another client has reserved",
	},
	{
		use: "mv [ID...]", short: "move jobs to another tube, where they get new ids",
		long:     "Without --state, selects all jobs that are not reserved. A job whose client waits for the\nresult stays.",
		examples: "polystalk mv 17 --to mail-later\npolystalk mv --tube mail --state buried --to mail-broken",
		method:   "POST", path: "/jobs/{id}/move", name: "move", verb: "mv", done: "moved", states: []string{"ready", "delayed", "buried"},
		cannot: "move jobs",
	},
	{
		use: "cp [ID...]", short: "copy jobs to a tube", long: "No client waits for the result of a copy.",
		examples: "polystalk cp --tube mail --to mail-copy",
		method:   "POST", path: "/jobs/{id}/copy", name: "copy", verb: "cp", done: "copied",
		cannot: "copy jobs",
	},
}

// jobVerbs are the verbs about jobs.
func (a *App) jobVerbs() []verb {
	list := []verb{a.putVerb()}
	for _, act := range actions {
		list = append(list, a.actionVerb(act))
	}
	return append(list, a.editVerb(), a.workVerb(), a.reserveVerb())
}

// actionVerb returns the verb of an action.
func (a *App) actionVerb(act action) verb {
	b := &bulk{action: act}
	to, transfers := "", act.verb == "mv" || act.verb == "cp"
	v := verb{
		use: act.use, short: act.short, long: idsHelp + bulkHelp + act.long, examples: act.examples,
		flags: func(fs *pflag.FlagSet) {
			b.flags(fs, a)
			if act.force != "" {
				fs.BoolVar(&b.force, "force", false, act.force)
			}
			if transfers {
				fs.StringVar(&to, "to", "", "the tube; the server makes it if it does not exist")
			}
		},
		do: func(r *run) error {
			target := ""
			if transfers {
				var err error
				if target, err = r.target(to); err != nil {
					return err
				}
			}
			selects, err := b.selects(r)
			switch {
			case err != nil:
				return err
			case !selects && transfers:
				return r.transfer(act, target)
			case !selects:
				if !r.server.HasAPI() && act.cannot != "" {
					return client.Unsupported(act.cannot)
				}
				return r.each("job", act.name, client.Request{Method: act.method, Path: act.path, Query: forced(b.force)})
			}
			o, err := b.operation(r)
			if err != nil {
				return err
			}
			if transfers {
				o.To = &target
			}
			return r.bulk(b, o)
		},
	}
	if transfers {
		v.cannot = act.cannot
	}
	return v
}

func forced(force bool) url.Values {
	if !force {
		return nil
	}
	return url.Values{"force": {"true"}}
}

// target reads the tube of --to.
func (r *run) target(to string) (string, error) {
	if !r.changed("to") {
		return "", r.usagef("the target is missing: give --to TUBE")
	}
	name, err := r.tubeName(to)
	if err == nil && !utf8.ValidString(name) {
		err = r.usagef("--to %q is not UTF-8, which JSON needs: give another tube", to)
	}
	return name, err
}

// transfer moves or copies jobs one by one, and shows each new job.
func (r *run) transfer(act action, to string) error {
	l := r.printer.List(client.TransfersView)
	show := func(job []byte) error { return l.Page(fmt.Appendf(nil, `{"jobs":[%s]}`, job)) }
	return r.eachID("job", client.Request{Method: act.method, Path: act.path, JSON: admin.NewTransfer{To: &to}}, show, func(int, int) error { return l.Close() })
}

// tubeOrServer returns the path of a tube; an empty name means the server.
func tubeOrServer(tube string) string {
	if tube == "" {
		return "/server"
	}
	return "/tubes/{tube}"
}

// counts returns the number of jobs of a tube in each state; an empty name means the server.
func (r *run) counts(tube string) (admin.Counts, error) {
	var v struct {
		Jobs admin.Counts `json:"jobs"`
	}
	_, err := r.read(tubeOrServer(tube), tube, &v)
	return v.Jobs, err
}

// doneDocument returns a document with the numbers of jobs that an action changed and did not
// change.
func doneDocument(action string, done, not uint64) []byte {
	document, _ := json.Marshal(struct { // strings and numbers cannot fail
		Action string `json:"action"`
		Done   uint64 `json:"done"`
		Not    uint64 `json:"not_done"`
	}{action, done, not})
	return document
}

// each sends a request for each id of the arguments, and shows the number of successes.
func (r *run) each(noun, action string, q client.Request) error {
	return r.eachID(noun, q, func([]byte) error { return nil }, func(done, all int) error {
		return r.done(doneDocument(action, uint64(done), uint64(all-done)), "%s: %d of %s", action, done, counted(uint64(all), noun))
	})
}

// eachID sends a request for each id of the arguments, and passes the answer to take. It continues
// after a failure unless the server cannot be asked. Then it calls show, unless the only id has
// failed.
func (r *run) eachID(noun string, q client.Request, take func(document []byte) error, show func(done, all int) error) error {
	ids, err := r.readIDs(r.args)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return client.Errorf(client.Nothing, "no id was given on standard input: polystalk jobs -o name lists some")
	}
	var done, gone int
	var first error
	for _, q.ID = range ids {
		a, err := r.server.Ask(r.ctx, q)
		if err == nil {
			err = take(a.Document)
		}
		if err == nil {
			done++
			continue
		}
		switch code := client.ExitCode(err); {
		case code == client.Nothing:
			gone++
		case code != client.NotDone || r.ctx.Err() != nil:
			if done > 0 {
				return client.Errorf(code, "%d of %s were done, then: %v", done, counted(uint64(len(ids)), noun), err)
			}
			return err
		}
		if len(ids) > 1 {
			r.note("%v", err)
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
		return client.Errorf(client.Nothing, "none of the %s exists: look them up again", counted(uint64(gone), noun))
	}
	return client.Errorf(client.NotDone, "%d of %s were not done: the reasons are above", len(ids)-done, counted(uint64(len(ids)), noun))
}

// counted returns a number with its noun.
func counted(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func jobs(n uint64) string { return counted(n, "job") }

// priDefault is the first priority that is not urgent, so a job that is put by hand does not
// overtake all others.
const priDefault = 1024

func putDocument(id uint64) []byte {
	b, _ := json.Marshal(admin.Put{ID: id}) // a number cannot fail
	return b
}

func (a *App) putVerb() verb {
	var (
		job        admin.LineJob
		skip       uint64
		delay, ttr string
		body       string
		lines      bool
	)
	return verb{
		use: "put TUBE [FILE]", short: "put a job, or one for each line",
		long: `The body is the content of FILE byte for byte; without FILE or with -, of standard input.
Shows the id of the job.

With --lines, many jobs are in flight. A line that the server refuses is reported, and the
others are put. If the server cannot be reached, the command ends, and shows the --skip to
continue with.`,
		examples: "polystalk put mail --body hello\npolystalk put mail file --pri 10 --delay 1h\nprintf 'one\\ntwo\\n' | polystalk put mail --lines",
		flags: func(fs *pflag.FlagSet) {
			a.pathFlag(fs)
			fs.Uint32Var(&job.Pri, "pri", priDefault, "priority: the smallest first; below 1024 is urgent")
			fs.StringVar(&delay, "delay", "0", "time until the job is ready, such as 90s or 12h")
			fs.StringVar(&ttr, "ttr", fmt.Sprint(admin.DefaultTTR), "time to run: how long a worker may take, such as 90s or 12h")
			fs.StringVar(&body, "body", "", "the body itself")
			fs.BoolVar(&lines, "lines", false, "put a job for each line, without the line end")
			fs.Uint64Var(&skip, "skip", 0, "with --lines: skip this number of lines, which were put before")
		},
		do: func(r *run) (err error) {
			if job.Tube, err = r.tubeName(r.args[0]); err != nil {
				return err
			}
			if job.Delay, err = readSeconds("--delay", delay); err != nil {
				return err
			}
			if job.TTR, err = readSeconds("--ttr", ttr); err != nil {
				return err
			}
			var in io.ReadCloser
			switch {
			case r.changed("skip") && !lines:
				return client.Errorf(client.Usage, "put: --skip works with --lines: give both")
			case r.changed("body") && len(r.args) > 1:
				return client.Errorf(client.Usage, "put: FILE and --body exclude each other: give one of them")
			case r.changed("body"):
				in = io.NopCloser(strings.NewReader(body))
			case len(r.args) > 1:
				in, err = r.open(r.args[1], "give the file that holds the body, or the body itself by --body")
			default:
				if r.Screens.In {
					fmt.Fprintln(r.Err, "polystalk: type the body, and end it with Ctrl-D; or give it by --body")
				}
				in, err = r.open("-", "")
			}
			if err != nil {
				return err
			}
			defer in.Close()
			if lines {
				return r.putLines(job, in, skip)
			}
			if job.Body, err = r.readBody(in); err != nil {
				return err
			}
			id, err := client.Put(r.ctx, r.server, &job)
			if err != nil {
				return err
			}
			return r.printer.Show(putDocument(id), client.PutView)
		},
	}
}

// Sizes of bodies in bytes: the size that every server accepts by default, and the largest
// possible one. Source: beanstalkd doc/beanstalkd.ronn, -z.
const (
	smallMax = 65535
	largeMax = 1 << 30
)

// maxBody returns the size of the largest body that the server accepts, in bytes. It is called
// only for bodies above smallMax, because the server caches the figures it returns for a second
// or two.
func (r *run) maxBody() (int64, error) {
	var v struct {
		Max int64 `json:"max_job_size_bytes"`
	}
	_, err := r.read("/server", "", &v)
	if v.Max <= 0 { // a server that reports no limit may accept any size
		v.Max = largeMax
	}
	return v.Max, err
}

// readBody reads a body up to the size that the server accepts.
func (r *run) readBody(in io.Reader) ([]byte, error) {
	most := int64(smallMax)
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	if n := int64(len(b)); n > most && err == nil {
		if most, err = r.maxBody(); err != nil {
			return nil, err
		}
		b, err = io.ReadAll(io.MultiReader(bytes.NewReader(b), io.LimitReader(in, most+1-n)))
	}
	switch {
	case int64(len(b)) > most:
		return nil, tooLarge("body", most)
	case errors.Is(err, context.Canceled):
		return nil, client.Errorf(client.NotDone, "interrupted: nothing was put")
	case err != nil:
		return nil, client.Errorf(client.System, "the body cannot be read: %v", err)
	}
	return b, nil
}

func tooLarge(what string, most int64) error {
	return client.Errorf(client.Usage, "the %s has more than %d bytes, which is what the server takes: send less, or raise its -z", what, most)
}

// putLines puts a job for each line. The ids have the order of the lines.
func (r *run) putLines(j admin.LineJob, in io.Reader, skip uint64) error {
	if c, ok := r.server.(*client.Beanstalk); ok {
		if err := client.CheckName(j.Tube); err != nil {
			return err
		}
		c.Detach() // otherwise an interrupt would hide which jobs were put
	}
	l := r.printer.List(client.PutsView)
	p := putting{run: r, progress: r.progress("put"), done: l.Close, longest: func(body int64) int64 { return body }}
	p.parse = func(text []byte) (admin.LineJob, bool, error) {
		j.Body = bytes.Clone(text)
		return j, false, nil
	}
	p.took = func(results []client.PutResult) error {
		var page admin.PutLines
		for _, put := range results {
			if put.ID != 0 {
				page.Lines = append(page.Lines, admin.PutLine{ID: put.ID})
			}
		}
		document, err := json.Marshal(map[string]any{"jobs": page.Lines})
		if err != nil || len(page.Lines) == 0 {
			return err
		}
		return l.Page(document)
	}
	if err := p.start(in, skip); err != nil {
		return err
	}
	return p.all()
}
