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

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/output"
	"polystalk/cmd/polystalk/queue"
	"polystalk/codec/admin"
)

// A Source is one server. It is of one goroutine at a time, and connects when it must.
type Source struct {
	Dial func(context.Context) (queue.Queue, error)

	queue  queue.Queue
	before *reading
	tubes  map[string]tubeReading // of a server that tells no rates
}

// A wanted says what is to be looked at.
type wanted struct {
	view  *view
	match string // a pattern, or a part of what is matched; empty: all
	sort  string
	rows  int // as many as are seen, from the first on
}

// A Sample is what a look has shown.
type Sample struct {
	of       wanted
	server   admin.Server
	flow     *flow // nil: not known yet
	rows     []any // as output.Decode makes them
	matching int   // rows there are, shown or not
	whole    bool  // by the API, so nothing is missing
	at       time.Time
	took     time.Duration
}

// A flow is how often something happens a second, since the look before.
type flow struct{ put, reserve, delete, timeout float64 }

// A reading is what a flow is the difference of.
type reading struct {
	at     time.Time
	counts flow
	was    *flow // of the two readings before
}

// A tubeReading is the same of a tube.
type tubeReading struct {
	at             time.Time
	total, deleted float64
}

// Rows and connections that are shown at most: more than anybody reads, and as many as the
// API gives in one part, or in a few.
const (
	rowsMax        = 1000
	connectionsMax = 5000
)

// a lister is a queue that lists more than any queue does.
type lister interface {
	List(ctx context.Context, path, rows string, query url.Values, limit int, page func([]byte) error) error
}

// Close gives the connection up; the next look makes a new one.
func (s *Source) Close() {
	if s.queue != nil {
		s.queue.Close()
		s.queue = nil
	}
}

// look looks at the server. After an error that is the server's the connection is given up.
func (s *Source) look(ctx context.Context, w wanted) (*Sample, error) {
	began := time.Now()
	sample := &Sample{of: w}
	err := s.fill(ctx, sample)
	if err != nil && fault.Code(err) == fault.System {
		s.Close()
	}
	sample.at = time.Now()
	sample.took = sample.at.Sub(began)
	return sample, err
}

func (s *Source) fill(ctx context.Context, sample *Sample) error {
	if s.queue == nil {
		q, err := s.Dial(ctx)
		if err != nil {
			return err
		}
		s.queue = q
	}
	document, err := s.queue.Server(ctx)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(document, &sample.server); err != nil {
		return unread()
	}
	_, sample.whole = s.queue.(lister)
	sample.flow = s.flow(&sample.server)
	if sample.of.view == connections {
		return s.connections(ctx, sample)
	}
	return s.list(ctx, sample)
}

func unread() error {
	return fault.New(fault.System, "the server's answer cannot be read: use the polystalk of its version")
}

// flow is what has happened since the reading before. A server that was started anew begins
// from zero, and one that tells the same reading again has the same flow.
func (s *Source) flow(v *admin.Server) *flow {
	now := &reading{at: v.AsOf, counts: flow{
		float64(v.Events["put"]), float64(v.Events["reserve"]), float64(v.Events["delete"]), float64(v.Events["timeout"]),
	}}
	if v.Events == nil {
		// A job leaves by being deleted, and in no other way.
		there := v.Jobs.Ready + v.Jobs.Delayed + v.Jobs.Reserved + v.Jobs.Buried
		now.counts = flow{put: float64(v.JobsTotal), delete: float64(v.JobsTotal) - float64(there), timeout: float64(v.JobTimeouts)}
	}
	if now.at.IsZero() {
		now.at = time.Now()
	}
	was := s.before
	if was != nil && now.at.Equal(was.at) {
		return was.was
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
	now.was = f
	return f
}

// glob is a pattern of what somebody has typed: with none of the characters that make one,
// it is to stand anywhere.
func glob(match string) string {
	if match == "" || strings.ContainsAny(match, `*?[\`) {
		return match
	}
	return "*" + match + "*"
}

// list fills a sample with tubes.
func (s *Source) list(ctx context.Context, sample *Sample) error {
	w := sample.of
	q := queue.TubeQuery{Match: glob(w.match), Sort: w.sort, Limit: min(max(w.rows, 1), rowsMax)}
	err := s.queue.Tubes(ctx, q, func(document []byte) error {
		var part struct {
			Matching int `json:"matching"`
		}
		if json.Unmarshal(document, &part) != nil {
			return unread()
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
	part, err := output.Decode(document)
	rows, ok := output.At(part, sample.of.view.rows).([]any)
	if err != nil || !ok {
		return unread()
	}
	sample.rows = append(sample.rows, rows...)
	return nil
}

// rates gives tubes the rates that their server does not tell, from what was counted before.
func (s *Source) rates(rows []any) {
	now := time.Now()
	readings := make(map[string]tubeReading, len(rows))
	for _, row := range rows {
		members, ok := row.(map[string]any)
		name, named := output.At(row, "path").(string)
		if !ok || !named {
			continue
		}
		r := tubeReading{now, number(output.At(row, "jobs_total")), number(output.At(row, "deletes_total"))}
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
	l, ok := s.queue.(lister)
	if !ok {
		return queue.OnlyPolystalk("list connections")
	}
	pattern := flat(glob(sample.of.match))
	if _, err := path.Match(pattern, ""); err != nil {
		return fault.New(fault.Usage, `the pattern %q cannot be read: write \[ for a bracket; *, ? and [a-z] stand for characters`, sample.of.match)
	}
	if err := l.List(ctx, "/connections", "connections", url.Values{}, connectionsMax, sample.add); err != nil {
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
	x, y := output.At(a, c.Path), output.At(b, c.Path)
	if c.As == output.Text {
		one, _ := x.(string)
		other, _ := y.(string)
		return strings.Compare(one, other)
	}
	return cmp.Compare(number(x), number(y))
}

// matches reports whether a text of a connection matches a pattern, as those of the server
// match names.
func matches(pattern string, row any) bool {
	for _, c := range connections.columns {
		if c.As != output.Text {
			continue
		}
		if ok, _ := path.Match(pattern, flat(c.Cell(row))); ok {
			return true
		}
	}
	return false
}

// flat is a text in which a slash is a character like others to path.Match.
func flat(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

func jsonNumber(f float64) json.Number {
	b, _ := json.Marshal(f) // it is no infinity
	return json.Number(b)
}

// number is a figure of a row; ids are texts.
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
