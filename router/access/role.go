package access

import (
	"fmt"
	"slices"
)

// A Role is a set of permissions; each role includes the roles before it. A route that needs
// the zero value is open to everybody.
type Role uint8

// The roles.
const (
	Nobody  Role = iota // open routes, such as probes
	Read                // read all but job bodies
	Operate             // put, change and delete jobs, pause tubes, and see job bodies as --http-bodies allows
	Admin               // the server itself: drain, log, cluster
)

var roleNames = [...]string{Nobody: "none", Read: "read", Operate: "operate", Admin: "admin"}

// String returns the name that ParseRole reads.
func (r Role) String() string { return roleNames[r] }

// ParseRole reads the name of a role; "none" is Nobody.
func ParseRole(name string) (Role, error) {
	if i := slices.Index(roleNames[:], name); i >= 0 {
		return Role(i), nil
	}
	return Nobody, fmt.Errorf("unknown role %q: give none, read, operate or admin", name)
}

// A Grant has a client's permissions, and its name in the audit.
type Grant struct {
	Name   string // of the token; empty: no token
	Role   Role
	Bodies bool // the client may see whole job bodies, whatever its role
}

// May reports whether the grant includes a role.
func (g Grant) May(need Role) bool { return g.Role >= need }

// Sees returns how much of job bodies the client may see; usual is the setting for operators.
func (g Grant) Sees(usual Bodies) Bodies {
	switch {
	case g.Bodies:
		return Full
	case g.Role >= Operate:
		return usual
	}
	return None
}
