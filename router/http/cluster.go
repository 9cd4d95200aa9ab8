package http

import (
	"net/http"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
)

// showLeader reports whether this server leads, for a proxy that sends clients to the leader. A
// server without a cluster leads. In a cluster, showLeader confirms that no other server leads.
func (a *API) showLeader(c *call) error {
	leads, leader := a.op.Leads()
	switch {
	case leads && a.op.Confirm(c.Ctx) == nil:
		return c.text(http.StatusOK, "ok\n")
	case !leads && leader != "":
		return c.text(http.StatusServiceUnavailable, "server "+leader+" leads\n")
	}
	return c.text(http.StatusServiceUnavailable, "no server of the cluster leads\n")
}

func (a *API) getCluster(c *call) error {
	s, err := a.op.ClusterStatus()
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, s)
}

func (a *API) removeMember(c *call) error {
	return a.changeCluster(c, "cluster-remove", func(k admin.Cluster) error { return k.Remove(c.Ctx, c.R.PathValue("node")) })
}

func (a *API) promoteMember(c *call) error {
	return a.changeCluster(c, "cluster-promote", func(k admin.Cluster) error { return k.Promote(c.Ctx, c.R.PathValue("node")) })
}

// transferCluster makes another server the leader. The answer has no body, because this server
// restarts.
func (a *API) transferCluster(c *call, in *wire.ClusterTransfer) error {
	c.Detail = in.Node
	return changed(c, a.op.ChangeCluster(c.Ctx, "cluster-transfer", func(k admin.Cluster) error { return k.Transfer(c.Ctx, in.Node) }))
}

// changeCluster makes a change, and answers with the cluster after it.
func (a *API) changeCluster(c *call, action string, change func(admin.Cluster) error) error {
	if err := a.op.ChangeCluster(c.Ctx, action, change); err != nil {
		return err
	}
	c.Affected = 1
	return a.getCluster(c)
}
