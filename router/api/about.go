package api

import (
	_ "embed"
	"log/slog"
	"math"
	"net/http"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/router/exposition"
	"polystalk/router/web"
)

func (a *API) getServer(c *web.Call) error {
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
	for e, name := range exposition.Events {
		s.Events[name] = v.Flow.Events[e]
	}
	return s
}

func (a *API) getJournal(c *web.Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	v, err := a.op.Journal()
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, v)
}

func (a *API) getConfig(c *web.Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	return c.Answer(http.StatusOK, wire.Config{Settings: a.opts.Settings()})
}

func (a *API) reload(c *web.Call) error {
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
func (a *API) getAudit(c *web.Call) error {
	q, err := c.Query("limit", "before")
	if err != nil {
		return err
	}
	limit, err := number(q, "limit", 100, 1, web.AuditMax)
	if err != nil {
		return err
	}
	before, err := number(q, "before", math.MaxUint64, 0, math.MaxUint64)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, wire.Audit{Entries: a.Audit(int(limit), before), Kept: web.AuditMax})
}

// levels are those of the log by their names.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (a *API) getLogLevel(c *web.Call) error {
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

func (a *API) putLogLevel(c *web.Call) error {
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

func (a *API) getDrain(c *web.Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	return c.Answer(http.StatusOK, wire.Drain{Draining: a.op.Draining()})
}

func (a *API) putDrain(c *web.Call) error    { return a.drain(c, true) }
func (a *API) deleteDrain(c *web.Call) error { return a.drain(c, false) }

func (a *API) drain(c *web.Call, on bool) error {
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

func (a *API) describe(c *web.Call) error {
	if c.Tagged(web.Hashed(string(description)), false) {
		return nil
	}
	c.W.Header().Set("Content-Type", "application/json")
	c.W.WriteHeader(http.StatusOK)
	if c.R.Method != http.MethodHead {
		c.W.Write(description)
	}
	return nil
}
