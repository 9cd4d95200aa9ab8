package access

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"polystalk/codec/tomlfile"
)

// The bounds of a file. They bound the time of a look-up and of the scan after a reload.
const (
	identitiesMax = 1000
	patternsMax   = 64 // of an identity, over all verbs
	tokensMax     = 2  // of an identity: an old one and a new one while clients change
)

// defaultName is the identity of clients without another one.
const defaultName = "default"

// A table is the content of an access file. It never changes.
type table struct {
	identities map[string]*rules
	order      []string // the names of the identities, in the order of the file
	// owners maps each credential to its identity. A key is a digest of a token, a name of a
	// certificate as in "DNS:web.example.com", a user's number, or a network.
	owners         [ByServer]map[string]string
	networks       []netip.Prefix // longest first
	plaintextToken bool           // tokens are accepted from a network without TLS
	digest         digest         // see Identities.Digest
	limited        []*Identity    // those with a limit of jobs or bytes, in the order of the file
}

// A parser collects the faults and the content of one file.
type parser struct {
	table
	faults tomlfile.Errors
	places map[string]tomlfile.Place // of the tables, by identity
	single map[string]string         // identity to its first key that role excludes
	canon  []string                  // for the digest: one text for each key
	lookup func(name string) (uid string, err error)
}

// parse reads the text of a file. The error is a tomlfile.Errors. An error must not contain a
// value of tokens: by mistake it may be the token itself, and errors are logged.
func parse(path string, text []byte, lookup func(string) (string, error)) (*table, error) {
	p := &parser{places: make(map[string]tomlfile.Place), single: make(map[string]string), lookup: lookup}
	p.identities = make(map[string]*rules)
	for i := range p.owners {
		p.owners[i] = make(map[string]string)
	}
	keys, faults := tomlfile.Parse(path, text, p.openTable)
	p.faults = append(p.faults, faults...)
	for _, k := range keys {
		name, ok := strings.CutPrefix(k.Table, tablePrefix)
		switch {
		case k.Table == "" && k.Name == "plaintext-tokens":
			if p.plaintextToken, ok = k.Value.(bool); !ok {
				p.fault(k, "give true or false, without quotes")
			}
			p.canon = append(p.canon, fmt.Sprintf("plaintext-tokens %v", p.plaintextToken))
		case !ok:
			p.fault(k, "a key outside a table: write [identity.NAME] above it")
		default:
			p.key(k, name)
		}
	}
	for name, r := range p.identities {
		if len(r.list) > patternsMax {
			p.faults = append(p.faults, p.places[name].Errorf("identity %q has more than %d patterns: use * or another identity", name, patternsMax))
		}
	}
	if len(p.identities) == 0 && len(p.faults) == 0 {
		p.faults = append(p.faults, tomlfile.Place{File: path}.Errorf("there is no identity: write at least one, as polystalk access new prints it"))
	}
	slices.SortFunc(p.networks, func(a, b netip.Prefix) int { return b.Bits() - a.Bits() })
	slices.Sort(p.canon)
	p.digest = DigestOf(strings.Join(p.canon, "\n"))
	if len(p.faults) > 0 {
		slices.SortStableFunc(p.faults, func(a, b *tomlfile.Error) int { return a.Line - b.Line })
		return nil, p.faults
	}
	return &p.table, nil
}

// Check returns the faults of the text of an access file, as a tomlfile.Errors.
func Check(path string, text []byte) error {
	_, err := parse(path, text, lookUpUser)
	return err
}

const tablePrefix = "identity."

// openTable checks a line in brackets.
func (p *parser) openTable(at tomlfile.Place, text string) *tomlfile.Error {
	name, ok := strings.CutPrefix(text, tablePrefix)
	switch {
	case !ok || name == "":
		return at.Errorf("unknown table %q: write [identity.NAME]", text)
	case !IsName(name):
		return at.Errorf("%q is not a name: give 1 to 64 of a-z, 0-9, _ and -, as in [identity.web-1]", name)
	case name == "none" || name == "server":
		return at.Errorf("the name %q is reserved: choose another one", name)
	case p.identities[name] != nil:
		return at.Errorf("identity %q is already in line %d: leave one of the two out", name, p.places[name].Line)
	case len(p.identities) == identitiesMax:
		return at.Errorf("there are more than %d identities: remove unused ones", identitiesMax)
	}
	p.identities[name], p.places[name] = new(rules), at
	p.order = append(p.order, name)
	p.canon = append(p.canon, "identity "+name)
	return nil
}

// IsName reports whether a name may be an identity. A dot would begin a nested table.
func IsName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	})
}

func (p *parser) fault(k *tomlfile.Key, format string, args ...any) {
	p.faults = append(p.faults, k.Errorf(k.Name+": "+format, args...))
}

// key reads one key of an identity.
func (p *parser) key(k *tomlfile.Key, name string) {
	r := p.identities[name]
	verb := slices.Index(verbNames[:], k.Name)
	if verb >= 0 || k.Name == "server" || k.Name == "bodies" || k.Name == "role" {
		if k.Name == "role" || p.single[name] == "role" {
			if p.single[name] != "" {
				p.fault(k, "an identity has a role, or single rights such as put and server: leave one of the two out")
			}
		}
		p.single[name] = k.Name
	}
	if _, isList := k.Value.([]any); !isList {
		p.canon = append(p.canon, fmt.Sprintf("%s %s %v", name, k.Name, k.Value))
	}
	text, _ := k.Value.(string)
	switch k.Name {
	case "tokens":
		p.credentials(k, name, ByToken, tokenKey)
	case "certificates":
		p.credentials(k, name, ByCertificate, certificateKey)
	case "users":
		p.credentials(k, name, ByUser, p.lookup)
	case "networks":
		p.credentials(k, name, ByNetwork, networkKey)
	case "role":
		if preset := presets[text]; preset != nil {
			r.list, r.level, r.bodies, r.role = preset.list, preset.level, preset.bodies, preset.role
		} else {
			p.fault(k, `unknown role: give "read", "operate" or "admin"`)
		}
	case "server":
		if r.level = Level(slices.Index(levelNames[:], text)); r.level > AdminLevel {
			p.fault(k, `give "none", "read" or "admin"`)
		}
	case "bodies":
		b, err := ParseBodies(text)
		if r.bodies = &b; err != nil {
			p.fault(k, `give "none", "preview" or "full"`)
		}
	default:
		switch {
		case verb >= 0:
			p.patterns(k, name, 1<<verb)
		case !p.quota(k, name):
			p.fault(k, "the key is unknown: give tokens, certificates, users or networks; put, work, look, manage, server and bodies, or role; or connections, puts-per-second, jobs and bytes")
		}
	}
}

// texts returns the list of a key; nil after a fault.
func (p *parser) texts(k *tomlfile.Key, name string) (texts []string) {
	list, ok := k.Value.([]any)
	texts = make([]string, 0, len(list))
	for _, v := range list {
		text, isText := v.(string)
		ok = ok && isText
		texts = append(texts, text)
	}
	if !ok {
		p.fault(k, `give a list of texts in brackets, as in ["mail-*"]`)
		return nil
	}
	if sorted := slices.Clone(texts); len(sorted) > 0 {
		slices.Sort(sorted)
		p.canon = append(p.canon, name+" "+k.Name+" "+strings.Join(sorted, "\x00"))
	}
	return texts
}

// patterns reads the patterns of a verb.
func (p *parser) patterns(k *tomlfile.Key, name string, verb Verbs) {
	r, texts := p.identities[name], p.texts(k, name)
	r.list = slices.Grow(r.list, len(texts))
	for _, text := range texts {
		one, err := parsePattern(text)
		if err != nil {
			p.fault(k, "%q: %v", text, err)
			continue
		}
		r.list = append(r.list, rule{pattern: one, verbs: verb, line: k.Line})
	}
}

// credentials reads a list of credentials. keyOf returns the key in the table.
func (p *parser) credentials(k *tomlfile.Key, name string, by Method, keyOf func(string) (string, error)) {
	if name == defaultName {
		p.fault(k, "the identity default is for clients that match no other identity: write the list for another one")
		return
	}
	texts := p.texts(k, name)
	if by == ByToken && len(texts) > tokensMax {
		p.fault(k, "there are more than %d tokens: remove the old one after the clients have changed", tokensMax)
		return
	}
	for i, text := range texts {
		key, err := keyOf(text)
		shown := strconv.Quote(text)
		if by == ByToken {
			shown = fmt.Sprintf("number %d", i+1)
		}
		if err != nil {
			p.fault(k, "%s: %v", shown, err)
			continue
		}
		if other, twice := p.owners[by][key]; twice {
			p.fault(k, "%s is already one of identity %q: leave one of the two out", shown, other)
			continue
		}
		p.owners[by][key] = name
		if by == ByNetwork {
			p.networks = append(p.networks, netip.MustParsePrefix(key))
		}
	}
}

// tokenKey reads sha256:HEX.
func tokenKey(text string) (string, error) {
	digits, ok := strings.CutPrefix(text, "sha256:")
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != len(digest{}) {
		return "", fmt.Errorf("not a digest: give sha256: and %d hexadecimal digits, as polystalk access new prints them", 2*len(digest{}))
	}
	return string(b), nil
}

// certificateKey reads a name of a certificate.
func certificateKey(text string) (string, error) {
	kind, name, _ := strings.Cut(text, ":")
	if name == "" || !slices.Contains([]string{"DNS", "URI", "CN"}, kind) {
		return "", fmt.Errorf("give DNS:, URI: or CN: and a name, as in DNS:web.example.com")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("a name cannot contain control characters")
	}
	return text, nil
}

// networkKey reads an address or a network.
func networkKey(text string) (string, error) {
	p, err := netip.ParsePrefix(text)
	if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
		p, err = addr.Prefix(addr.BitLen())
	}
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 { // clients are compared as 4
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("neither an address nor a network: give one, as in 10.1.2.0/24")
	case p.Bits() == 0:
		return "", fmt.Errorf("the network has every address: write [identity.default] for all clients")
	case p != p.Masked():
		return "", fmt.Errorf("the address has bits behind the prefix: give %v", p.Masked())
	}
	return p.String(), nil
}

// lookUpUser returns the number of a user of this machine, by name or number.
func lookUpUser(text string) (string, error) {
	if uid, err := strconv.ParseUint(text, 10, 32); err == nil {
		return strconv.FormatUint(uid, 10), nil
	}
	u, err := user.Lookup(text)
	if err != nil {
		return "", fmt.Errorf("this machine has no such user: give a name or a number that it has")
	}
	return u.Uid, nil
}
