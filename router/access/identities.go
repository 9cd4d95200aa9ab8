package access

import (
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
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

	mu          sync.Mutex // held to write the maps
	identities  map[string]*Identity
	credentials [ByServer]sync.Map // of Method: key to *Credential; those of earlier files stay
	named       sync.Map           // of named to *Credential; see Named
}

// Open reads an access file. The error is a tomlfile.Errors.
func Open(path string) (*Identities, error) {
	t := &Identities{path: path, identities: make(map[string]*Identity)}
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
	text, err := tomlfile.Read(t.path)
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
	for name := range next.identities {
		if t.identities[name] == nil {
			t.identities[name] = &Identity{name: name, class: uint16(min(len(t.identities)+1, classMax))}
		}
	}
	// An identity without rules may do nothing, so it does not matter that sessions see these
	// changes one after the other.
	for name, i := range t.identities {
		was := i.limits().puts
		if i.rules.Store(next.identities[name]); i.limits().puts != was {
			i.usage.paid.Store(0) // the time was by the other rate
		}
	}
	for by := range t.credentials {
		t.credentials[by].Range(func(key, c any) bool {
			c.(*Credential).identity.Store(t.ownerIn(next, Method(by), key.(string)))
			return true
		})
		for key := range next.owners[by] {
			t.credential(next, Method(by), key)
		}
	}
	t.credential(next, ByDefault, "")
	t.assign()
	next.limited = t.limitedOf(next)
	t.table.Store(next)
}

// ownerIn returns the identity that a credential proves in a table; nil: none.
func (t *Identities) ownerIn(in *table, by Method, key string) *Identity {
	if by == ByDefault {
		key = defaultName
	} else {
		key = in.owners[by][key]
	}
	if in.identities[key] == nil {
		return nil
	}
	return t.identities[key]
}

// credential returns the credential of a key, and makes it if necessary. The caller holds mu.
func (t *Identities) credential(in *table, by Method, key string) *Credential {
	if c, ok := t.credentials[by].Load(key); ok {
		return c.(*Credential)
	}
	c := &Credential{by: by, key: key}
	c.identity.Store(t.ownerIn(in, by, key))
	t.credentials[by].Store(key, c)
	return c
}

// find returns the credential of a key in the current file; nil: there is none.
func (t *Identities) find(by Method, key string) *Credential {
	if c, ok := t.credentials[by].Load(key); ok {
		if c := c.(*Credential); c.Identity() != nil {
			return c
		}
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

// User returns the credential of a user of this machine; nil: there is none.
func (t *Identities) User(uid uint32) *Credential {
	return t.find(ByUser, strconv.FormatUint(uint64(uid), 10))
}

// Network returns the credential of the longest network with an address; nil: there is none.
func (t *Identities) Network(a netip.Addr) *Credential {
	a = a.Unmap().WithZone("")
	for _, p := range t.table.Load().networks {
		if p.Contains(a) {
			return t.find(ByNetwork, p.String())
		}
	}
	return nil
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

// Default returns the credential of clients without another one. It may be empty: see IsEmpty.
func (t *Identities) Default() *Credential {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.credential(t.table.Load(), ByDefault, "")
}

// Named returns the credential of a client that another server of the cluster has identified. The
// rules are of this server's file: the other server is trusted with names only. A name that the
// file does not have has no rights.
func (t *Identities) Named(name string, by Method) *Credential {
	key := named{name, by}
	if c, ok := t.named.Load(key); ok {
		return c.(*Credential)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c, i := &Credential{by: by}, t.identities[name]
	if i == nil {
		return c
	}
	if old, ok := t.named.Load(key); ok {
		return old.(*Credential)
	}
	c.identity.Store(i)
	t.named.Store(key, c)
	t.assign()
	return c
}

// named is the key of a credential that another server has checked.
type named struct {
	identity string
	by       Method
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
	in := t.table.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range in.identities {
		all = append(all, t.identities[name])
	}
	slices.SortFunc(all, func(a, b *Identity) int { return strings.Compare(a.name, b.name) })
	return all
}

// Credentials returns how a client can prove an identity, as the number of its credentials of each
// method.
func (t *Identities) Credentials(name string) (n [ByServer]int) {
	in := t.table.Load()
	for by := range in.owners {
		for _, owner := range in.owners[by] {
			if owner == name {
				n[by]++
			}
		}
	}
	return n
}

// Exposed reports whether users other than the owner and the group may read the file, or others
// than the owner may write it.
func (t *Identities) Exposed() bool {
	info, err := os.Stat(t.path)
	return err == nil && info.Mode().Perm()&0o027 != 0
}
