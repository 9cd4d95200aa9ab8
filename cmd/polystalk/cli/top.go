package cli

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalk/top"
)

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
			t, err := r.find(r.ctx)
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
