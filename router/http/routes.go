package http

import (
	"net/http"
	"strings"

	"polystalk/shard/core"
)

// A route is a method and a path, what the client needs for it, and its handler.
type route struct {
	pattern string // of http.ServeMux
	need    need
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

// allRoutes returns all routes. In a cluster, the leader answers all routes without the flag own.
func (a *API) allRoutes() []route {
	const filter = "state limit after contains id_min id_max older_than body"
	return []route{
		{"GET /livez", nothing, own | probe | early, anyQuery, a.livez},
		{"GET /healthz", nothing, own | probe | early, anyQuery, a.livez},
		{"GET /readyz", nothing, own | probe | early, anyQuery, a.readyz},
		{"GET /leader", nothing, own | probe | early, anyQuery, a.showLeader},
		{"GET /problems/{slug}", nothing, own | early, anyQuery, a.explain},

		{"GET /{$}", nothing, own | early, anyQuery, a.showConsole},
		{"GET /console/{file...}", nothing, own | early, anyQuery, a.showAsset},

		{"GET /metrics", readServer, own | early | scrape, anyQuery, a.showMetrics},
		{"GET /metrics/tubes", readServer, own, "match family", a.showTubes},
		{"GET /debug/pprof/{profile...}", adminServer, own | early | streams, anyQuery, a.showProfile},

		{"GET /api/v1/session", nothing, own | early, "", a.whoami},
		{"POST /api/v1/session", nothing, own | early | takesBody, "", withBody(a.login)},
		{"DELETE /api/v1/session", nothing, own | early, "", a.logout},

		{"GET /api/v1/openapi.json", someRight, own | early, anyQuery, a.describe},
		{"GET /api/v1/server", readServer, 0, "", a.getServer},
		{"GET /api/v1/journal", readServer, own | early, "", a.getJournal},
		{"GET /api/v1/config", readServer, own | early, "", a.getConfig},
		{"POST /api/v1/reload", adminServer, own, "", a.reload},
		{"GET /api/v1/audit", adminServer, own | early, "limit before", a.getAudit},
		{"GET /api/v1/identities", adminServer, own | early, "", a.getIdentities},
		{"GET /api/v1/identities/{name}", someRight, own | early, "tube", a.getIdentity},
		{"GET /api/v1/denials", adminServer, own | early, "", a.getDenials},
		{"GET /api/v1/log-level", readServer, own | early, "", a.getLogLevel},
		{"PUT /api/v1/log-level", adminServer, own | early | takesBody, "", withBody(a.putLogLevel)},
		{"GET /api/v1/drain", readServer, 0, "", a.getDrain},
		{"PUT /api/v1/drain", adminServer, 0, "", a.setDrain(true)},
		{"DELETE /api/v1/drain", adminServer, 0, "", a.setDrain(false)},

		{"GET /api/v1/cluster", readServer, own | early, "", a.getCluster},
		{"POST /api/v1/cluster/transfer", adminServer, takesBody, "", withBody(a.transferCluster)},
		{"POST /api/v1/cluster/members/{node}/promote", adminServer, 0, "", a.promoteMember},
		{"DELETE /api/v1/cluster/members/{node}", adminServer, 0, "", a.removeMember},

		{"GET /api/v1/history", someRight, 0, "series tube from to step", a.getHistory},
		{"GET /api/v1/events", someRight, streams, "topics match sort limit", a.getEvents},

		{"GET /api/v1/tubes", look, large, "match sort limit after", a.getTubes},
		{"GET /api/v1/tubes/{tube}", look, 0, "", a.getTube},
		{"PUT /api/v1/tubes/{tube}/pause", manage, takesBody, "", withBody(a.putPause)},
		{"DELETE /api/v1/tubes/{tube}/pause", manage, 0, "", a.deletePause},
		{"POST /api/v1/tubes/{tube}/kick", manage, takesBody, "", withBody(a.kickTube)},
		{"GET /api/v1/tubes/{tube}/jobs", look, 0, "order " + filter, a.getTubeJobs},
		{"POST /api/v1/tubes/{tube}/jobs", put, takesBody, "pri delay ttr", a.putJob},
		{"DELETE /api/v1/tubes/{tube}/jobs", manage, 0, "state dry_run as_of", a.flushTube},

		{"GET /api/v1/jobs", look, 0, filter, a.getJobs},
		{"POST /api/v1/jobs", put, takesBody, "", a.putJobs},
		{"GET /api/v1/jobs/{id}", look, 0, "body", a.withJob(a.getJob)},
		{"GET /api/v1/jobs/{id}/body", look, 0, "", a.withJob(a.getBody)},
		{"PATCH /api/v1/jobs/{id}", manage, takesBody | conditional, "force", a.withJob(a.editJob)},
		{"DELETE /api/v1/jobs/{id}", manage, 0, "force", a.changeJob(core.VerbDelete)},
		{"POST /api/v1/jobs/{id}/kick", manage, 0, "", a.changeJob(core.VerbKick)},
		{"POST /api/v1/jobs/{id}/bury", manage, 0, "force", a.changeJob(core.VerbBury)},
		{"POST /api/v1/jobs/{id}/release", manage, 0, "", a.changeJob(core.VerbRelease)},
		{"POST /api/v1/jobs/{id}/move", manage, takesBody, "", a.transferJob(false)},
		{"POST /api/v1/jobs/{id}/copy", manage, takesBody, "", a.transferJob(true)},

		{"GET /api/v1/policies", readServer, 0, "", a.getPolicies},
		{"PUT /api/v1/policies", manageAll, takesBody | conditional, "dry_run", withBody(a.putPolicies)},
		{"PUT /api/v1/policies/{match}", manageAll, takesBody | conditional, "dry_run", withBody(a.putPolicy)},
		{"DELETE /api/v1/policies/{match}", manageAll, conditional, "", a.deletePolicy},

		{"GET /api/v1/connections", readServer, 0, "protocol tube holding limit after", a.getConnections},
		{"GET /api/v1/connections/{id}", readServer, 0, "", a.getConnection},
		{"DELETE /api/v1/connections/{id}", adminServer, 0, "", a.killConnection},

		{"POST /api/v1/operations", manage, takesBody, "", withBody(a.newOperation)},
		{"GET /api/v1/operations", look, 0, "", a.getOperations},
		{"GET /api/v1/operations/{id}", look, 0, "", a.getOperation},
		{"DELETE /api/v1/operations/{id}", manage, 0, "", a.cancelOperation},
	}
}
