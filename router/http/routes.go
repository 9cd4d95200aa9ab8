package http

import (
	"polystalk/router/access"
)

// An entry is a route of the table.
type entry struct {
	pattern string // as http.ServeMux reads it
	need    access.Role
	flags   Flags
	handler func(a *API, c *Call) error
}

// The table of all routes: there is no other way to add one. A role of access.Nobody is for
// everybody. Of several servers the one that leads answers all that is not Own.
var table = []entry{
	{"GET /livez", access.Nobody, Own | Probe | Early, (*API).livez},
	{"GET /healthz", access.Nobody, Own | Probe | Early, (*API).livez},
	{"GET /readyz", access.Nobody, Own | Probe | Early, (*API).readyz},
	{"GET /leader", access.Nobody, Own | Probe | Early, (*API).showLeader},
	{"GET /problems/{slug}", access.Nobody, Own | Early, (*API).explain},

	{"GET /{$}", access.Nobody, Own | Early, (*API).showConsole},
	{"GET /console/{file...}", access.Nobody, Own | Early, (*API).showAsset},

	{"GET /metrics", access.Read, Own | Early | Scrape, (*API).showMetrics},
	{"GET /metrics/tubes", access.Read, Own, (*API).showTubes},
	{"GET /debug/pprof/{profile...}", access.Admin, Own | Early | Streams, (*API).showProfile},

	{"GET /api/v1/session", access.Nobody, Own | Early, (*API).Whoami},
	{"POST /api/v1/session", access.Nobody, Own | Early | TakesBody, (*API).Login},
	{"DELETE /api/v1/session", access.Nobody, Own | Early, (*API).Logout},

	{"GET /api/v1/openapi.json", access.Read, Own | Early, (*API).describe},
	{"GET /api/v1/server", access.Read, 0, (*API).getServer},
	{"GET /api/v1/journal", access.Read, Own | Early, (*API).getJournal},
	{"GET /api/v1/config", access.Read, Own | Early, (*API).getConfig},
	{"POST /api/v1/reload", access.Admin, Own, (*API).reload},
	{"GET /api/v1/audit", access.Admin, Own | Early, (*API).getAudit},
	{"GET /api/v1/log-level", access.Read, Own | Early, (*API).getLogLevel},
	{"PUT /api/v1/log-level", access.Admin, Own | Early | TakesBody, (*API).putLogLevel},
	{"GET /api/v1/drain", access.Read, 0, (*API).getDrain},
	{"PUT /api/v1/drain", access.Admin, 0, (*API).putDrain},
	{"DELETE /api/v1/drain", access.Admin, 0, (*API).deleteDrain},

	{"GET /api/v1/cluster", access.Read, Own | Early, (*API).getCluster},
	{"POST /api/v1/cluster/transfer", access.Admin, TakesBody, (*API).transferCluster},
	{"POST /api/v1/cluster/members/{node}/promote", access.Admin, 0, (*API).promoteMember},
	{"DELETE /api/v1/cluster/members/{node}", access.Admin, 0, (*API).removeMember},

	{"GET /api/v1/history", access.Read, 0, (*API).getHistory},
	{"GET /api/v1/events", access.Read, Streams, (*API).getEvents},

	{"GET /api/v1/tubes", access.Read, Large, (*API).getTubes},
	{"GET /api/v1/tubes/{tube}", access.Read, 0, (*API).getTube},
	{"PUT /api/v1/tubes/{tube}/pause", access.Operate, TakesBody, (*API).putPause},
	{"DELETE /api/v1/tubes/{tube}/pause", access.Operate, 0, (*API).deletePause},
	{"POST /api/v1/tubes/{tube}/kick", access.Operate, TakesBody, (*API).kickTube},
	{"GET /api/v1/tubes/{tube}/jobs", access.Read, 0, (*API).getTubeJobs},
	{"POST /api/v1/tubes/{tube}/jobs", access.Operate, TakesBody, (*API).putJob},
	{"DELETE /api/v1/tubes/{tube}/jobs", access.Operate, 0, (*API).flushTube},

	{"GET /api/v1/jobs", access.Read, 0, (*API).getJobs},
	{"GET /api/v1/jobs/{id}", access.Read, 0, (*API).getJob},
	{"GET /api/v1/jobs/{id}/body", access.Read, 0, (*API).getBody},
	{"PATCH /api/v1/jobs/{id}", access.Operate, TakesBody | Conditional, (*API).editJob},
	{"DELETE /api/v1/jobs/{id}", access.Operate, 0, (*API).deleteJob},
	{"POST /api/v1/jobs/{id}/kick", access.Operate, 0, (*API).kickJob},
	{"POST /api/v1/jobs/{id}/bury", access.Operate, 0, (*API).buryJob},
	{"POST /api/v1/jobs/{id}/release", access.Operate, 0, (*API).releaseJob},
	{"POST /api/v1/jobs/{id}/move", access.Operate, TakesBody, (*API).moveJob},
	{"POST /api/v1/jobs/{id}/copy", access.Operate, TakesBody, (*API).copyJob},

	{"GET /api/v1/connections", access.Read, 0, (*API).getConnections},
	{"GET /api/v1/connections/{id}", access.Read, 0, (*API).getConnection},
	{"DELETE /api/v1/connections/{id}", access.Admin, 0, (*API).killConnection},

	{"POST /api/v1/operations", access.Operate, TakesBody, (*API).newOperation},
	{"GET /api/v1/operations", access.Read, 0, (*API).getOperations},
	{"GET /api/v1/operations/{id}", access.Read, 0, (*API).getOperation},
	{"DELETE /api/v1/operations/{id}", access.Operate, 0, (*API).cancelOperation},
}

// routes are those of the table, served by a.
func (a *API) routes() (list []Route) {
	for _, e := range table {
		list = append(list, Route{
			Pattern: e.pattern, Need: e.need, Flags: e.flags,
			Handler: func(c *Call) error {
				nameTube(c)
				return e.handler(a, c)
			},
		})
	}
	return list
}
