package http

import (
	"math"
	"net/http"
	"strconv"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
)

// getConnections lists connections in the order in which they were opened.
func (a *API) getConnections(c *call) error {
	q := &c.Query
	want := admin.ConnectionQuery{
		Protocol: q.one("protocol", append([]string{""}, a.op.Protocols()...)...), Holding: q.isTrue("holding"),
		Limit: int(q.number("limit", listDefault, 1, listMost)),
	}
	if q.Has("tube") {
		want.Tube = []byte(q.Get("tube"))
	}
	above := q.number("after", 0, 1, math.MaxUint64)
	if q.err != nil {
		return q.err
	}
	if want.Protocol != "" || want.Tube != nil || want.Holding { // it reads more than it shows
		leave, err := a.heavy.take(c.Ctx)
		if err != nil {
			return err
		}
		defer leave()
	}
	part, err := a.op.Connections(c.Ctx, &want, above)
	if err != nil {
		return err
	}
	out := wire.ConnectionList{Connections: make([]wire.Connection, 0, len(part.Rows)), Looked: part.Looked, AsOf: part.At.UTC()}
	if part.Next != 0 {
		out.Next = strconv.FormatUint(part.Next, 10)
	}
	for i := range part.Rows {
		out.Connections = append(out.Connections, connectionValue(&part.Rows[i], part.At))
	}
	return c.answer(http.StatusOK, out)
}

// getConnection shows one connection with the jobs that it holds.
func (a *API) getConnection(c *call) error {
	id, err := connectionOf(c)
	if err != nil {
		return err
	}
	v, held, err := a.op.Connection(c.Ctx, id)
	if err != nil {
		return err
	}
	out := wire.ConnectionJobs{Connection: connectionValue(&v, time.Now()), Jobs: make([]wire.Job, 0, len(held))}
	for i := range held {
		out.Jobs = append(out.Jobs, jobValue(&held[i]))
	}
	return c.answer(http.StatusOK, out)
}

func (a *API) killConnection(c *call) error {
	id, err := connectionOf(c)
	if err != nil {
		return err
	}
	return changed(c, a.op.KillConnection(c.Ctx, id))
}

// connectionOf returns the id of the connection in the path.
func connectionOf(c *call) (uint64, error) {
	return idOf(c, "a connection", "GET /api/v1/connections lists them")
}

func connectionValue(v *admin.Connection, at time.Time) wire.Connection {
	out := wire.Connection{
		ID: v.Number, Protocol: v.Front.Name(), Peer: v.PeerName(), ClientID: wire.ShownName(v.Client.ID),
		Opened: at.Add(-time.Duration(v.Open)).UTC().Truncate(time.Millisecond), OpenSeconds: seconds(v.Open),
		State: v.State(), StoppedBy: v.StoppedBy(),
		Producer: v.Produces(), Worker: v.Works(), Awaits: v.Follows,
		Watched: make([]wire.TubeName, 0, len(v.Client.Watched)), Watching: v.Client.Watching,
		Holding: v.Holds, HoldSeconds: seconds(v.HeldFor), Command: v.Command, CommandSeconds: seconds(v.Idle),
		ReceivedBytes: v.In, SentBytes: v.Out, HeldBytes: v.Held, UnsentBytes: v.Unsent,
	}
	if v.Waits() {
		out.WaitSeconds = seconds(v.Idle)
	}
	if v.Client.Used != "" {
		used := wire.NameOf(v.Client.Used)
		out.Used = &used
	}
	for _, name := range v.Client.Watched {
		out.Watched = append(out.Watched, wire.NameOf(name))
	}
	return out
}
