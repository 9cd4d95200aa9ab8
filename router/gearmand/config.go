package gearmand

import (
	"errors"
	"fmt"

	"polystalk/codec/gearman"
)

// A Config says how Gearman is spoken. The zero value of a field is its default.
type Config struct {
	// Prefix begins every job handle; default "H:" and the host's name, or what the
	// servers of a cluster share: see Front.ForCluster.
	Prefix    string
	namesHost bool // Prefix is that default
	// MaxBody is the largest body of a packet in bytes; default 64 MiB.
	MaxBody uint32
	// MaxUnread bytes of reports are kept for a client that does not read; above it the
	// connection is closed, and its jobs go on. Default twice MaxBody: one large result
	// behind another must not close a connection that reads.
	MaxUnread int
	// Retries is how often a job may lose its worker before it fails; zero: any
	// number of times. Wakeup is how many sleeping workers are told of a job; zero:
	// all. BuryFailed keeps failed background jobs, buried. All three are for the
	// shards.
	Retries    uint32
	Wakeup     int
	BuryFailed bool
	// Exceptions switches the option of that name on for every connection.
	Exceptions bool
	// Shutdown says from where the command of that name is taken.
	Shutdown ShutdownFrom
	// Version is what the command of that name answers; default 2.0.0.
	Version string
	// Verbose is the level of the log in gearmand's words, which the command of that
	// name answers; default INFO.
	Verbose string
}

// MaxBodyLimit is the largest MaxBody, in bytes: a body becomes a job, and beanstalkd's
// jobs are not larger.
const MaxBodyLimit = 1 << 30

// Validate reports what cannot be used.
func (c *Config) Validate() error {
	switch {
	case !gearman.ValidPrefix(c.Prefix):
		return fmt.Errorf("the prefix of job handles is %q: use at most %d bytes, no blanks", c.Prefix, gearman.MaxPrefix)
	case c.MaxBody > MaxBodyLimit:
		return fmt.Errorf("the largest body of a Gearman packet is %d: use at most %d", c.MaxBody, MaxBodyLimit)
	case c.MaxUnread < 0:
		return errors.New("what may be unread of a Gearman client is negative")
	}
	return nil
}

// Fill gives the fields that are zero their defaults; host is the machine's name.
func (c *Config) Fill(host string) {
	if c.Prefix == "" {
		c.namesHost = true
		c.Prefix = "H:" + host[:min(len(host), gearman.MaxPrefix-len("H:"))]
	}
	if c.MaxBody == 0 {
		c.MaxBody = gearman.DefaultMaxBody
	}
	if c.MaxUnread == 0 {
		c.MaxUnread = 2 * int(c.MaxBody)
	}
	if c.Verbose == "" {
		c.Verbose = "INFO"
	}
	if c.Version == "" {
		c.Version = "2.0.0"
	}
}

// A ShutdownFrom says which clients may shut the server down.
type ShutdownFrom int

// Clients of this machine, any client, no client.
const (
	ShutdownLocal ShutdownFrom = iota
	ShutdownAny
	ShutdownNone
)
