package gearmand

import (
	"context"

	"polystalk/loadtest/workload"
)

// An env is a process's, with connections on which Gearman is spoken.
type env struct{ *workload.Env }

// connect opens a connection that Fail will close. Its unique ids are no
// other process's.
func (e env) connect(ctx context.Context) (*conn, error) {
	c, err := dial(ctx, e.Plan.Addr, &e.Plan.Load)
	if err != nil {
		return nil, err
	}
	c.unique = append([]byte(e.TubeName("u", 0)+"."), c.unique...)
	return c, e.Adopt(c)
}
