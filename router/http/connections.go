package http

import (
	"math"

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
	list, err := a.op.Connections(c.Ctx, &want, above)
	return c.result(list, err)
}

// getConnection shows one connection with the jobs that it holds.
func (a *API) getConnection(c *call) error {
	id, err := connectionOf(c)
	if err != nil {
		return err
	}
	v, err := a.op.Connection(c.Ctx, id)
	return c.result(v, err)
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
