package http

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/router/trend"
	"polystalk/shard/core"
)

// topicsMost may be in one stream.
const topicsMost = 16

// A topic is something that a stream tells of. It belongs to the stream.
type topic interface {
	// render adds an event if there is something to tell; more is to be told at once.
	render(ctx context.Context, a *API, n *now) (more bool, err error)
}

// now is what is told of, and to whom.
type now struct {
	trend.Snapshot
	stream *EventStream
}

// event adds an event.
func (n *now) event(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	n.stream.Event(n.id(), name, b)
	return nil
}

// topicsOf reads what a stream is to tell of; tubes says whether all of them have to be
// looked at for that.
func (a *API) topicsOf(c *Call) (list []topic, tubes bool, err error) {
	q, err := c.Query("topics", "match", "sort", "limit")
	if err != nil {
		return nil, false, err
	}
	const some = "give some of server, tubes, tube:NAME, operation:ID and journal, with commas between them"
	words := strings.Split(q.Get("topics"), ",")
	if q.Get("topics") == "" {
		return nil, false, wire.BadRequest.With("topics", "there is none", some)
	}
	if len(words) > topicsMost {
		return nil, false, wire.BadRequest.With("topics", fmt.Sprintf("there are %d", len(words)), fmt.Sprintf("give at most %d", topicsMost))
	}
	for i, word := range words {
		if slices.Contains(words[:i], word) {
			return nil, false, wire.BadRequest.With("topics", fmt.Sprintf("%q is there twice", word), "give it once")
		}
		kind, of, named := strings.Cut(word, ":")
		var t topic
		switch {
		case word == wire.EventServer:
			t = serverTopic{}
		case word == wire.EventJournal:
			t = &journalTopic{}
		case word == wire.EventTubes:
			t, err = a.tubesTopic(q)
			tubes = true
		case kind == wire.EventTube && named:
			t, err = a.tubeTopic(of)
			tubes = true
		case kind == wire.EventOperation && named:
			t, err = a.operationTopic(c, of)
		default:
			err = wire.BadRequest.With("topics", fmt.Sprintf("%q is unknown", word), some)
		}
		if err != nil {
			return nil, false, err
		}
		list = append(list, t)
	}
	for _, name := range []string{"match", "sort", "limit"} {
		if q.Has(name) && !slices.Contains(words, wire.EventTubes) {
			return nil, false, wire.BadRequest.With(name, "it is about the topic tubes, which is not there", "leave it out, or add tubes to topics")
		}
	}
	return list, tubes, nil
}

// serverTopic tells how the server is.
type serverTopic struct{}

func (serverTopic) render(_ context.Context, a *API, n *now) (more bool, err error) {
	return false, n.event(wire.EventServer, a.serverValue(n.Server))
}

// journalTopic tells how the journal is, when that has changed.
type journalTopic struct{ last *wire.Journal }

func (t *journalTopic) render(_ context.Context, _ *API, n *now) (more bool, err error) {
	v := admin.JournalOf(n.Server)
	if t.last != nil && *t.last == *v {
		return false, nil
	}
	t.last = v
	return false, n.event(wire.EventJournal, v)
}

// tubesTopic tells what changes in a list of tubes.
type tubesTopic struct{ look *trend.Look }

func (a *API) tubesTopic(q url.Values) (topic, error) {
	l, err := tubeListOf(q)
	if err != nil {
		return nil, err
	}
	return &tubesTopic{a.watch.Look(trend.View{
		Key:   fmt.Sprintf("%q %s %d", q.Get("match"), l.by, l.limit),
		Match: l.match.matches, Compare: l.order.compare, Limit: l.limit,
	})}, nil
}

func (t *tubesTopic) render(ctx context.Context, a *API, n *now) (more bool, err error) {
	change, ok := t.look.Next(n.Tubes)
	if !ok {
		return false, nil
	}
	v := wire.TubesEvent{Whole: change.Whole, Gone: []string{}, Matching: change.Matching, AsOf: n.Tubes.At.UTC()}
	for _, name := range change.Gone {
		v.Gone = append(v.Gone, wire.ShownName(name))
	}
	if v.Tubes, err = a.tubeValues(ctx, n.Tubes, change.Rows); err != nil {
		return false, err
	}
	return change.More, n.event(wire.EventTubes, v)
}

// tubeFlowsAtOnce are how many tubes' histograms are in memory at a time.
const tubeFlowsAtOnce = 64

// tubeValues are some rows of a sample as they stand in answers.
func (a *API) tubeValues(ctx context.Context, v *admin.TubeSample, rows []int) ([]wire.Tube, error) {
	list := make([]wire.Tube, 0, len(rows))
	flows := make([]core.Flow, min(tubeFlowsAtOnce, len(rows)))
	for part := range slices.Chunk(rows, tubeFlowsAtOnce) {
		if err := a.op.Flows(ctx, v, part, flows); err != nil {
			return nil, err
		}
		for k, i := range part {
			list = append(list, tubeValue(&admin.TubeView{TubeRow: v.Rows[i], Rates: v.Rates[i], Flow: flows[k]}))
		}
	}
	return list, nil
}

// tubeTopic tells what changes in one tube, and when it comes and goes.
type tubeTopic struct {
	name string
	look *trend.Look
}

// tubeTopic is that of a tube whose name is given as it stands in paths: with a comma in it,
// it could not be told from the next topic otherwise.
func (a *API) tubeTopic(path string) (topic, error) {
	name, err := url.PathUnescape(path)
	if err != nil || name == "" {
		return nil, wire.BadRequest.With("topics", fmt.Sprintf("%q is no name of a tube", path), "give the name as it stands in a path, percent-encoded, and then that as a parameter")
	}
	return &tubeTopic{name, a.watch.Look(trend.View{
		Key: "=" + name, Limit: 1,
		Match:   func(n string) bool { return n == name },
		Compare: func(a, b *core.TubeRow) int { return cmp.Compare(a.ID, b.ID) },
	})}, nil
}

func (t *tubeTopic) render(ctx context.Context, a *API, n *now) (more bool, err error) {
	change, ok := t.look.Next(n.Tubes)
	if !ok {
		return false, nil
	}
	v := wire.TubeEvent{Name: wire.ShownName(t.name), Path: wire.PathName(t.name), AsOf: n.Tubes.At.UTC()}
	values, err := a.tubeValues(ctx, n.Tubes, change.Rows)
	if err != nil {
		return false, err
	}
	if len(values) > 0 {
		v.Tube = &values[0]
	}
	return false, n.event(wire.EventTube, v)
}

// operationTopic tells how far an operation is, until it is over.
type operationTopic struct {
	op   *admin.Operation
	c    *Call  // of who asks
	last []byte // what was told, in JSON
}

func (a *API) operationTopic(c *Call, id string) (topic, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return nil, wire.BadRequest.With("topics", fmt.Sprintf("%q is no id of an operation", id), "give a whole number from 1 on")
	}
	op := a.operations.Find(n)
	if op == nil {
		return nil, wire.NotFound.With("topics", fmt.Sprintf("no operation %d is remembered", n), "look it up again")
	}
	return &operationTopic{op: op, c: c}, nil
}

func (t *operationTopic) render(_ context.Context, a *API, n *now) (more bool, err error) {
	b, err := json.Marshal(a.operationValue(t.op, t.c))
	if err != nil || bytes.Equal(b, t.last) {
		return false, err
	}
	t.last = b
	n.stream.Event(n.id(), wire.EventOperation, b)
	return false, nil
}
