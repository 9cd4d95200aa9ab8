package access

import (
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"polystalk/codec/tomlfile"
)

// Identities are the identities of an access file, from the last time that it was read without a
// fault. All methods may be called concurrently.
type Identities struct {
	// Denials are the newest refusals.
	Denials Denials

	path  string
	table atomic.Pointer[table]

	mu          sync.Mutex // guards the maps; what earlier files had stays in them
	identities  map[string]*Identity
	credentials map[proof]*Credential
}

// A proof is what a Credential stands for.
type proof struct {
	by    Method
	key   string // of table.owners; if named is set, the name of an identity
	named bool   // another server of the cluster has checked it: see Named
}

// Open reads an access file. The error is a tomlfile.Errors.
func Open(path string) (*Identities, error) {
	t := &Identities{path: path, identities: make(map[string]*Identity), credentials: make(map[proof]*Credential)}
	use, err := t.Prepare()
	if err != nil {
		return nil, err
	}
	use()
	return t, nil
}

// Prepare reads the file again. use replaces what identities may do and how clients prove them.
// Identities and Credentials keep their addresses. After an error nothing has changed; the error
// is a tomlfile.Errors.
func (t *Identities) Prepare() (use func(), err error) {
	text, err := ReadFile(t.path, false)
	if err != nil {
		return nil, tomlfile.Errors{tomlfile.Place{File: t.path}.Errorf("the access file cannot be read (%v): give a file that this user may read", err)}
	}
	next, err := parse(t.path, text, lookUpUser)
	if err != nil {
		return nil, err
	}
	return func() { t.use(next) }, nil
}

func (t *Identities) use(next *table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range next.order {
		i := t.identities[name]
		if i == nil {
			i = &Identity{name: name, class: uint16(min(len(t.identities)+1, classMax))}
			t.identities[name] = i
		}
		if next.identities[name].quotas.areOfJobs() {
			next.limited = append(next.limited, i)
		}
	}
	// An identity without rules may do nothing, so it does not matter that sessions see these
	// changes one after the other.
	for name, i := range t.identities {
		was := i.current().quotas.puts
		if i.rules.Store(next.identities[name]); i.current().quotas.puts != was {
			i.usage.paid.Store(0) // the time was by the other rate
		}
	}
	for p, c := range t.credentials {
		c.identity.Store(t.owner(next, p))
	}
	for by := range next.owners {
		for key := range next.owners[by] {
			t.credential(next, proof{by: Method(by), key: key})
		}
	}
	t.credential(next, proof{by: ByDefault})
	t.assign()
	t.table.Store(next)
}

// owner returns the identity of a proof in a table; nil: there is none. The caller holds mu.
func (t *Identities) owner(in *table, p proof) *Identity {
	name := p.key
	switch {
	case p.named:
		return t.identities[name]
	case p.by == ByDefault:
		name = defaultName
	default:
		name = in.owners[p.by][p.key]
	}
	if in.identities[name] == nil {
		return nil
	}
	return t.identities[name]
}

// credential returns the credential of a proof, and makes it if necessary. The caller holds mu.
func (t *Identities) credential(in *table, p proof) *Credential {
	c := t.credentials[p]
	if c == nil {
		c = &Credential{by: p.by}
		c.identity.Store(t.owner(in, p))
		t.credentials[p] = c
	}
	return c
}

// find returns the credential of a key in the current file; nil: there is none.
func (t *Identities) find(by Method, key string) *Credential {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.credentials[proof{by: by, key: key}]; c.Identity() != nil {
		return c
	}
	return nil
}

// The length of a token in bytes. A shorter one is never valid, so passwords cannot be tokens.
const (
	TokenMin = 20
	TokenMax = 190
)

// Token returns the credential of a token; nil: it is not one of the file. The look-up is by
// digest, so its time reveals nothing: a client cannot choose the beginning of a digest.
func (t *Identities) Token(token string) *Credential {
	if len(token) < TokenMin || len(token) > TokenMax {
		return nil
	}
	d := DigestOf(token)
	return t.find(ByToken, string(d[:]))
}

// Client returns the credential of a client that has shown neither a certificate nor a token. The first
// of these that the file has is the client's: its user, if it is a process of this machine; the longest
// network with its address; the default, which may be empty (see IsEmpty). An invalid address is in no
// network.
func (t *Identities) Client(uid uint32, isUser bool, addr netip.Addr) *Credential {
	if isUser {
		if c := t.find(ByUser, strconv.FormatUint(uint64(uid), 10)); c != nil {
			return c
		}
	}
	addr = addr.Unmap().WithZone("")
	for _, p := range t.table.Load().networks {
		if p.Contains(addr) {
			if c := t.find(ByNetwork, p.String()); c != nil { // a nil Credential would permit everything
				return c
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.credentials[proof{by: ByDefault}]
}

// Certificate returns the credential of a verified certificate; nil: no identity has one of its
// names. A certificate with names of two identities is an error. The subject's common name counts
// only if there is no other name.
func (t *Identities) Certificate(cert *x509.Certificate) (*Credential, error) {
	names := make([]string, 0, len(cert.DNSNames)+len(cert.URIs)+1)
	for _, name := range cert.DNSNames {
		names = append(names, "DNS:"+name)
	}
	for _, u := range cert.URIs {
		names = append(names, "URI:"+u.String())
	}
	if len(names)+len(cert.EmailAddresses)+len(cert.IPAddresses) == 0 {
		names = append(names, "CN:"+cert.Subject.CommonName)
	}
	var found *Credential
	for _, name := range names {
		c := t.find(ByCertificate, name)
		if c == nil {
			continue
		}
		if found != nil && found.Identity() != c.Identity() {
			return nil, fmt.Errorf("the certificate has names of two identities, %s and %s", found.Name(), c.Name())
		}
		found = c
	}
	return found, nil
}

// Named returns the credential of a client that another server of the cluster has identified. The
// rules are of this server's file: the other server is trusted with names only. A name that the
// file does not have has no rights.
func (t *Identities) Named(name string, by Method) *Credential {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.identities[name] == nil {
		return &Credential{by: by}
	}
	p := proof{by, name, true}
	c := t.credentials[p]
	if c == nil {
		c = t.credential(t.table.Load(), p)
		t.assign()
	}
	return c
}

// PlaintextTokens reports whether tokens are accepted from a network without TLS.
func (t *Identities) PlaintextTokens() bool { return t.table.Load().plaintextToken }

// Digest returns a digest of the rules in hex. It does not depend on order and comments, so it is
// equal on servers with the same rules.
func (t *Identities) Digest() string {
	d := t.table.Load().digest
	return hex.EncodeToString(d[:])
}

// All returns the identities of the file, by name.
func (t *Identities) All() (all []*Identity) {
	names := slices.Sorted(slices.Values(t.table.Load().order))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		all = append(all, t.identities[name])
	}
	return all
}

// Identity returns the identity of a name; nil: the file has none.
func (t *Identities) Identity(name string) *Identity {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.identities[name]; i != nil && i.rules.Load() != nil {
		return i
	}
	return nil
}

// Exposed reports whether users other than the owner and the group may read the file, or others
// than the owner may write it.
func (t *Identities) Exposed() bool {
	info, err := os.Stat(t.path)
	return err == nil && info.Mode().Perm()&0o027 != 0
}
