package access

import (
	"cmp"
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
}

var (
	// unrestricted are the rules without an access file.
	unrestricted = &rules{list: onAll(Every), level: AdminLevel}
	// forbidden are the rules of an identity that the file does not have.
	forbidden = &rules{bodies: new(None), role: "none"}
	// presets are the rules that a role in the file stands for.
	presets = map[string]*rules{
		"read":    {role: "read", list: onAll(Look), level: ReadLevel, bodies: new(None)},
		"operate": {role: "operate", list: onAll(Every), level: ReadLevel},
		"admin":   {role: "admin", list: onAll(Every), level: AdminLevel, bodies: new(Full)},
	}
)

func onAll(v Verbs) []rule {
	p, _ := parsePattern("*") // is valid
	return []rule{{pattern: p, verbs: v}}
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

// current returns the rules as they are now. i may be nil.
func (i *Identity) current() *rules {
	if i != nil {
		if r := i.rules.Load(); r != nil {
			return r
		}
	}
	return forbidden
}

// A Description tells what an identity may do, and how clients can prove it.
type Description struct {
	Name, Role, Server string
	Rules              []string       // the patterns, as in "put mail-* (line 7)"
	Credentials        map[string]int // their number, by method
}

// Describe returns the description of an identity.
func (t *Identities) Describe(i *Identity) Description {
	r := i.current()
	d := Description{Name: i.name, Role: r.shownRole(), Server: r.level.String(), Rules: []string{}, Credentials: make(map[string]int)}
	for k := range r.list {
		d.Rules = append(d.Rules, r.list[k].describe())
	}
	for by, owners := range t.table.Load().owners {
		for _, owner := range owners {
			if owner == i.name {
				d.Credentials[Method(by).String()]++
			}
		}
	}
	return d
}

func (r *rule) describe() string {
	if r.line == 0 {
		return fmt.Sprintf("%v %s (role)", r.verbs, r.text)
	}
	return fmt.Sprintf("%v %s (line %d)", r.verbs, r.text, r.line)
}

// shownRole returns the role; "custom": single rights.
func (r *rules) shownRole() string { return cmp.Or(r.role, "custom") }

// Explain returns the verbs of the identity on a tube, and the rule that decides each verb. A verb
// without a rule is not in because: no pattern matches.
func (i *Identity) Explain(tube []byte) (has Verbs, because map[string]string) {
	because = make(map[string]string)
	r := i.current()
	for n, name := range verbNames {
		v := Verbs(1) << n
		for k := range r.list {
			one := &r.list[k]
			relevant := one.verbs&v != 0 || v == Look && one.verbs&Work != 0 && !one.exclude
			if relevant && (because[name] == "" || one.exclude) && one.matches(tube) {
				because[name] = one.describe()
			}
		}
	}
	return allowed(r.list, tube), because
}

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

// Name returns the name of the identity, also of one that the file does not have any more; empty:
// there is none.
func (c *Credential) Name() string {
	if c == nil {
		return ""
	}
	if i := c.identity.Load(); i != nil {
		return i.name
	}
	return ""
}

// current returns the rules as they are now.
func (c *Credential) current() *rules {
	if c == nil {
		return unrestricted
	}
	return c.identity.Load().current()
}

// Verbs returns the verbs on a tube. It takes 30 ns for a pattern.
func (c *Credential) Verbs(tube []byte) Verbs {
	if c == nil {
		return Every
	}
	return allowed(c.current().list, tube)
}

// Level returns the level of the server.
func (c *Credential) Level() Level { return c.current().level }

// Sees returns how much of job bodies the client may see in tubes that it may look at; usual is
// the setting of the server.
func (c *Credential) Sees(usual Bodies) Bodies {
	switch r := c.current(); {
	case r.bodies != nil && (c.by != ByServer || *r.bodies == None):
		return *r.bodies
	case c.Some()&(Work|Manage) != 0:
		return usual
	}
	return None
}

// Some returns the verbs that some pattern gives.
func (c *Credential) Some() (v Verbs) {
	for _, r := range c.current().list {
		if !r.exclude {
			v |= r.verbs
		}
	}
	return v.complete()
}

// Everywhere reports whether the client has the verbs on every tube: the pattern * gives them,
// and no other pattern takes them away.
func (c *Credential) Everywhere(v Verbs) bool {
	var with, without Verbs
	for _, r := range c.current().list {
		switch {
		case r.exclude:
			without |= r.verbs
		case slices.Equal(r.tokens, []int16{anyBytes}):
			with |= r.verbs
		}
	}
	return (with&^without).complete()&^without&v == v
}

// Role returns the role that the file or the listener gives; "custom": single rights; "none": no
// rights.
func (c *Credential) Role() string { return c.current().shownRole() }

// IsEmpty reports whether the client may do nothing at all: it must prove an identity first.
func (c *Credential) IsEmpty() bool { return c.Some() == 0 && c.Level() == NoLevel }
