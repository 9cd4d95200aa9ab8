package http

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/router/trend"
	"polystalk/shard/core"
)

const (
	streamsMax = 64 // open streams
	topicsMost = 16 // topics of a stream
	// eventsRetry is the delay before a client reconnects a lost stream, and commentEvery the
	// interval of keep-alive comments.
	eventsRetry  = 3 * time.Second
	commentEvery = 15 * time.Second
	// renderWithin is the timeout for rendering events, which waits for other operations.
	renderWithin = 10 * time.Second
)

// getEvents streams the events of some topics. Nothing is queued for a slow client: it gets the
// newest state. Last-Event-ID is ignored, since each stream begins with the full state.
func (a *API) getEvents(c *call) error {
	topics, tubes, err := a.topicsOf(c)
	if err != nil {
		return err
	}
	if c.R.Method == http.MethodHead {
		c.eventStream(eventsRetry)
		return nil
	}
	select {
	case a.streams <- struct{}{}:
		defer func() { <-a.streams }()
	default:
		return wire.Busy.With("", fmt.Sprintf("all %d event streams are in use", streamsMax),
			"close one, such as a page of the console, or poll")
	}
	stream := c.eventStream(eventsRetry)
	defer stream.close()
	comment := time.Now().Add(commentEvery)
	if stream.send() != nil { // at once, so that the client sees that the stream is open
		return nil
	}
	for a.mayStill(c) {
		for left := topics; len(left) > 0; {
			if left, err = a.render(c.Ctx, left, tubes, stream); err != nil {
				return nil // an event is missing: the client must reconnect
			}
			if stream.send() != nil {
				return nil
			}
		}
		if now := time.Now(); !now.Before(comment) {
			stream.comment()
			comment = now.Add(commentEvery)
		}
		select {
		case <-time.After(trend.UntilNext(time.Now())):
		case <-c.Ctx.Done():
			return nil
		}
	}
	return nil
}

// render adds the events of the newest samples to the stream; tubes says whether the topics need
// tubes. It returns the topics that have more events right now. If the server is only too busy for
// a sample, there are no events. After an error the caller must not send what was added.
func (a *API) render(ctx context.Context, topics []topic, tubes bool, stream *eventStream) (left []topic, err error) {
	a.rendering.Lock()
	defer a.rendering.Unlock()
	ctx, cancel := context.WithTimeout(ctx, renderWithin)
	defer cancel()
	u := &update{stream: stream}
	if u.Server, err = a.op.Sample(ctx, trend.Every/2); err != nil {
		return nil, a.op.Confirm(ctx)
	}
	if tubes {
		if u.Tubes, err = a.op.Tubes(ctx, admin.TubesFor-trend.Every/2); err != nil {
			return nil, a.op.Confirm(ctx)
		}
	}
	for _, t := range topics {
		more, err := t(ctx, u)
		if err != nil {
			return nil, err
		}
		if more {
			left = append(left, t)
		}
	}
	return left, a.op.Confirm(ctx) // another server may lead since the samples
}

// A topic adds an event to the stream if something has changed. It returns true if there is more
// to send right now.
type topic func(ctx context.Context, u *update) (more bool, err error)

// An update has samples, and the stream that gets their events.
type update struct {
	Server *admin.Sample
	Tubes  *admin.TubeSample // nil: no topic needs tubes
	stream *eventStream
}

// event adds an event; its id is the number of the sample.
func (u *update) event(name string, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		u.stream.event(strconv.FormatUint(u.Server.Number, 10), name, b)
	}
	return err
}

// topicsOf reads the topics of a stream; tubes reports whether they need samples of tubes.
func (a *API) topicsOf(c *call) (list []topic, tubes bool, err error) {
	q := &c.Query
	const some = "give some of server, tubes, tube:NAME, operation:ID and journal, separated by commas"
	words := strings.Split(q.Get("topics"), ",")
	if q.Get("topics") == "" {
		return nil, false, wire.BadRequest.With("topics", "there are no topics", some)
	}
	if len(words) > topicsMost {
		return nil, false, wire.BadRequest.With("topics", fmt.Sprintf("there are %d topics", len(words)), fmt.Sprintf("give at most %d", topicsMost))
	}
	for i, word := range words {
		if slices.Contains(words[:i], word) {
			return nil, false, wire.BadRequest.With("topics", fmt.Sprintf("%q is given twice", word), "give it once")
		}
		kind, of, named := strings.Cut(word, ":")
		var t topic
		switch {
		case word == wire.EventServer:
			t, err = a.serverTopic(c)
		case word == wire.EventJournal:
			t, err = a.journalTopic(c)
		case word == wire.EventTubes:
			t, err = a.tubesTopic(c)
			tubes = true
		case kind == wire.EventTube && named:
			t, err = a.tubeTopic(c, of)
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
			return nil, false, wire.BadRequest.With(name, "it needs the topic tubes", "omit it, or add tubes to topics")
		}
	}
	return list, tubes, nil
}

// errShrunk ends a stream with a topic that the client may not see any more.
var errShrunk = errors.New("the client has lost a right")

// ofServer makes a topic that needs the level read of the server.
func (a *API) ofServer(c *call, t topic) (topic, error) {
	if c.By.Level() < access.ReadLevel {
		return nil, a.refuse(c, 0, "", readServer.String())
	}
	return func(ctx context.Context, u *update) (more bool, err error) {
		if c.By.Level() < access.ReadLevel {
			return false, errShrunk
		}
		return t(ctx, u)
	}, nil
}

// serverTopic shows the server in each new sample.
func (a *API) serverTopic(c *call) (topic, error) {
	var last *admin.Sample
	return a.ofServer(c, func(_ context.Context, u *update) (more bool, err error) {
		if u.Server == last {
			return false, nil
		}
		last = u.Server
		return false, u.event(wire.EventServer, a.serverValue(u.Server))
	})
}

// journalTopic shows the journal when it has changed.
func (a *API) journalTopic(c *call) (topic, error) {
	var last *wire.Journal
	return a.ofServer(c, func(_ context.Context, u *update) (more bool, err error) {
		v := admin.JournalOf(u.Server)
		if last != nil && *last == *v {
			return false, nil
		}
		last = v
		return false, u.event(wire.EventJournal, v)
	})
}

// tubesTopic shows the changes in a list of tubes.
func (a *API) tubesTopic(c *call) (topic, error) {
	q := &c.Query
	l, err := tubeListOf(q)
	if err != nil {
		return nil, err
	}
	look := a.watch.Look(trend.View{
		Key:   fmt.Sprintf("%s %q %s %d", c.By.Name(), q.Get("match"), l.by, l.limit), // each identity sees other tubes
		Match: func(n string) bool { return l.match(n) && c.mayLook(n) }, Compare: l.order.compare, Limit: l.limit,
	})
	return func(ctx context.Context, u *update) (more bool, err error) {
		change, ok := look.Next(u.Tubes)
		if !ok {
			return false, nil
		}
		v := wire.TubesEvent{Whole: change.Whole, Gone: []string{}, Matching: change.Matching, AsOf: u.Tubes.At.UTC()}
		for _, name := range change.Gone {
			v.Gone = append(v.Gone, wire.ShownName(name))
		}
		if v.Tubes, err = a.tubeValues(ctx, u.Tubes, change.Rows); err != nil {
			return false, err
		}
		return change.More, u.event(wire.EventTubes, v)
	}, nil
}

// tubeValues returns rows of a sample in the form of the API.
func (a *API) tubeValues(ctx context.Context, v *admin.TubeSample, rows []int) ([]wire.Tube, error) {
	list := make([]wire.Tube, 0, len(rows))
	flows := make([]core.Flow, min(flowsAtOnce, len(rows)))
	for part := range slices.Chunk(rows, flowsAtOnce) {
		if err := a.op.Flows(ctx, v, part, flows); err != nil {
			return nil, err
		}
		for k, i := range part {
			t := admin.TubeView{TubeRow: v.Rows[i], Rates: v.Rates[i], Flow: flows[k]}
			list = append(list, t.Value())
		}
	}
	return list, nil
}

// tubeTopic shows the changes of one tube, which may come and go. The name is as in paths: a comma
// in it would begin the next topic.
func (a *API) tubeTopic(c *call, path string) (topic, error) {
	name, err := url.PathUnescape(path)
	if err != nil || name == "" {
		return nil, wire.BadRequest.With("topics", fmt.Sprintf("%q is not the name of a tube", path), "give the name as in a path, percent-encoded, and then percent-encode the parameter")
	}
	look := a.watch.Look(trend.View{
		Key: c.By.Name() + "=" + name, Limit: 1,
		Match:   func(n string) bool { return n == name && c.mayLook(n) },
		Compare: func(a, b *core.TubeRow) int { return cmp.Compare(a.ID, b.ID) },
	})
	return func(ctx context.Context, u *update) (more bool, err error) {
		change, ok := look.Next(u.Tubes)
		if !ok {
			return false, nil
		}
		v := wire.TubeEvent{Name: wire.ShownName(name), Path: wire.PathName(name), AsOf: u.Tubes.At.UTC()}
		values, err := a.tubeValues(ctx, u.Tubes, change.Rows)
		if err != nil {
			return false, err
		}
		if len(values) > 0 {
			v.Tube = &values[0]
		}
		return false, u.event(wire.EventTube, v)
	}, nil
}

// operationTopic shows the progress of an operation to the client of c.
func (a *API) operationTopic(c *call, id string) (topic, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return nil, wire.BadRequest.With("topics", fmt.Sprintf("%q is not the id of an operation", id), "give a whole number from 1 on")
	}
	op := a.operations.Find(n)
	if op == nil || !c.seesOperation(op) {
		return nil, wire.NotFound.With("topics", fmt.Sprintf("there is no operation %d, or it is too old", n), "GET /api/v1/operations lists them")
	}
	var last []byte
	return func(_ context.Context, u *update) (more bool, err error) {
		if !c.seesOperation(op) {
			return false, errShrunk
		}
		b, err := json.Marshal(a.operationValue(op, c))
		if err != nil || bytes.Equal(b, last) {
			return false, err
		}
		last = b
		return false, u.event(wire.EventOperation, json.RawMessage(b))
	}, nil
}
