package http

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/trend"
)

const (
	// historyDefault is how far back history is shown by default, in seconds.
	historyDefault = trend.FineFor
	// stepMost is the longest step, in seconds.
	stepMost = 366 * 24 * 3600
	// momentMost is the largest time in a parameter, as Unix time: in the year 6325, so that
	// the years in answers have four digits.
	momentMost = 1 << 37
)

// getHistory shows the history of the server, or of one tube.
func (a *API) getHistory(c *call) error {
	q, h := &c.Query, a.watch.History()
	if h.Most() == 0 {
		return wire.NotFound.With("", "no history is kept", "start the server with --http-history-tubes and a number of tubes")
	}
	layout, name := trend.ServerLayout, q.Get("tube")
	var tube *string // nil: the server
	if q.Has("tube") {
		layout, tube = trend.TubeLayout, &name
	}
	names, places, err := seriesOf(q, layout)
	if err != nil {
		return err
	}
	span, err := spanOf(q, time.Now())
	if err != nil {
		return err
	}
	if tube == nil && c.By.Level() < access.ReadLevel {
		return a.refuse(c, 0, "", readServer.String())
	}
	points, ok := h.Points(tube, places, span)
	ok = ok && (tube == nil || c.mayLook(name))
	if !ok && tube != nil {
		return wire.NotFound.With("tube", fmt.Sprintf("there is no history of a tube \"%s\"", wire.ShownName(name)),
			fmt.Sprintf("only the %d busiest tubes have a history, and /api/v1/history lists them; --http-history-tubes sets their number", h.Most()))
	}
	out := wire.History{
		Tube: wire.ShownName(name), From: time.Unix(span.From, 0).UTC(), To: time.Unix(span.To, 0).UTC(), StepSeconds: span.Step,
		Series: make(map[string]wire.Points),
	}
	if tube == nil {
		for _, name := range h.Kept() {
			if !c.mayLook(name) {
				continue
			}
			out.Tubes = append(out.Tubes, wire.ShownName(name))
		}
	}
	for i, p := range points {
		out.Series[names[i]] = p
	}
	return c.answer(http.StatusOK, out)
}

// seriesOf reads the parameter series. It returns names, and their indexes in the layout.
func seriesOf(q *query, l *trend.Layout) (names []string, places []int, err error) {
	all := l.Series()
	if names = all; q.Has("series") {
		names = strings.Split(q.Get("series"), ",")
	}
	if len(names) > len(all) {
		return nil, nil, wire.BadRequest.With("series", "a series is given more than once", "give each once")
	}
	for _, name := range names {
		i := slices.Index(all, name)
		if i < 0 {
			return nil, nil, wire.BadRequest.With("series", fmt.Sprintf("%q is unknown", name), "give some of "+strings.Join(all, ", ")+", separated by commas")
		}
		places = append(places, i)
	}
	return names, places, nil
}

// spanOf reads from, to and step. By default, to is now, and from is an hour before to.
func spanOf(q *query, now time.Time) (s trend.Span, err error) {
	to := q.moment("to", now.Unix())
	from := q.moment("from", max(0, to-historyDefault))
	step := q.number("step", 0, trend.FineStep, stepMost)
	if q.err != nil {
		return s, q.err
	}
	if from > to {
		return s, wire.BadRequest.With("from", "it is later than to", "give a time before to, which is now by default")
	}
	if step != 0 && !trend.ValidStep(int64(step)) {
		return s, wire.BadRequest.With("step", fmt.Sprintf("%d seconds is not a possible step", step), "give 5, 10, 15, 20 or 30, or a multiple of 60")
	}
	if s = trend.SpanOf(from, to, int64(step), now.Unix()); s.Points() > trend.PointsMost {
		return s, wire.BadRequest.With("step", fmt.Sprintf("the answer would have %d points", s.Points()), fmt.Sprintf("give a larger step, or omit it: the limit is %d points", trend.PointsMost))
	}
	return s, nil
}

// moment reads a time, as Unix time.
func (q *query) moment(name string, without int64) int64 {
	if !q.Has(name) {
		return without
	}
	text := q.Get(name)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		var t time.Time
		t, err = time.Parse(time.RFC3339, text)
		n = t.Unix()
	}
	if err != nil || n < 0 || n > momentMost {
		q.refuse(name, fmt.Sprintf("%q is not a time", text), "give seconds since 1970, or a time such as 2026-01-02T15:04:05Z")
	}
	return n
}
