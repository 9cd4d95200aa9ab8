package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"net/netip"
	"runtime"

	"polystalk/codec/beanstalk"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/router/direct"
	"polystalk/router/gearmand"
	"polystalk/router/ops"
	"polystalk/router/restore"
	"polystalk/router/session"
	"polystalk/shard"
	"polystalk/shard/core"
)

// GearmanConfig has the settings of the Gearman protocol.
type GearmanConfig = gearmand.Config

// ShutdownFrom says which clients may send shutdown.
type ShutdownFrom = gearmand.ShutdownFrom

// Clients of this machine, all clients, no clients.
const (
	ShutdownLocal = gearmand.ShutdownLocal
	ShutdownAny   = gearmand.ShutdownAny
	ShutdownNone  = gearmand.ShutdownNone
)

const (
	// LoopsMax is the largest number of event loops.
	LoopsMax = session.LoopsMax
	// ShardsMax is the largest number of shards. Tubes are hashed to as many slots, and a shard
	// without a slot would have no tubes.
	ShardsMax = core.Slots
	// shardsPerLoop is the default minimum of shards per loop: with several, two loops rarely
	// need the same shard.
	shardsPerLoop = 4
)

// Journal has the settings of the journal.
type Journal = restore.Config

// DefaultLoops returns the default number of event loops: one for each core of the process.
// This is not runtime.NumCPU: GOMAXPROCS respects the CPU limit of a container.
func DefaultLoops() int { return min(runtime.GOMAXPROCS(0), LoopsMax) }

// DefaultShards returns the default number of shards: four to seven for each loop.
func DefaultShards(loops int) int {
	return min(ShardsMax, 1<<bits.Len(uint(loops*shardsPerLoop-1)))
}

// Config has the settings of a Server. The zero value of a field means its default.
type Config struct {
	// Loops is the number of event loops, up to LoopsMax; default DefaultLoops.
	Loops int
	// Shards is the number of shards, a power of two up to ShardsMax; default
	// DefaultShards of Loops.
	Shards int
	// MaxJobSize is the largest job body in bytes; default 65,535.
	MaxJobSize uint32
	// MaxConnections is the largest number of connections; default the number that the limit
	// of descriptors allows.
	MaxConnections int
	// OtherDescriptors is how many descriptors the process needs for other purposes. The
	// connection limit leaves room for them.
	OtherDescriptors int
	// ConnectionMemory bounds the memory of all connections, jobs excluded, in bytes: input that
	// must wait, incomplete bodies, and unread output. Default no bound.
	ConnectionMemory int64
	// TLS allows handshakes descriptors and processors; see Server.Secure.
	TLS bool
	// Balancers are the networks of load balancers; see Server.Balanced.
	Balancers []netip.Prefix
	// BinlogMaxSize is the binlog-max-size in stats, in bytes.
	BinlogMaxSize int64
	// Journal keeps jobs across restarts; nil: they are in memory only.
	Journal *Journal
	// Access has the identities of the access file, which limit what clients may do; nil: clients
	// may do everything. See Server.Reauthorize.
	Access *access.Identities
	// Gearman has the settings of that protocol.
	Gearman GearmanConfig
	// Clock is the server's time; nil: the machine's clock.
	Clock *ops.Clock
	// Cluster is the server's cluster as operators see it; nil: the server is alone.
	Cluster admin.Cluster
	// Version is the version in stats. It starts with digits.
	Version string
	// Log gets messages for operators; nil discards them.
	Log *slog.Logger
}

// Validate returns an error if a setting is invalid.
func (c *Config) Validate() error {
	switch {
	case c.Loops < 0 || c.Loops > LoopsMax:
		return fmt.Errorf("loops is %d: use 1 to %d", c.Loops, LoopsMax)
	case c.Shards < 0 || c.Shards > ShardsMax:
		return fmt.Errorf("shards is %d: use 1 to %d", c.Shards, ShardsMax)
	case bits.OnesCount(uint(c.Shards)) > 1:
		return fmt.Errorf("shards is %d: use a power of two", c.Shards)
	case c.MaxJobSize > beanstalk.MaxJobSizeLimit:
		return fmt.Errorf("the largest job size is %d: use at most %d", c.MaxJobSize, beanstalk.MaxJobSizeLimit)
	case c.ConnectionMemory < 0:
		return errors.New("the memory for connections is negative")
	case c.MaxConnections < 0:
		return errors.New("max connections is negative")
	}
	return c.Gearman.Validate()
}

// fill sets fields that are zero to their defaults; host is the machine's name.
func (c *Config) fill(host string) {
	if c.Loops == 0 {
		c.Loops = DefaultLoops()
	}
	if c.Shards == 0 {
		c.Shards = DefaultShards(c.Loops)
	}
	if c.MaxJobSize == 0 {
		c.MaxJobSize = beanstalk.DefaultMaxJobSize
	}
	if c.ConnectionMemory == 0 {
		c.ConnectionMemory = math.MaxInt64
	}
	if c.Clock == nil {
		c.Clock = ops.SystemClock()
	}
	c.Gearman.Fill(host)
	if c.Version == "" {
		c.Version = "1.13.0"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// submitOptions returns the Gearman settings that a shard needs.
func submitOptions(g *GearmanConfig) core.SubmitOptions {
	return core.SubmitOptions{Retries: g.Retries, Wakeup: g.Wakeup, BuryFailed: g.BuryFailed}
}

// Settings are the settings that can change while the server serves. All others in Config need
// a restart, and so does the Prefix of Gearman's handles, by which clients know them.
type Settings struct {
	// MaxJobSize, MaxConnections and ConnectionMemory are as in Config; zero: the default.
	MaxJobSize       uint32
	MaxConnections   int
	ConnectionMemory int64
	// Gearman is as in Config. Its Prefix and its Version are ignored.
	Gearman GearmanConfig
}

// Settings returns the settings of a Config that can change.
func (c *Config) Settings() Settings {
	return Settings{
		MaxJobSize: c.MaxJobSize, MaxConnections: c.MaxConnections, ConnectionMemory: c.ConnectionMemory, Gearman: c.Gearman,
	}
}

// Prepare checks settings, and returns a function that applies them, which cannot fail. It
// changes nothing itself. While the journal is read, it returns an error.
//
// New settings apply to later connections and commands. Connections above a lower MaxConnections
// stay, and a body that is being received is accepted; only a lower ConnectionMemory may close
// connections. apply waits for the shards, so a loop must not call it. It is not safe for concurrent
// use. On a follower, the shards get the new settings in Follower.Lead.
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

// Reauthorize applies a changed access file to the open connections, and returns how many it has
// closed: those that use a right which they have lost. Once it has returned, no connection has a
// right that the file does not give.
func (s *Server) Reauthorize(ctx context.Context) (closed int, err error) {
	done := make(chan int, 1)
	s.classify()
	s.host.Reauthorize(func(n int) { done <- n })
	select {
	case closed = <-done:
		return closed, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("the event loops do not respond, so some connections may keep rights that they have lost: %w", ctx.Err())
	}
}

// classify gives each tube its class of quotas again.
func (s *Server) classify() {
	s.leading.Lock()
	defer s.leading.Unlock()
	if p := s.life.Phase(); p == admin.Following || p == admin.Starting {
		return // tubes get their classes at the end of that
	}
	caller := direct.New(s.host.Map, s.host.Clock)
	for i := range s.host.Map.Shards() {
		for from, more := 0, true; more; more = from > 0 {
			caller.Visit(context.Background(), i, func(sh *shard.Shard) { from = sh.Classify(from) })
		}
	}
}

var errStarting = errors.New("the server is still starting: try again later")

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
		return // the shards apply what the leader writes; see Follower.Lead
	}
	caller := direct.New(s.host.Map, s.host.Clock)
	opts := submitOptions(&cfg.Gearman)
	for i := range s.host.Map.Shards() {
		caller.Visit(context.Background(), i, func(sh *shard.Shard) { sh.SetSubmitOptions(opts) })
	}
}
