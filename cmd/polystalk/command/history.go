package command

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/output"
	"polystalk/cmd/polystalk/views"
	"polystalk/codec/admin"
)

// seriesDefault are what history shows unasked: a backlog, what fills and empties it, and how
// long jobs wait.
const seriesDefault = "ready,delayed,reserved,buried,put_per_second,delete_per_second,wait_p99_seconds"

func (a *App) historyCommand() *cobra.Command {
	var (
		names              tubeName
		series, last, step string
	)
	c := &cobra.Command{
		Use: "history [TUBE]", Short: "show how figures of the server, or of a tube, have developed", Args: arguments("[TUBE]"),
		RunE: a.onPolystalk("tell how figures have developed", func(cmd *cobra.Command, c *api.Client, args []string) error {
			query := url.Values{"series": {series}}
			if len(args) > 0 {
				name, err := names.read(args[0])
				if err != nil {
					return err
				}
				query.Set("tube", name)
			}
			back, err := readSpan("--last", last)
			if err != nil {
				return err
			}
			query.Set("from", strconv.FormatInt(time.Now().Unix()-int64(back), 10))
			if step != "" {
				seconds, err := readSpan("--step", step)
				if err != nil {
					return err
				}
				query.Set("step", strconv.FormatUint(uint64(seconds), 10))
			}
			document, err := c.Get(cmd.Context(), "/history", query)
			if err != nil {
				return err
			}
			if f := a.printer.Format; f == "json" {
				return a.printer.Show(document, output.View{})
			}
			// Who reads a table does not want hundreds of hyphens of before the server was started.
			known := a.printer.Format == "table" || a.printer.Format == "wide"
			rows, view, err := points(document, strings.Split(series, ","), known)
			if err != nil {
				return err
			}
			return a.printer.Show(rows, view)
		}),
	}
	names.flags(c.Flags())
	c.Flags().StringVar(&series, "series", seriesDefault, "which figures, as the guide of the API has them")
	c.Flags().StringVar(&last, "last", "10m", "from so long ago until now, such as 1h or 1d")
	c.Flags().StringVar(&step, "step", "", "one line for so long, such as 5s, 1m or 1h; default: the shortest that goes")
	return c
}

// points are a history as a list with a row for each time; known: from the first of which
// anything is known.
func points(document []byte, series []string, known bool) ([]byte, output.View, error) {
	view := output.View{Rows: "points", Name: "time", Columns: []output.Column{views.Column("TIME", "time", output.Moment)}}
	var h admin.History
	if err := json.Unmarshal(document, &h); err != nil || h.StepSeconds <= 0 {
		return nil, view, fault.New(fault.System, "the server's answer cannot be read: use the polystalk of its version")
	}
	n := 0
	for _, name := range series {
		as, head := output.Number, strings.ToUpper(strings.ReplaceAll(name, "_", "-"))
		switch short, rate := strings.CutSuffix(head, "-PER-SECOND"); {
		case rate:
			as, head = output.Rate, short+"/S"
		case strings.HasSuffix(name, "_seconds"):
			as, head = output.Age, strings.TrimSuffix(head, "-SECONDS")
		case strings.HasSuffix(name, "_bytes"):
			as = output.Bytes
		}
		view.Columns = append(view.Columns, views.Column(head, name, as))
		n = max(n, len(h.Series[name]))
	}
	rows := make([]map[string]any, n)
	for i := range rows {
		rows[i] = map[string]any{"time": h.From.Add(time.Duration(int64(i)*h.StepSeconds) * time.Second).Format(time.RFC3339)}
		for _, name := range series {
			// JSON has no number for what is not known.
			if p := h.Series[name]; i < len(p) && !math.IsNaN(float64(p[i])) {
				rows[i][name] = p[i]
			}
		}
	}
	if known {
		for len(rows) > 1 && len(rows[0]) == 1 {
			rows = rows[1:]
		}
	}
	b, err := json.Marshal(map[string]any{"points": rows})
	if err != nil {
		return nil, view, fmt.Errorf("the history: %w", err)
	}
	return b, view, nil
}
