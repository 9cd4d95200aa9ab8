package beanstalkd

import (
	"context"

	"polystalk/loadtest/workload"
)

// An env is a process's, with connections on which beanstalkd's protocol is
// spoken.
type env struct{ *workload.Env }

// connect opens a connection that Fail will close.
func (e env) connect(ctx context.Context) (*conn, error) {
	c, err := dial(ctx, e.Plan.Addr, &e.Plan.Load, e.Plan.Constant)
	if err != nil {
		return nil, err
	}
	return c, e.Adopt(c)
}

// connectAll opens this process's share of connections.
func (e env) connectAll(ctx context.Context, each func(i int, c *conn) error) ([]*conn, error) {
	return workload.OpenAll(ctx, e.Plan.Share(e.Plan.Load.Conns), e.connect, each)
}
