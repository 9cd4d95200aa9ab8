package router

import (
	"context"
	"fmt"

	"polystalk/router/direct"
	"polystalk/shard"
)

// Settings are what can be changed of a server that serves. What else there is in Config
// needs a restart, and so does the Prefix of Gearman's handles, by which clients know them.
type Settings struct {
	// MaxJobSize, MaxConnections and ConnectionMemory are as in Config, zero for the
	// default.
	MaxJobSize       uint32
	MaxConnections   int
	ConnectionMemory int64
	// Gearman is as in Config, but for its Prefix and its Version, which are not read.
	Gearman GearmanConfig
}

// Settings are those of a Config.
func (c *Config) Settings() Settings {
	return Settings{
		MaxJobSize: c.MaxJobSize, MaxConnections: c.MaxConnections, ConnectionMemory: c.ConnectionMemory, Gearman: c.Gearman,
	}
}

// Apply changes all settings, or none if one of them cannot be used. Each holds for what
// comes from then on: no client is cut off, but for those that keep more than a lower
// ConnectionMemory allows; who is connected stays, also above a lower MaxConnections; a
// body that is being received is received. It waits for the shards: it may be called by
// anyone but a loop, once Start has returned, and by one at a time.
func (s *Server) Apply(to Settings) error {
	cfg := s.cfg
	was := s.gearmand.Config()
	cfg.MaxJobSize, cfg.MaxConnections, cfg.ConnectionMemory, cfg.Gearman = to.MaxJobSize, to.MaxConnections, to.ConnectionMemory, to.Gearman
	cfg.Gearman.Prefix, cfg.Gearman.Version = was.Prefix, was.Version
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	cfg.fill("")
	s.host.BoundConnections(cfg.ConnectionMemory)
	s.beanstalkd.SetMaxJobSize(cfg.MaxJobSize)
	s.gearmand.Set(cfg.Gearman)
	if s.reactor != nil {
		s.reactor.SetMaxConnections(cfg.MaxConnections)
	}
	caller := direct.New(s.host.Map, s.host.Clock)
	opts := submitOptions(&cfg.Gearman)
	for i := range s.host.Map.Shards() {
		caller.Visit(context.Background(), i, func(sh *shard.Shard) { sh.SetSubmitOptions(opts) })
	}
	return nil
}
