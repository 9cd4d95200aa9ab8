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
	l := limitOf(s.cfg.MaxConnections, descriptors())
	return l.n, l.from
}

// limitOf takes want, unless that is 0 or more than the descriptors allow.
func limitOf(want, descriptors int) connectionLimit {
	if n := connectionsFor(descriptors); want == 0 || want > n {
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

// connectionsFor leaves descriptors for the loops, the listeners, accepting
// and clients that are slow to read: each of those takes a second one.
func connectionsFor(descriptors int) int {
	return max(1, descriptors-max(24, min(descriptors/8, 256)))
}
