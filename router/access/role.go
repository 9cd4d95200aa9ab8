package access

import "fmt"

// A Role is what somebody may do; each may do what the ones before it may. The zero value
// is that of nobody, and the need of what is for everybody.
type Role uint8

// The roles.
const (
	Nobody  Role = iota // what is for everybody: whether the server lives
	Read                // look at all but the bodies of jobs
	Operate             // put, change and delete jobs, pause tubes; read bodies
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
	Bodies bool // he may read the bodies of jobs although his role is Read
}

// May reports whether the grant is enough for what needs a role.
func (g Grant) May(need Role) bool { return g.Role >= need }

// MayReadBodies reports whether the bodies of jobs may be shown.
func (g Grant) MayReadBodies() bool { return g.Bodies || g.Role >= Operate }
