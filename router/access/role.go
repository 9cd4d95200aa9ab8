package access

import "fmt"

// A Role is what somebody may do; each may do what the ones before it may. The zero value
// is that of nobody, and the need of what is for everybody.
type Role uint8

// The roles.
const (
	Nobody  Role = iota // what is for everybody: whether the server lives
	Read                // look at all but the bodies of jobs
	Operate             // put, change and delete jobs, pause tubes; see their bodies as far as anybody may
	Admin               // what is about the server itself: its drain, its log
)

var roleNames = [...]string{Nobody: "none", Read: "read", Operate: "operate", Admin: "admin"}

// String is the role's name as ParseRole reads it.
func (r Role) String() string { return roleNames[r] }

// ParseRole reads the name of a role. "none" is one for who may be given none.
func ParseRole(name string) (Role, error) {
	for r, n := range roleNames {
		if n == name {
			return Role(r), nil
		}
	}
	return Nobody, fmt.Errorf("unknown role %q: give none, read, operate or admin", name)
}

// A Grant is what somebody may do, and how he is called in the audit.
type Grant struct {
	Name   string // of the token; empty: he showed none
	Role   Role
	Bodies bool // he may see all of the bodies of jobs, whatever his role
}

// May reports whether the grant is enough for what needs a role.
func (g Grant) May(need Role) bool { return g.Role >= need }

// Sees is how much of the bodies of jobs he may see where operators see as much as usual.
func (g Grant) Sees(usual Bodies) Bodies {
	switch {
	case g.Bodies:
		return Full
	case g.Role >= Operate:
		return usual
	}
	return None
}

// Bodies is how much of the bodies of jobs somebody may see. What stands in them may be
// nobody's business who only keeps the queue going.
type Bodies uint8

// How much that is.
const (
	None    Bodies = iota
	Preview        // how each of them begins
	Full
)

var bodiesNames = [...]string{None: "none", Preview: "preview", Full: "full"}

// String is the name as ParseBodies reads it.
func (b Bodies) String() string { return bodiesNames[b] }

// ParseBodies reads how much somebody may see.
func ParseBodies(name string) (Bodies, error) {
	for b, n := range bodiesNames {
		if n == name {
			return Bodies(b), nil
		}
	}
	return None, fmt.Errorf("%q is unknown: give full, preview or none", name)
}
