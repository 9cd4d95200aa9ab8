package web

import (
	"net/http"

	"polystalk/router/access"
)

// A route is a method and a path, who may use it, and what serves it.
type route struct {
	pattern string // as http.ServeMux reads it
	need    access.Role
	flags   flags
	handler func(s *Server, c *call) error
}

// flags are what is special about a route.
type flags uint8

const (
	// anyHost: it is served whatever Host says. It shows no names and changes nothing.
	anyHost flags = 1 << iota
	// early: it is served while the journal is read, and when the server ends.
	early
	// large: it takes time or memory, so one is served at a time.
	large
	// takesBody: it reads the body of the request; others refuse one.
	takesBody
	// conditional: it looks at the header If-Match; others refuse one.
	conditional
)

// changes reports whether the route changes something.
func (rt *route) changes() bool { return !safe(rt.method()) }

// method is the one that the pattern begins with.
func (rt *route) method() string {
	for i := range len(rt.pattern) {
		if rt.pattern[i] == ' ' {
			return rt.pattern[:i]
		}
	}
	return ""
}

// safe reports whether a method changes nothing.
func safe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// The table of all routes. A role of access.Nobody is for everybody.
var table = []route{
	{"GET /livez", access.Nobody, anyHost | early, (*Server).livez},
	{"GET /healthz", access.Nobody, anyHost | early, (*Server).livez},
	{"GET /readyz", access.Nobody, anyHost | early, (*Server).readyz},
	{"GET /problems/{slug}", access.Nobody, early, (*Server).explain},

	{"GET /metrics", access.Read, anyHost | early | large, (*Server).showMetrics},
	{"GET /metrics/tubes", access.Read, anyHost, (*Server).showTubes},
	{"GET /metrics/beanstalkd", access.Read, anyHost, (*Server).showBeanstalkd},

	{"GET /api/v1/session", access.Nobody, early, (*Server).whoami},
	{"POST /api/v1/session", access.Nobody, early | takesBody, (*Server).login},
	{"DELETE /api/v1/session", access.Nobody, early, (*Server).logout},

	{"GET /api/v1/openapi.json", access.Read, early, (*Server).describe},
	{"GET /api/v1/server", access.Read, 0, (*Server).getServer},
	{"GET /api/v1/journal", access.Read, 0, (*Server).getJournal},
	{"GET /api/v1/config", access.Read, early, (*Server).getConfig},
	{"POST /api/v1/reload", access.Admin, 0, (*Server).reload},
	{"GET /api/v1/audit", access.Admin, early, (*Server).getAudit},
	{"GET /api/v1/log-level", access.Read, early, (*Server).getLogLevel},
	{"PUT /api/v1/log-level", access.Admin, early | takesBody, (*Server).putLogLevel},
	{"GET /api/v1/drain", access.Read, early, (*Server).getDrain},
	{"PUT /api/v1/drain", access.Admin, 0, (*Server).putDrain},
	{"DELETE /api/v1/drain", access.Admin, 0, (*Server).deleteDrain},

	{"GET /api/v1/tubes", access.Read, large, (*Server).getTubes},
	{"GET /api/v1/tubes/{tube}", access.Read, 0, (*Server).getTube},
	{"PUT /api/v1/tubes/{tube}/pause", access.Operate, takesBody, (*Server).putPause},
	{"DELETE /api/v1/tubes/{tube}/pause", access.Operate, 0, (*Server).deletePause},
	{"POST /api/v1/tubes/{tube}/kick", access.Operate, takesBody, (*Server).kickTube},
	{"GET /api/v1/tubes/{tube}/jobs", access.Read, 0, (*Server).getTubeJobs},
	{"POST /api/v1/tubes/{tube}/jobs", access.Operate, takesBody, (*Server).putJob},

	{"GET /api/v1/jobs", access.Read, 0, (*Server).getJobs},
	{"GET /api/v1/jobs/{id}", access.Read, 0, (*Server).getJob},
	{"GET /api/v1/jobs/{id}/body", access.Read, 0, (*Server).getBody},
	{"PATCH /api/v1/jobs/{id}", access.Operate, takesBody | conditional, (*Server).editJob},
	{"DELETE /api/v1/jobs/{id}", access.Operate, 0, (*Server).deleteJob},
	{"POST /api/v1/jobs/{id}/kick", access.Operate, 0, (*Server).kickJob},
	{"POST /api/v1/jobs/{id}/bury", access.Operate, 0, (*Server).buryJob},
	{"POST /api/v1/jobs/{id}/release", access.Operate, 0, (*Server).releaseJob},

	{"POST /api/v1/operations", access.Operate, takesBody, (*Server).newOperation},
	{"GET /api/v1/operations", access.Read, 0, (*Server).getOperations},
	{"GET /api/v1/operations/{id}", access.Read, 0, (*Server).getOperation},
	{"DELETE /api/v1/operations/{id}", access.Operate, 0, (*Server).cancelOperation},
}
