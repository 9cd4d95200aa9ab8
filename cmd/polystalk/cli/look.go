package cli

import (
	"bytes"
	"net/url"

	"github.com/spf13/pflag"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalk/client"
)

// jobsLimit is the default number of jobs that the verb jobs shows.
const jobsLimit = 100

// lookVerbs returns the verbs that change nothing.
func (a *App) lookVerbs() []verb {
	var (
		sort, order, body string
		limit             int
		picked            selection
		all               bool
		raw               bool
	)
	list := []verb{
		{
			use: "stats", short: "show the server's jobs, tubes and connections",
			examples: "polystalk stats -o wide\npolystalk stats --server beanstalk://10.0.0.5:11300",
			path:     "/server", view: client.ServerView,
		},
		a.topVerb(),
		{
			use: "tubes [GLOB]", short: "list tubes",
			long:     "Lists all tubes, or those that match GLOB: * stands for any characters, ? for one, and [a-z]\nfor one of these.",
			examples: "polystalk tubes 'mail*' --sort -ready --limit 10\npolystalk tubes --jq '.tubes[] | select(.jobs.buried > 0) | .name'",
			flags: func(fs *pflag.FlagSet) {
				fs.StringVar(&sort, "sort", "", "name, ready, urgent, delayed, reserved, buried, total, using, watching, waiting, bytes or oldest; with - in front, the largest first")
				fs.IntVar(&limit, "limit", 0, "show at most this number; 0: all")
			},
			do: func(r *run) error {
				q := client.Request{Path: "/tubes", Query: url.Values{"sort": {sort}}, Limit: limit}
				if sort == "" {
					q.Query.Del("sort")
				}
				glob := ""
				if len(r.args) > 0 && r.args[0] != "" {
					glob = r.args[0]
					q.Query.Set("match", glob)
				}
				n, err := r.list(q, client.TubesView)
				if err == nil && n == 0 {
					err = client.Errorf(client.Nothing, "no tube matches %q: polystalk tubes lists all", glob)
				}
				return err
			},
		},
		{
			use: "tube TUBE", short: "show one tube", long: "Write -- before a name that begins with a hyphen.",
			examples: "polystalk tube mail\npolystalk tube -- -x\npolystalk tube --path a%20b",
			flags:    a.pathFlag, path: "/tubes/{tube}", view: client.TubeView,
		},
		{
			use: "jobs TUBE", short: "list jobs of a tube, without side effects",
			long: `With --all-tubes, lists the jobs of all tubes. A job is shown once, even while other jobs
come and go. beanstalkd's protocol shows the first job of each state.

  --order scan     in any order; the only order for several states, and with filters
  --order next     in the order in which workers get them (ready), in which they become
                   ready (delayed), or in which kick takes them (buried)
  --order oldest   by the time at which they entered the one --state; newest: reversed`,
			examples: "polystalk jobs mail --state buried\npolystalk jobs mail --contains user-17 --older 1h -o wide",
			flags: func(fs *pflag.FlagSet) {
				a.pathFlag(fs)
				picked.flags(fs, jobsLimit)
				fs.BoolVar(&all, "all", false, "show all jobs; overrides --limit")
				fs.StringVar(&order, "order", "", "scan, next, oldest or newest; default: scan, by beanstalkd's protocol next")
				fs.StringVar(&body, "body", "preview", "none, preview (256 bytes) or full")
			},
			do: func(r *run) error {
				q, err := picked.list(r, body)
				if err != nil {
					return err
				}
				if order != "" {
					q.Query.Set("order", order)
				}
				if all {
					q.Limit = 0
				}
				return r.listJobs(q)
			},
		},
		{use: "job ID", short: "show one job without its body", path: "/jobs/{id}", view: client.JobView},
		{
			use: "body ID", short: "write the body of a job to standard output",
			long: `Writes the exact bytes of the body. A terminal gets only text, unless
--raw is given: other bytes could change its settings.`,
			examples: "polystalk body 17 > file",
			flags:    func(fs *pflag.FlagSet) { fs.BoolVar(&raw, "raw", false, "write any bytes to a terminal") },
			do: func(r *run) error {
				id, err := readID(r.args[0])
				if err != nil {
					return err
				}
				// The body bypasses a.out, which would escape it.
				if !r.Screens.Out || raw {
					return r.server.Body(r.ctx, id, r.Out)
				}
				var b bytes.Buffer
				if err := r.server.Body(r.ctx, id, &b); err != nil {
					return err
				}
				if !program.IsText(b.Bytes()) {
					return client.Errorf(client.Usage, "the body is not text: give --raw to write it to the terminal anyway, or > FILE")
				}
				_, err = b.WriteTo(r.Out)
				return err
			},
		},
		a.historyVerb(),
		a.checkVerb(),
	}
	for i := range list {
		list[i].reads = true
	}
	return list
}

// listJobs shows a list of jobs.
func (r *run) listJobs(q client.Request) error {
	l := r.printer.List(client.JobsView)
	var last struct {
		Next string `json:"next"`
	}
	err := r.server.List(r.ctx, q, func(document []byte) error {
		last.Next = ""
		if err := client.Read(document, &last); err != nil {
			return err
		}
		if err := l.Page(document); err != nil {
			return err
		}
		return r.out.Flush() // the next part may take long
	})
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	switch {
	case !r.server.HasAPI():
		r.note("beanstalkd's protocol shows the first job of each state, and no reserved ones; polystalkd's --http shows all")
	case last.Next != "" && q.Limit != 0:
		r.note("there are more: --all shows all of them, --limit N the first N")
	case l.N == 0:
		return client.Errorf(client.Nothing, "there are no such jobs: polystalk tube shows how many jobs there are in each state")
	}
	return nil
}
