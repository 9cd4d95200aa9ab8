package router

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// A connectionLimit is how many clients are served at a time, and what says so.
type connectionLimit struct {
	n     int
	from  string
	asked bool // for by the operator
}

// ConnectionLimit is how many clients are served at a time, and, for people, what
// says so.
func (s *Server) ConnectionLimit() (n int, from string) {
	l := s.cfg.limitOf(descriptors())
	return l.n, l.from
}

// limitOf takes MaxConnections, unless that is 0 or more than the descriptors allow.
func (c *Config) limitOf(descriptors int) connectionLimit {
	want := c.MaxConnections
	if n := c.connectionsFor(descriptors); want == 0 || want > n {
		return connectionLimit{n: n, from: "the limit of " + strconv.Itoa(descriptors) + " descriptors"}
	}
	return connectionLimit{want, "--max-connections", true}
}

// descriptors is the process's limit.
func descriptors() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 1024
	}
	return int(min(r.Cur, 1<<30))
}

// What the server needs descriptors for besides its connections, each of which has one.
const (
	descriptorsBase     = 16 // standard streams, log, the runtime's poller, profiles, the directories of unix sockets
	descriptorsPump     = 2
	descriptorsListener = 1
	// A loop has its poller, that one's bell and a waker of two; and for a moment one more,
	// of a connection that is turned away, or that goes on without gnet.
	descriptorsLoop = 5
	descriptorsDoor = 1 // for each loop and listener
	listenersMost   = 4 // are counted with
)

// connectionsFor leaves descriptors for all else, the journal's among them: of clients
// there may be any number, and none of them is to keep the server from writing.
func (c *Config) connectionsFor(descriptors int) int {
	other := descriptorsBase + descriptorsPump + listenersMost*descriptorsListener +
		c.Loops*(descriptorsLoop+listenersMost*descriptorsDoor)
	if c.Journal != nil {
		other += journalDescriptors
	}
	return max(1, descriptors-other)
}
