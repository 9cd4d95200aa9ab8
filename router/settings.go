package router

import (
	"context"
	"errors"
	"fmt"

	"polystalk/router/admin"
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

// Prepare looks at settings, and returns what applies all of them, which cannot fail; or
// why one of them cannot be used. It changes nothing itself.
//
// Each setting holds for what comes from then on: no client is cut off, but for those that
// keep more than a lower ConnectionMemory allows; who is connected stays, also above a
// lower MaxConnections; a body that is being received is received. To apply waits for the
// shards: it may be done by anyone but a loop, by one at a time. While the journal is read
// there is an error. A server that follows has them where they are of use to it, and the rest
// once it leads.
func (s *Server) Prepare(to Settings) (apply func(), err error) {
	if s.reactor != nil && s.life.Phase() == admin.Starting {
		return nil, errStarting
	}
	cfg := s.cfg
	was := s.gearmand.Config()
	cfg.MaxJobSize, cfg.MaxConnections, cfg.ConnectionMemory, cfg.Gearman = to.MaxJobSize, to.MaxConnections, to.ConnectionMemory, to.Gearman
	cfg.Gearman.Prefix, cfg.Gearman.Version = was.Prefix, was.Version
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.fill("")
	return func() { s.apply(&cfg) }, nil
}

var errStarting = errors.New("the server is being started: try again when it serves")

// Apply is Prepare, and then applies.
func (s *Server) Apply(to Settings) error {
	apply, err := s.Prepare(to)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	apply()
	return nil
}

func (s *Server) apply(cfg *Config) {
	s.host.BoundConnections(cfg.ConnectionMemory)
	s.beanstalkd.SetMaxJobSize(cfg.MaxJobSize)
	s.gearmand.Set(cfg.Gearman)
	if s.reactor != nil {
		s.reactor.SetMaxConnections(cfg.MaxConnections)
	}
	s.leading.Lock()
	defer s.leading.Unlock()
	if s.life.Phase() == admin.Following {
		return // whoever applies what another server does has the shards; see Follower.Lead
	}
	caller := direct.New(s.host.Map, s.host.Clock)
	opts := submitOptions(&cfg.Gearman)
	for i := range s.host.Map.Shards() {
		caller.Visit(context.Background(), i, func(sh *shard.Shard) { sh.SetSubmitOptions(opts) })
	}
}
