package top

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// A Source reads samples from one server. It connects when necessary. One goroutine uses it at a
// time.
type Source struct {
	Dial func(context.Context) (client.Server, error)

	server client.Server
	before *reading
	tubes  map[string]tubeReading // by path; only for a server that reports no rates
}

// A wanted describes what to read.
type wanted struct {
	view  *view
	match string // a pattern, or a part of a name; empty: all
	sort  string
	rows  int // number of rows to show, from the first one
}

// A Sample is the result of a read.
type Sample struct {
	of       wanted
	server   admin.Server
	flow     *flow // nil: unknown
	rows     []any // as client.Decode returns them
	matching int   // rows that match, shown or not
	whole    bool  // it comes from the API, so all figures are present
	at       time.Time
	took     time.Duration
}

// A flow holds events per second since the last sample.
type flow struct{ put, reserve, delete, timeout float64 }

// A reading holds the counters of a server. A flow is computed from two readings.
type reading struct {
	at     time.Time
	counts flow
	flow   *flow // since the reading before
}

// A tubeReading holds the counters of a tube.
type tubeReading struct {
	at             time.Time
	total, deleted float64
}

// The most rows that are shown, and the most connections that are read for sorting.
const (
	rowsMax        = 1000
	connectionsMax = 5000
)

// Close closes the connection; the next sample opens another one.
func (s *Source) Close() {
	if s.server != nil {
		s.server.Close()
		s.server = nil
	}
}

// read reads a sample. After an error of the server it closes the connection.
func (s *Source) read(ctx context.Context, w wanted) (*Sample, error) {
	began := time.Now()
	sample := &Sample{of: w}
	err := s.fill(ctx, sample)
	if err != nil && client.ExitCode(err) == client.System {
		s.Close()
	}
	sample.at = time.Now()
	sample.took = sample.at.Sub(began)
	return sample, err
}

func (s *Source) fill(ctx context.Context, sample *Sample) (err error) {
	if s.server == nil {
		if s.server, err = s.Dial(ctx); err != nil {
			return err
		}
	}
	a, err := s.server.Ask(ctx, client.Request{Method: "GET", Path: "/server"})
	if err == nil {
		err = a.Read(&sample.server)
	}
	if err != nil {
		return err
	}
	sample.whole = s.server.HasAPI()
	sample.flow = s.flow(&sample.server)
	if sample.of.view == connections {
		return s.connections(ctx, sample)
	}
	return s.list(ctx, sample)
}

// flow returns the flow since the last reading; nil: unknown. After a restart of the server the
// counters begin at zero. If the server repeats a reading, flow repeats the last flow.
func (s *Source) flow(v *admin.Server) *flow {
	now := &reading{at: v.AsOf, counts: flow{
		float64(v.Events["put"]), float64(v.Events["reserve"]), float64(v.Events["delete"]), float64(v.Events["timeout"]),
	}}
	if v.Events == nil {
		// A job leaves only by a delete.
		there := v.Jobs.Ready + v.Jobs.Delayed + v.Jobs.Reserved + v.Jobs.Buried
		now.counts = flow{put: float64(v.JobsTotal), delete: float64(v.JobsTotal) - float64(there), timeout: float64(v.JobTimeouts)}
	}
	if now.at.IsZero() {
		now.at = time.Now()
	}
	was := s.before
	if was != nil && now.at.Equal(was.at) {
		return was.flow
	}
	s.before = now
	if was == nil {
		return nil
	}
	seconds := now.at.Sub(was.at).Seconds()
	rate := func(now, was float64) float64 { return (now - was) / seconds }
	f := &flow{
		rate(now.counts.put, was.counts.put), rate(now.counts.reserve, was.counts.reserve),
		rate(now.counts.delete, was.counts.delete), rate(now.counts.timeout, was.counts.timeout),
	}
	if min(f.put, f.reserve, f.delete, f.timeout) < 0 || seconds < 0 {
		return nil
	}
	now.flow = f
	return f
}

// glob returns a pattern for the operator's text. A text without special characters matches
// anywhere in a name.
func glob(match string) string {
	if match == "" || strings.ContainsAny(match, `*?[\`) {
		return match
	}
	return "*" + match + "*"
}

// list fills a sample with tubes.
func (s *Source) list(ctx context.Context, sample *Sample) error {
	w := sample.of
	q := client.Request{Path: "/tubes", Query: url.Values{"sort": {w.sort}}, Limit: min(max(w.rows, 1), rowsMax)}
	if w.match != "" {
		q.Query.Set("match", glob(w.match))
	}
	err := s.server.List(ctx, q, func(document []byte) error {
		var part struct {
			Matching int `json:"matching"`
		}
		if err := client.Read(document, &part); err != nil {
			return err
		}
		sample.matching = part.Matching
		return sample.add(document)
	})
	if err == nil && !sample.whole {
		s.rates(sample.rows)
	}
	return err
}

// add adds the rows of a part of a list.
func (sample *Sample) add(document []byte) error {
	part, err := client.Decode(document)
	rows, ok := client.At(part, sample.of.view.name).([]any)
	if err != nil || !ok {
		return client.Read(nil, &rows)
	}
	sample.rows = append(sample.rows, rows...)
	return nil
}

// rates computes the rates that the tubes' server does not report, from counters.
func (s *Source) rates(rows []any) {
	now := time.Now()
	readings := make(map[string]tubeReading, len(rows))
	for _, row := range rows {
		members, ok := row.(map[string]any)
		name, named := client.At(row, "path").(string)
		if !ok || !named {
			continue
		}
		r := tubeReading{now, number(client.At(row, "jobs_total")), number(client.At(row, "deletes_total"))}
		readings[name] = r
		was, known := s.tubes[name]
		if seconds := r.at.Sub(was.at).Seconds(); known && r.total >= was.total && r.deleted >= was.deleted && seconds > 0 {
			members["rates"] = map[string]any{"put_per_second": jsonNumber((r.total - was.total) / seconds), "delete_per_second": jsonNumber((r.deleted - was.deleted) / seconds)}
		}
	}
	s.tubes = readings
}

// connections fills a sample with connections, and sorts them.
func (s *Source) connections(ctx context.Context, sample *Sample) error {
	if !sample.whole {
		return client.Unsupported("list connections")
	}
	pattern := flat(glob(sample.of.match))
	if _, err := path.Match(pattern, ""); err != nil {
		return client.BadPattern(sample.of.match)
	}
	if err := s.server.List(ctx, client.Request{Path: "/connections", Limit: connectionsMax}, sample.add); err != nil {
		return err
	}
	sample.rows = slices.DeleteFunc(sample.rows, func(row any) bool { return pattern != "" && !matches(pattern, row) })
	sample.matching = len(sample.rows)
	by, down := cutDown(sample.of.sort)
	for _, c := range connections.columns {
		if c.sort == by {
			slices.SortStableFunc(sample.rows, func(a, b any) int {
				if down {
					a, b = b, a
				}
				return c.compare(a, b)
			})
		}
	}
	sample.rows = sample.rows[:min(len(sample.rows), rowsMax)]
	return nil
}

// compare compares two rows by a column.
func (c *column) compare(a, b any) int {
	x, y := client.At(a, c.Path), client.At(b, c.Path)
	if c.As == client.Text {
		one, _ := x.(string)
		other, _ := y.(string)
		return strings.Compare(one, other)
	}
	return cmp.Compare(number(x), number(y))
}

// matches reports whether a text column of a connection matches a pattern.
func matches(pattern string, row any) bool {
	for _, c := range connections.columns {
		if c.As != client.Text {
			continue
		}
		if ok, _ := path.Match(pattern, flat(c.Cell(row))); ok {
			return true
		}
	}
	return false
}

// flat replaces slashes, which are special to path.Match.
func flat(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

func jsonNumber(f float64) json.Number {
	b, _ := json.Marshal(f) // it is finite
	return json.Number(b)
}

// number returns a figure of a row. Ids are strings.
func number(v any) float64 {
	var n json.Number
	switch v := v.(type) {
	case json.Number:
		n = v
	case string:
		n = json.Number(v)
	}
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	return f
}
