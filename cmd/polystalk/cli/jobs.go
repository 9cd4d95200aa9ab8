package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
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
	return append(list, a.editVerb())
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
				return r.each(act.name, func(ctx context.Context, id uint64) error {
					_, err := r.server.Ask(ctx, client.Request{Method: act.method, Path: act.path, ID: id, Query: forced(b.force)})
					return err
				})
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
	return r.eachID("job", func(ctx context.Context, id uint64) error {
		a, err := r.server.Ask(ctx, client.Request{Method: act.method, Path: act.path, ID: id, JSON: admin.NewTransfer{To: &to}})
		if err != nil {
			return err
		}
		return l.Page(fmt.Appendf(nil, `{"jobs":[%s]}`, a.Document))
	}, func(int, int) error { return l.Close() })
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

// each calls do for each job of the arguments, and shows the number of successes.
func (r *run) each(action string, do func(context.Context, uint64) error) error {
	return r.eachOf("job", action, do)
}

// eachOf is like each for things other than jobs.
func (r *run) eachOf(noun, action string, do func(context.Context, uint64) error) error {
	return r.eachID(noun, do, func(done, all int) error {
		return r.done(doneDocument(action, uint64(done), uint64(all-done)), "%s: %d of %s", action, done, counted(uint64(all), noun))
	})
}

// eachID calls do for each id of the arguments. It continues after a failure unless the server
// cannot be asked. Then it calls show, unless the only id has failed.
func (r *run) eachID(noun string, do func(context.Context, uint64) error, show func(done, all int) error) error {
	ids, err := r.readIDs(r.args)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return client.Errorf(client.Nothing, "no id was given on standard input: polystalk jobs -o name lists some")
	}
	var done, gone int
	var first error
	for _, id := range ids {
		err := do(r.ctx, id)
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
