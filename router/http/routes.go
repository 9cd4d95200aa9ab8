package http

import (
	"net/http"
	"strings"

	"polystalk/router/access"
	"polystalk/shard/core"
)

// A route is a method and a path, the role that it needs, and its handler.
type route struct {
	pattern string // of http.ServeMux
	need    access.Role
	flags   flags
	query   string // names of its parameters; anyQuery: they are not checked
	// handler sends the answer, or returns a problem to send. An error that it returns after
	// the start of the answer is dropped.
	handler func(c *call) error
}

// flags are the special properties of a route.
type flags uint8

const (
	probe       flags = 1 << iota // reports health, and nothing about jobs; accepts any Host
	early                         // also served while the journal is read, and during shutdown
	large                         // needs much time or memory: one runs at a time
	scrape                        // like large, but with the slot of scrapes
	takesBody                     // reads a body; other routes refuse a body
	conditional                   // reads If-Match; other routes refuse it
	streams                       // the answer is a stream
	own                           // is about this server: a follower does not forward it
)

// method returns the method of the pattern.
func (rt *route) method() string {
	method, _, _ := strings.Cut(rt.pattern, " ")
	return method
}

// changes reports whether the route changes something.
func (rt *route) changes() bool { return rt.method() != http.MethodGet }

// run runs the handler with the request's parameters.
func (rt *route) run(c *call) error {
	nameTube(c)
	if err := c.readQuery(rt.query); err != nil {
		return err
	}
	return rt.handler(c)
}

// allRoutes returns all routes. A route with access.Nobody needs no role. In a cluster, the leader
// answers all routes without the flag own.
func (a *API) allRoutes() []route {
	const filter = "state limit after contains id_min id_max older_than body"
	return []route{
		{"GET /livez", access.Nobody, own | probe | early, anyQuery, a.livez},
		{"GET /healthz", access.Nobody, own | probe | early, anyQuery, a.livez},
		{"GET /readyz", access.Nobody, own | probe | early, anyQuery, a.readyz},
		{"GET /leader", access.Nobody, own | probe | early, anyQuery, a.showLeader},
		{"GET /problems/{slug}", access.Nobody, own | early, anyQuery, a.explain},

		{"GET /{$}", access.Nobody, own | early, anyQuery, a.showConsole},
		{"GET /console/{file...}", access.Nobody, own | early, anyQuery, a.showAsset},

		{"GET /metrics", access.Read, own | early | scrape, anyQuery, a.showMetrics},
		{"GET /metrics/tubes", access.Read, own, "match family", a.showTubes},
		{"GET /debug/pprof/{profile...}", access.Admin, own | early | streams, anyQuery, a.showProfile},

		{"GET /api/v1/session", access.Nobody, own | early, "", a.whoami},
		{"POST /api/v1/session", access.Nobody, own | early | takesBody, "", withBody(a.login)},
		{"DELETE /api/v1/session", access.Nobody, own | early, "", a.logout},

		{"GET /api/v1/openapi.json", access.Read, own | early, anyQuery, a.describe},
		{"GET /api/v1/server", access.Read, 0, "", a.getServer},
		{"GET /api/v1/journal", access.Read, own | early, "", a.getJournal},
		{"GET /api/v1/config", access.Read, own | early, "", a.getConfig},
		{"POST /api/v1/reload", access.Admin, own, "", a.reload},
		{"GET /api/v1/audit", access.Admin, own | early, "limit before", a.getAudit},
		{"GET /api/v1/log-level", access.Read, own | early, "", a.getLogLevel},
		{"PUT /api/v1/log-level", access.Admin, own | early | takesBody, "", withBody(a.putLogLevel)},
		{"GET /api/v1/drain", access.Read, 0, "", a.getDrain},
		{"PUT /api/v1/drain", access.Admin, 0, "", a.setDrain(true)},
		{"DELETE /api/v1/drain", access.Admin, 0, "", a.setDrain(false)},

		{"GET /api/v1/cluster", access.Read, own | early, "", a.getCluster},
		{"POST /api/v1/cluster/transfer", access.Admin, takesBody, "", withBody(a.transferCluster)},
		{"POST /api/v1/cluster/members/{node}/promote", access.Admin, 0, "", a.promoteMember},
		{"DELETE /api/v1/cluster/members/{node}", access.Admin, 0, "", a.removeMember},

		{"GET /api/v1/history", access.Read, 0, "series tube from to step", a.getHistory},
		{"GET /api/v1/events", access.Read, streams, "topics match sort limit", a.getEvents},

		{"GET /api/v1/tubes", access.Read, large, "match sort limit after", a.getTubes},
		{"GET /api/v1/tubes/{tube}", access.Read, 0, "", a.getTube},
		{"PUT /api/v1/tubes/{tube}/pause", access.Operate, takesBody, "", withBody(a.putPause)},
		{"DELETE /api/v1/tubes/{tube}/pause", access.Operate, 0, "", a.deletePause},
		{"POST /api/v1/tubes/{tube}/kick", access.Operate, takesBody, "", withBody(a.kickTube)},
		{"GET /api/v1/tubes/{tube}/jobs", access.Read, 0, "order " + filter, a.getTubeJobs},
		{"POST /api/v1/tubes/{tube}/jobs", access.Operate, takesBody, "pri delay ttr", a.putJob},
		{"DELETE /api/v1/tubes/{tube}/jobs", access.Operate, 0, "state dry_run as_of", a.flushTube},

		{"GET /api/v1/jobs", access.Read, 0, filter, a.getJobs},
		{"POST /api/v1/jobs", access.Operate, takesBody, "", a.putJobs},
		{"GET /api/v1/jobs/{id}", access.Read, 0, "body", withJob(a.getJob)},
		{"GET /api/v1/jobs/{id}/body", access.Read, 0, "", withJob(a.getBody)},
		{"PATCH /api/v1/jobs/{id}", access.Operate, takesBody | conditional, "force", withJob(a.editJob)},
		{"DELETE /api/v1/jobs/{id}", access.Operate, 0, "force", a.changeJob(core.VerbDelete)},
		{"POST /api/v1/jobs/{id}/kick", access.Operate, 0, "", a.changeJob(core.VerbKick)},
		{"POST /api/v1/jobs/{id}/bury", access.Operate, 0, "force", a.changeJob(core.VerbBury)},
		{"POST /api/v1/jobs/{id}/release", access.Operate, 0, "", a.changeJob(core.VerbRelease)},
		{"POST /api/v1/jobs/{id}/move", access.Operate, takesBody, "", a.transferJob(false)},
		{"POST /api/v1/jobs/{id}/copy", access.Operate, takesBody, "", a.transferJob(true)},

		{"GET /api/v1/connections", access.Read, 0, "protocol tube holding limit after", a.getConnections},
		{"GET /api/v1/connections/{id}", access.Read, 0, "", a.getConnection},
		{"DELETE /api/v1/connections/{id}", access.Admin, 0, "", a.killConnection},

		{"POST /api/v1/operations", access.Operate, takesBody, "", withBody(a.newOperation)},
		{"GET /api/v1/operations", access.Read, 0, "", a.getOperations},
		{"GET /api/v1/operations/{id}", access.Read, 0, "", a.getOperation},
		{"DELETE /api/v1/operations/{id}", access.Operate, 0, "", a.cancelOperation},
	}
}
