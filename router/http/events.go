package http

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	wire "polystalk/codec/admin"
)

const (
	// streamsMax streams of events are open at a time.
	streamsMax = 64
	// eventsAgain is after how long a client that has lost its stream is to come again, and
	// commentEvery how often a stream says that it is there.
	eventsAgain  = 3 * time.Second
	commentEvery = 15 * time.Second
	// renderWithin bounds the making of one event, which waits for other operations.
	renderWithin = 10 * time.Second
)

// getEvents tells of what goes on, in the topics that are asked for, as long as the client
// likes. Nothing is kept for a client that is slow, or away: it is told how all is now. So a
// Last-Event-ID needs no look: a stream begins with everything.
func (a *API) getEvents(c *Call) error {
	topics, tubes, err := a.topicsOf(c)
	if err != nil {
		return err
	}
	if c.R.Method == http.MethodHead {
		c.EventStream(eventsAgain)
		return nil
	}
	sub := a.watch.Subscribe(tubes)
	if sub == nil {
		return wire.Busy.With("", fmt.Sprintf("%d streams of events are open, and no more may be", streamsMax),
			"close one, as by closing a page that shows the server; or ask for what you need without a stream")
	}
	defer sub.Close()
	stream := c.EventStream(eventsAgain)
	defer stream.Close()
	comment := time.Now().Add(commentEvery)
	if stream.Send() != nil { // at once, so that the client knows that it is served
		return nil
	}
	for {
		ctx, cancel := context.WithDeadline(c.Ctx, comment)
		v, err := sub.Next(ctx)
		cancel()
		if c.Ctx.Err() != nil || !c.StillMay() {
			return nil
		}
		if now := time.Now(); !now.Before(comment) {
			stream.Comment()
			comment = now.Add(commentEvery)
		}
		left := topics
		if err != nil {
			left = nil // it was time for a comment
		}
		for {
			if left, err = a.render(c.Ctx, left, &now{v, stream}); err != nil {
				return nil // something was left out: the client is to begin anew
			}
			if stream.Send() != nil {
				return nil
			}
			if len(left) == 0 {
				break
			}
			v = sub.Newest()
		}
	}
}

// render adds the events of a snapshot to the stream. It returns the topics with more events to send
// at once. After an error the caller must not send what was added.
func (a *API) render(ctx context.Context, topics []topic, n *now) (left []topic, err error) {
	a.rendering.Lock()
	defer a.rendering.Unlock()
	ctx, cancel := context.WithTimeout(ctx, renderWithin)
	defer cancel()
	for _, t := range topics {
		more, err := t.render(ctx, a, n)
		if err != nil {
			return nil, err
		}
		if more {
			left = append(left, t)
		}
	}
	return left, a.op.Confirm(ctx) // a snapshot may be of the time before another server led
}

// id is the number of the snapshot that an event is made of.
func (n *now) id() string { return strconv.FormatUint(n.Server.Number, 10) }
