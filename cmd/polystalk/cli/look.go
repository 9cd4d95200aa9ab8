package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalk/top"
	"polystalk/codec/admin"
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
			use: "tubes [GLOB]", short: "list tubes", aliases: []string{"ls", "list-tubes"},
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
				l, err := r.list(q, client.TubesView)
				switch {
				case err == nil && l.N == 0 && glob == "":
					err = client.Errorf(client.Nothing, "there is no tube that you may look at: polystalk access whoami shows your rights")
				case err == nil && l.N == 0:
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
				fs.StringVar(&body, "body", "preview", "show `PART` of each body: none, preview (256 bytes) or full")
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
				l, err := r.list(q, client.JobsView)
				switch {
				case err != nil:
					return err
				case !r.server.HasAPI():
					r.note("beanstalkd's protocol shows the first job of each state, and no reserved ones; polystalkd's --http shows all")
				case l.More && q.Limit != 0:
					r.note("there are more: --all shows all of them, --limit N the first N")
				case l.N == 0:
					return client.Errorf(client.Nothing, "there are no such jobs: polystalk tube shows how many jobs there are in each state")
				}
				return nil
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
				return r.writeBody(b.Bytes(), false)
			},
		},
		a.tailVerb(),
		a.historyVerb(),
		a.checkVerb(),
	}
	for i := range list {
		list[i].reads = true
	}
	return list
}

// seriesDefault shows a backlog, its causes, and the waiting time of jobs.
const seriesDefault = "ready,delayed,reserved,buried,put_per_second,delete_per_second,wait_p99_seconds"

func (a *App) historyVerb() verb {
	var series, last, step string
	return verb{
		use: "history [TUBE]", short: "show the history of figures of the server, or of a tube", cannot: "report the history of figures",
		examples: "polystalk history mail --last 1h --step 1m",
		flags: func(fs *pflag.FlagSet) {
			a.pathFlag(fs)
			fs.StringVar(&series, "series", seriesDefault, "the figures, by their names in the guide of the API")
			fs.StringVar(&last, "last", "10m", "from this long ago until now, such as 1h or 1d")
			fs.StringVar(&step, "step", "", "time between lines, such as 5s, 1m or 1h; default: the shortest possible")
		},
		do: func(r *run) error {
			query := url.Values{"series": {series}}
			if len(r.args) > 0 {
				name, err := r.tubeName(r.args[0])
				if err != nil {
					return err
				}
				query.Set("tube", name)
			}
			back, err := readSeconds("--last", last)
			if err != nil {
				return err
			}
			query.Set("from", strconv.FormatInt(time.Now().Unix()-int64(back), 10))
			if step != "" {
				seconds, err := readSeconds("--step", step)
				if err != nil {
					return err
				}
				query.Set("step", strconv.FormatUint(uint64(seconds), 10))
			}
			a, err := r.server.Ask(r.ctx, client.Request{Method: "GET", Path: "/history", Query: query})
			if err != nil {
				return err
			}
			if r.printer.Format == "json" {
				return r.printer.Show(a.Document, client.View{})
			}
			rows, view, err := points(a, strings.Split(series, ","), r.printer.IsTable())
			if err != nil {
				return err
			}
			return r.printer.Show(rows, view)
		},
	}
}

// points returns a history as a list with a row for each time. If known is set, the list begins
// at the first row with a figure: rows before the server's start have none.
func points(a client.Answer, series []string, known bool) ([]byte, client.View, error) {
	view := client.View{Rows: "points", Name: "time", Columns: []client.Column{{Head: "TIME", Path: "time", As: client.Moment}}}
	var h admin.History
	if err := a.Read(&h); err != nil {
		return nil, view, err
	}
	if h.StepSeconds <= 0 {
		return nil, view, client.Read(nil, &h)
	}
	n := 0
	for _, name := range series {
		c := client.Column{Head: strings.ToUpper(strings.ReplaceAll(name, "_", "-")), Path: name, As: client.KindOf(name)}
		switch c.As {
		case client.Rate:
			c.Head = strings.TrimSuffix(c.Head, "-PER-SECOND") + "/S"
		case client.Age:
			c.Head = strings.TrimSuffix(c.Head, "-SECONDS")
		case client.Text:
			c.As = client.Number
		}
		view.Columns = append(view.Columns, c)
		n = max(n, len(h.Series[name]))
	}
	rows := make([]map[string]any, n)
	for i := range rows {
		rows[i] = map[string]any{"time": h.From.Add(time.Duration(int64(i)*h.StepSeconds) * time.Second).Format(time.RFC3339)}
		for _, name := range series {
			// JSON has no number for an unknown figure, so the row lacks the member.
			if p := h.Series[name]; i < len(p) && !math.IsNaN(float64(p[i])) {
				rows[i][name] = p[i]
			}
		}
	}
	for known && len(rows) > 1 && len(rows[0]) == 1 {
		rows = rows[1:]
	}
	b, err := json.Marshal(map[string]any{"points": rows})
	if err != nil {
		err = fmt.Errorf("the history: %w", err)
	}
	return b, view, err
}

// topTimeout is how long top waits for an answer without --timeout.
const topTimeout = 3 * time.Second

func (a *App) topVerb() verb {
	var (
		o           top.Options
		delay       string
		once, batch bool
	)
	return verb{
		use: "top [GLOB]", short: "watch tubes or connections, and the load",
		long: `Shows the server, and its tubes or connections, every few seconds. On a terminal, ? shows
the keys. Elsewhere, and with --batch, it writes a table as text each time. GLOB shows only
what matches: a pattern, or a part of a name.`,
		examples: `polystalk top
polystalk top --sort -oldest mail
polystalk top --conns --sort -for
polystalk top --once | head -15`,
		flags: func(fs *pflag.FlagSet) {
			fs.BoolVarP(&o.Connections, "conns", "c", false, "show connections, not tubes")
			fs.StringVar(&o.Sort, "sort", "", "as in polystalk tubes, or with --conns by a column such as -holds or -for; default: -ready, or -holds")
			fs.IntVar(&o.Limit, "limit", jobsLimit, "rows of the text, up to 1000")
			fs.StringVarP(&delay, "delay", "d", "2", "seconds between updates")
			fs.IntVarP(&o.Count, "count", "n", 0, "end after this number of updates; 0: never")
			fs.BoolVar(&once, "once", false, "write one table as text, even to a terminal")
			fs.BoolVarP(&batch, "batch", "b", false, "write text, even to a terminal")
		},
		local: func(r *run) (err error) {
			if r.printer.Format != "table" {
				return client.Errorf(client.Usage, "top: it shows tables only: polystalk tubes and polystalk conns have -o %s", r.printer.Format)
			}
			if len(r.args) > 0 {
				o.Match = r.args[0]
			}
			if o.Every, err = readTime("--delay", delay); err != nil {
				return err
			}
			if once {
				o.Count = 1
			}
			if !r.changed("timeout") {
				r.timeout = topTimeout
			}
			t, err := r.find(r.ctx, client.Places)
			if err != nil {
				return err
			}
			o.Server = t.Name
			s := &top.Source{Dial: func(ctx context.Context) (client.Server, error) { return r.dial(ctx, t) }}
			if r.Screens.In && r.Screens.Out && !once && !batch && r.Getenv("TERM") != "dumb" {
				return top.Screen(r.ctx, s, o, r.In, r.Out)
			}
			return top.Plain(r.ctx, s, o, r.out, r.out.Flush, func(err error) { r.note("%v", err) })
		},
	}
}
