package http

import (
	_ "embed"
	"log/slog"
	"math"
	"net/http"
	"net/http/pprof"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
)

func (a *API) getServer(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	v, err := a.op.Sample(c.Ctx)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, a.serverValue(v))
}

// serverValue is the server as it stands in answers.
func (a *API) serverValue(v *admin.Sample) *wire.Server {
	s := a.op.Server(v)
	s.Version = a.opts.Version
	s.Peers = a.opts.Peers
	s.Events = map[string]uint64{"put": v.Flow.Puts, "delete": v.Flow.Deletes}
	for e, name := range Events {
		s.Events[name] = v.Flow.Events[e]
	}
	return s
}

func (a *API) getJournal(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	v, err := a.op.Journal()
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, v)
}

func (a *API) getConfig(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	return c.Answer(http.StatusOK, wire.Config{Settings: a.opts.Settings()})
}

func (a *API) reload(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	did, err := a.opts.Reload()
	if err != nil {
		return err
	}
	c.Affected = uint64(len(did.Applied))
	return c.Answer(http.StatusOK, did)
}

// getAudit shows the newest entries, or those below a number.
func (a *API) getAudit(c *Call) error {
	q, err := c.Query("limit", "before")
	if err != nil {
		return err
	}
	limit, err := number(q, "limit", 100, 1, AuditMax)
	if err != nil {
		return err
	}
	before, err := number(q, "before", math.MaxUint64, 0, math.MaxUint64)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, wire.Audit{Entries: a.Audit(int(limit), before), Kept: AuditMax})
}

// levels are those of the log by their names.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (a *API) getLogLevel(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	for name, l := range levels {
		if l == a.opts.Level.Level() {
			return c.Answer(http.StatusOK, wire.LogLevel{Level: name})
		}
	}
	return c.Answer(http.StatusOK, wire.LogLevel{Level: "info"}) // others are not set by anyone
}

func (a *API) putLogLevel(c *Call) error {
	var in wire.LogLevel
	if _, err := c.Query(); err != nil {
		return err
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	l, ok := levels[in.Level]
	if !ok {
		return wire.Invalid.With("level", "the level is unknown", "give debug, info, warn or error")
	}
	a.opts.Level.Set(l)
	return c.Answer(http.StatusOK, in)
}

func (a *API) getDrain(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	return c.Answer(http.StatusOK, wire.Drain{Draining: a.op.Draining()})
}

func (a *API) putDrain(c *Call) error    { return a.drain(c, true) }
func (a *API) deleteDrain(c *Call) error { return a.drain(c, false) }

func (a *API) drain(c *Call, on bool) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	a.op.SetDraining(on)
	return c.Answer(http.StatusOK, wire.Drain{Draining: a.op.Draining()})
}

// description is the API's, in OpenAPI 3.1. What is not served is not in it: a test holds
// it against the table of routes, and every answer of the tests against it.
//
//go:embed openapi.json
var description []byte

func (a *API) describe(c *Call) error {
	if c.Tagged(Hashed(string(description)), false) {
		return nil
	}
	c.W.Header().Set("Content-Type", "application/json")
	c.W.WriteHeader(http.StatusOK)
	if c.R.Method != http.MethodHead {
		c.W.Write(description)
	}
	return nil
}

// profileMost is the longest profile, in seconds.
const profileMost = 60

// showProfile serves a profile of Go's runtime. The profile ends with the client or the server.
func (a *API) showProfile(c *Call) error {
	if _, err := number(c.R.URL.Query(), "seconds", 0, 0, profileMost); err != nil {
		return err
	}
	c.begun = time.Now()
	http.NewResponseController(c.W).SetReadDeadline(time.Time{}) // else it would end the profile
	serve := pprof.Index
	switch c.R.PathValue("profile") {
	case "cmdline":
		serve = pprof.Cmdline
	case "profile":
		serve = pprof.Profile
	case "symbol":
		serve = pprof.Symbol
	case "trace":
		serve = pprof.Trace
	}
	if c.R.Method == http.MethodHead {
		serve = func(http.ResponseWriter, *http.Request) {}
	}
	serve(c.W, c.R.WithContext(c.Ctx))
	return nil
}
