package web

import (
	_ "embed"
	"log/slog"
	"math"
	"net/http"

	wire "polystalk/codec/admin"
)

func (s *Server) getServer(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	v, err := s.op.Server(c.ctx)
	if err != nil {
		return err
	}
	v.Version = s.opts.Version
	return c.answer(http.StatusOK, v)
}

func (s *Server) getJournal(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	v, err := s.op.Journal()
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, v)
}

func (s *Server) getConfig(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	return c.answer(http.StatusOK, wire.Config{Settings: s.opts.Settings()})
}

func (s *Server) reload(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	did, err := s.opts.Reload()
	if err != nil {
		return err
	}
	c.affected = uint64(len(did.Applied))
	return c.answer(http.StatusOK, did)
}

// getAudit shows the newest entries, or those below a number.
func (s *Server) getAudit(c *call) error {
	q, err := c.query("limit", "before")
	if err != nil {
		return err
	}
	limit, err := number(q, "limit", 100, 1, auditMax)
	if err != nil {
		return err
	}
	before, err := number(q, "before", math.MaxUint64, 0, math.MaxUint64)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, wire.Audit{Entries: s.audit.newest(int(limit), before), Kept: auditMax})
}

// levels are those of the log by their names.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (s *Server) getLogLevel(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	for name, l := range levels {
		if l == s.opts.Level.Level() {
			return c.answer(http.StatusOK, wire.LogLevel{Level: name})
		}
	}
	return c.answer(http.StatusOK, wire.LogLevel{Level: "info"}) // others are not set by anyone
}

func (s *Server) putLogLevel(c *call) error {
	var in wire.LogLevel
	if err := c.decode(&in); err != nil {
		return err
	}
	l, ok := levels[in.Level]
	if !ok {
		return wire.Invalid.With("level", "the level is unknown", "give debug, info, warn or error")
	}
	s.opts.Level.Set(l)
	return c.answer(http.StatusOK, in)
}

func (s *Server) getDrain(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	return c.answer(http.StatusOK, wire.Drain{Draining: s.op.Draining()})
}

func (s *Server) putDrain(c *call) error    { return s.drain(c, true) }
func (s *Server) deleteDrain(c *call) error { return s.drain(c, false) }

func (s *Server) drain(c *call, on bool) error {
	if _, err := c.query(); err != nil {
		return err
	}
	s.op.SetDraining(on)
	return c.answer(http.StatusOK, wire.Drain{Draining: s.op.Draining()})
}

// description is the API's, in OpenAPI 3.1. What is not served is not in it: a test holds
// it against the table of routes, and every answer of the tests against it.
//
//go:embed openapi.json
var description []byte

func (s *Server) describe(c *call) error {
	if c.tagged(hashed(string(description)), false) {
		return nil
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method != http.MethodHead {
		c.w.Write(description)
	}
	return nil
}
