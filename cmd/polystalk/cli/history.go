package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

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
