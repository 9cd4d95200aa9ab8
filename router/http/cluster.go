package http

import (
	"net/http"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
)

// showLeader says whether clients are served here, and not handed on: for a proxy that would
// rather bring them to where they are. A server that is alone leads. One of several leads only if no
// other server may lead.
func (a *API) showLeader(c *Call) error {
	leads, leader := a.op.Leads()
	switch {
	case leads && a.op.Confirm(c.Ctx) == nil:
		return c.Text(http.StatusOK, "ok\n")
	case !leads && leader != "":
		return c.Text(http.StatusServiceUnavailable, "server "+leader+" leads\n")
	}
	return c.Text(http.StatusServiceUnavailable, "no server of the cluster leads\n")
}

func (a *API) getCluster(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	if _, err := a.op.Cluster(); err != nil {
		return err
	}
	return c.Answer(http.StatusOK, a.op.ClusterStatus())
}

// removeMember has a server belong to the cluster no more.
func (a *API) removeMember(c *Call) error {
	return a.changeCluster(c, "cluster-remove", func(k admin.Cluster) error { return k.Remove(c.Ctx, c.R.PathValue("node")) })
}

// promoteMember has a server vote that has only kept a copy.
func (a *API) promoteMember(c *Call) error {
	return a.changeCluster(c, "cluster-promote", func(k admin.Cluster) error { return k.Promote(c.Ctx, c.R.PathValue("node")) })
}

// transferCluster has another server lead. There is nothing to tell then: this one begins anew.
func (a *API) transferCluster(c *Call) error {
	var in wire.ClusterTransfer
	if _, err := c.Query(); err != nil {
		return err
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	c.Detail = in.Node
	err := a.op.ChangeCluster(c.Ctx, "cluster-transfer", func(k admin.Cluster) error { return k.Transfer(c.Ctx, in.Node) })
	if err != nil {
		return err
	}
	c.Affected = 1
	return c.DoneAtLast()
}

// changeCluster makes a change, and answers with the cluster as it is then.
func (a *API) changeCluster(c *Call, action string, change func(admin.Cluster) error) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	if err := a.op.ChangeCluster(c.Ctx, action, change); err != nil {
		return err
	}
	c.Affected = 1
	return c.Answer(http.StatusOK, a.op.ClusterStatus())
}
