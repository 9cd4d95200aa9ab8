package router

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"runtime"

	"polystalk/codec/beanstalk"
	"polystalk/router/admin"
	"polystalk/router/gearmand"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// GearmanConfig says how Gearman is spoken.
type GearmanConfig = gearmand.Config

// ShutdownFrom says whose shutdown command is obeyed.
type ShutdownFrom = gearmand.ShutdownFrom

// Whose shutdown is obeyed: that of this machine, of anyone, of nobody.
const (
	ShutdownLocal = gearmand.ShutdownLocal
	ShutdownAny   = gearmand.ShutdownAny
	ShutdownNone  = gearmand.ShutdownNone
)

const (
	// LoopsMax is the largest number of event loops.
	LoopsMax = session.LoopsMax
	// ShardsMax is the largest number of shards: tubes are hashed onto so many slots, and
	// a shard without a slot would have nothing to do.
	ShardsMax = core.Slots
)

// shardsPerLoop is the least number of shards a loop: two loops should not often meet in
// one.
const shardsPerLoop = 4

// DefaultLoops is the number of event loops unless another is asked for: one for each core
// that the process has. That is not runtime.NumCPU, since GOMAXPROCS starts from what a
// container's CPU limit leaves.
func DefaultLoops() int { return min(runtime.GOMAXPROCS(0), LoopsMax) }

// DefaultShards is the number of shards for so many loops unless another is asked for: four
// to seven for each.
func DefaultShards(loops int) int {
	return min(ShardsMax, 1<<bits.Len(uint(loops*shardsPerLoop-1)))
}

// Config says how a Server is built. The zero value of a field is its default.
type Config struct {
	// Loops is the number of event loops, up to LoopsMax; default DefaultLoops.
	Loops int
	// Shards is the number of shards, a power of two up to ShardsMax; default
	// DefaultShards of Loops.
	Shards int
	// MaxJobSize is the largest job body in bytes; default 65,535.
	MaxJobSize uint32
	// MaxConnections is how many clients are served at a time; default what
	// the limit of descriptors allows.
	MaxConnections int
	// OtherDescriptors are how many descriptors the process needs for what is not the
	// server's: connections of clients leave room for them.
	OtherDescriptors int
	// ConnectionMemory bounds what all connections together make the server keep
	// besides jobs, in bytes: input that cannot be used yet, bodies that are not all
	// there, and output that is not read. Default no bound.
	ConnectionMemory int64
	// BinlogMaxSize is what stats reports as binlog-max-size, in bytes.
	BinlogMaxSize int64
	// Journal keeps jobs across restarts; nil: they are in memory only.
	Journal *Journal
	// Gearman says how that is spoken.
	Gearman GearmanConfig
	// Clock is the server's time; nil: that of the machine.
	Clock *ops.Clock
	// Cluster is what operators see of the servers that keep the same jobs; nil: there is
	// this one alone.
	Cluster admin.Cluster
	// Version is what stats reports; it starts with digits.
	Version string
	// Log takes what the operator should know; nil discards it.
	Log *slog.Logger
}

// Validate reports what cannot be used.
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

// fill gives the fields that are zero their defaults; host is the machine's name.
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
