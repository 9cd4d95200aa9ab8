package gearmand

import (
	"errors"
	"fmt"

	"polystalk/codec/gearman"
)

// A Config has the settings of Gearman. The zero value of a field means its default.
type Config struct {
	// Prefix begins every job handle; default "H:" and the host's name, or the cluster's
	// number: see Front.ForCluster.
	Prefix    string
	namesHost bool // Prefix is the default with the host's name
	// MaxBody is the largest body of a packet in bytes; default 64 MiB.
	MaxBody uint32
	// MaxUnread bounds the bytes of reports that a client has not read. Above it the
	// connection is closed, and its jobs continue. Default twice MaxBody, so that two large
	// results in a row do not close a connection that reads.
	MaxUnread int
	// Retries is how often a job may lose its worker before it fails; zero: no limit.
	// Wakeup is how many sleeping workers a new job wakes; zero: all. BuryFailed buries
	// failed background jobs instead of deleting them. The shards use all three.
	Retries    uint32
	Wakeup     int
	BuryFailed bool
	// Exceptions switches the option exceptions on for every connection.
	Exceptions bool
	// Shutdown says which clients may use the command shutdown.
	Shutdown ShutdownFrom
	// Version is the reply to the command version; default 2.0.0.
	Version string
	// Verbose is the reply to the command verbose: the log level in gearmand's words;
	// default INFO.
	Verbose string
}

// MaxBodyLimit is the largest MaxBody, in bytes. It is also the largest job size of beanstalkd.
const MaxBodyLimit = 1 << 30

// Validate returns an error if a setting is invalid.
func (c *Config) Validate() error {
	switch {
	case !gearman.ValidPrefix(c.Prefix):
		return fmt.Errorf("the prefix of job handles is %q: use at most %d bytes, without spaces", c.Prefix, gearman.MaxPrefix)
	case c.MaxBody > MaxBodyLimit:
		return fmt.Errorf("the largest body of a Gearman packet is %d: use at most %d", c.MaxBody, MaxBodyLimit)
	case c.MaxUnread < 0:
		return errors.New("the limit of unread bytes of a Gearman client is negative")
	}
	return nil
}

// Fill sets fields that are zero to their defaults; host is the machine's name.
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
