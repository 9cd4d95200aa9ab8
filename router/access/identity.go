package access

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// A Level is what an identity may do with the server itself, apart from its tubes.
type Level uint8

// The levels. Each includes the levels before it.
const (
	NoLevel    Level = iota
	ReadLevel        // see statistics, metrics, connections, journal, configuration and cluster
	AdminLevel       // reload, drain, log level, audit, close connections, change the cluster
)

var levelNames = [...]string{NoLevel: "none", ReadLevel: "read", AdminLevel: "admin"}

// String returns the name that the access file has.
func (l Level) String() string { return levelNames[l] }

// Bodies is how much of job bodies a client may see. Operators may have to run a queue without
// reading its data.
type Bodies uint8

// The values of Bodies.
const (
	None    Bodies = iota
	Preview        // the first bytes
	Full
)

var bodiesNames = [...]string{None: "none", Preview: "preview", Full: "full"}

// String returns the name that ParseBodies reads.
func (b Bodies) String() string { return bodiesNames[b] }

// ParseBodies reads the name of a value.
func ParseBodies(name string) (Bodies, error) {
	if i := slices.Index(bodiesNames[:], name); i >= 0 {
		return Bodies(i), nil
	}
	return None, fmt.Errorf("unknown value %q: give full, preview or none", name)
}

// rules are what an identity may do. They never change.
type rules struct {
	list   []rule
	level  Level
	bodies *Bodies // nil: the setting of the server, for an identity that may work or manage
	role   string  // the preset that the file names; empty: none
	quotas quotas
	line   int // of its table in the file
}

// An Identity is a client, or a group of clients, of the access file. It keeps its address while
// reloads change what it may do. Any goroutine may call its methods.
type Identity struct {
	name  string
	class uint16                // see Class
	rules atomic.Pointer[rules] // nil: the file has no such identity any more
	usage usage
}

// Name returns the name in the file.
func (i *Identity) Name() string { return i.name }

// Rules returns the role of the identity, and one text for each of its patterns, as in
// "put mail-* (line 7)".
func (i *Identity) Rules() (role string, patterns []string) {
	r := i.rules.Load()
	if r == nil {
		return "", nil
	}
	for _, one := range r.list {
		patterns = append(patterns, one.describe())
	}
	return r.role, patterns
}

func (r *rule) describe() string {
	if r.line == 0 {
		return fmt.Sprintf("%v %s (role)", r.verbs, r.text)
	}
	return fmt.Sprintf("%v %s (line %d)", r.verbs, r.text, r.line)
}

// verbs returns the verbs on a tube.
func (i *Identity) verbs(tube []byte) Verbs {
	if r := i.rules.Load(); r != nil {
		return allowed(r.list, tube)
	}
	return 0
}

// Explain returns, for each verb, whether the identity has it on a tube, and the rule that decides
// it; an empty rule means that no pattern matches.
func (i *Identity) Explain(tube []byte) (has Verbs, because [len(verbNames)]string) {
	r := i.rules.Load()
	if r == nil {
		return 0, because
	}
	for n := range verbNames {
		v := Verbs(1) << n
		for k := range r.list {
			one := &r.list[k]
			relevant := one.verbs&v != 0 || v == Look && one.verbs&Work != 0 && !one.exclude
			if relevant && (because[n] == "" || one.exclude) && one.matches(tube) {
				because[n] = one.describe()
			}
		}
	}
	return allowed(r.list, tube), because
}

// The presets: a role in the file stands for these rules.
var presets = map[string]*rules{
	"read":    {role: "read", list: onAll(Look), level: ReadLevel, bodies: new(Bodies)},
	"operate": {role: "operate", list: onAll(Every), level: ReadLevel},
	"admin":   {role: "admin", list: onAll(Every), level: AdminLevel, bodies: full()},
}

func onAll(v Verbs) []rule {
	p, _ := parsePattern("*") // is valid
	return []rule{{pattern: p, verbs: v}}
}

func full() *Bodies { b := Full; return &b }

// A Method is how a client proves its identity.
type Method uint8

// The methods. A token replaces an identity of ByDefault and ByNetwork only.
const (
	ByDefault Method = iota
	ByNetwork
	ByUser
	ByCertificate
	ByToken
	ByServer // the server itself gives the role of a listener: there is no access file
)

var methodNames = [...]string{ByDefault: "default", ByNetwork: "network", ByUser: "user", ByCertificate: "certificate", ByToken: "token", ByServer: "server"}

// String returns the name for people.
func (m Method) String() string { return methodNames[m] }

// ParseMethod reads the name of a method.
func ParseMethod(name string) (Method, bool) {
	i := slices.Index(methodNames[:], name)
	return Method(max(i, 0)), i >= 0
}

// A Credential is one way to be an identity: one token, name of a certificate, user or network.
// Sessions keep it. It keeps its address while reloads change its identity. A nil Credential
// permits everything: the server has no access file. Any goroutine may call its methods.
type Credential struct {
	by       Method
	key      string                   // within the method; see table
	identity atomic.Pointer[Identity] // nil: the file does not have the credential any more
	sessions atomic.Int64             // see Enter
}

// Preset returns a credential with the rights of a role, for a server without an access file. name
// is the client's name in the audit; it may be empty. An unknown role has no rights.
func Preset(role, name string) *Credential {
	c := &Credential{by: ByServer}
	i := &Identity{name: name}
	i.rules.Store(presets[role])
	c.identity.Store(i)
	return c
}

// Nobody returns a credential without rights.
func Nobody() *Credential { return Preset("", "") }

// By returns the method.
func (c *Credential) By() Method {
	if c == nil {
		return ByServer
	}
	return c.by
}

// Identity returns the identity; nil: there is none, or none any more, or no access file.
func (c *Credential) Identity() *Identity {
	if c == nil {
		return nil
	}
	if i := c.identity.Load(); i != nil && i.rules.Load() != nil {
		return i
	}
	return nil
}

// Name returns the name of the identity; empty: there is none. Another server of the cluster may have
// named an identity that the file does not have any more.
func (c *Credential) Name() string {
	if c == nil {
		return ""
	}
	if i := c.identity.Load(); i != nil {
		return i.name
	}
	return ""
}

// Verbs returns the verbs on a tube. It takes 30 ns for a pattern.
func (c *Credential) Verbs(tube []byte) Verbs {
	if c == nil {
		return Every
	}
	if i := c.identity.Load(); i != nil {
		return i.verbs(tube)
	}
	return 0
}

// current returns the rules; nil: there are none.
func (c *Credential) current() *rules {
	if i := c.Identity(); i != nil {
		return i.rules.Load()
	}
	return nil
}

// Level returns the level of the server.
func (c *Credential) Level() Level {
	if c == nil {
		return AdminLevel
	}
	if r := c.current(); r != nil {
		return r.level
	}
	return NoLevel
}

// Sees returns how much of job bodies the client may see in tubes that it may look at; usual is
// the setting of the server.
func (c *Credential) Sees(usual Bodies) Bodies {
	if c == nil {
		return usual
	}
	switch r := c.current(); {
	case r == nil:
		return None
	case r.bodies != nil && (c.by != ByServer || *r.bodies == None):
		return *r.bodies
	case c.Some()&(Work|Manage) != 0:
		return usual
	}
	return None
}

// Some returns the verbs that some pattern gives.
func (c *Credential) Some() (v Verbs) {
	if c == nil {
		return Every
	}
	if r := c.current(); r != nil {
		for i := range r.list {
			if !r.list[i].exclude {
				v |= r.list[i].verbs
			}
		}
	}
	return v.complete()
}

// Everywhere reports whether the client has the verbs on every tube: the pattern * gives them,
// and no other pattern takes them away.
func (c *Credential) Everywhere(v Verbs) bool {
	if c == nil {
		return true
	}
	var with, without Verbs
	if r := c.current(); r != nil {
		for i := range r.list {
			switch one := &r.list[i]; {
			case one.exclude:
				without |= one.verbs
			case slices.Equal(one.tokens, []int16{anyBytes}):
				with |= one.verbs
			}
		}
	}
	return (with&^without).complete()&^without&v == v
}

// Role returns the role that the file or the listener gives; "custom": single rights; "none": no
// rights.
func (c *Credential) Role() string {
	switch r := c.current(); {
	case r == nil:
		return "none"
	case r.role == "":
		return "custom"
	default:
		return r.role
	}
}

// IsEmpty reports whether the client may do nothing at all: it must prove an identity first.
func (c *Credential) IsEmpty() bool { return c.Some() == 0 && c.Level() == NoLevel }
