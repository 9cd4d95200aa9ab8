package access

import (
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// A holder is a token's line in the file.
type holder struct {
	grant  Grant
	digest digest
}

// Tokens are the tokens of a file, from the last time that it was read without an error. All
// methods may be called concurrently.
type Tokens struct {
	path    string
	holders atomic.Pointer[[]holder]
}

// tokensMax and tokensSizeMax bound the file, since every look-up compares all tokens.
const (
	tokensFileMax = 1000
	tokensSizeMax = 1 << 20
)

// OpenTokens reads a file of tokens. Each line is
//
//	NAME ROLE sha256:HEX [+bodies]
//
// with blanks between the words; empty lines and lines that begin with # are ignored. ROLE is
// read, operate or admin. HEX is the SHA-256 of the token. With +bodies, its holder may see
// whole job bodies. An error names the line and a remedy.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	return t, t.Reload()
}

// Reload reads the file again. After an error the tokens are unchanged.
func (t *Tokens) Reload() error {
	put, err := t.Prepare()
	if err != nil {
		return err
	}
	put()
	return nil
}

// Prepare reads the file again; put replaces the tokens by the new ones.
func (t *Tokens) Prepare() (put func(), err error) {
	text, err := ReadSecret(t.path, tokensSizeMax)
	if err != nil {
		return nil, fmt.Errorf("the tokens file cannot be read: %w: give a file that this user may read", err)
	}
	list, err := parseTokens(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", t.path, err)
	}
	return func() { t.holders.Store(&list) }, nil
}

// parseTokens reads the text of a file. Its errors begin with the number of the line.
func parseTokens(text string) ([]holder, error) {
	var list []holder
	names := make(map[string]int)
	digests := make(map[digest]int)
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		h, err := parseHolder(words)
		if err == nil {
			if first, twice := names[h.grant.Name]; twice {
				err = fmt.Errorf("the name %q is already in line %d: give each token another name", h.grant.Name, first)
			} else if first, twice := digests[h.digest]; twice {
				err = fmt.Errorf("the token is already in line %d: make a new one", first)
			} else if len(list) == tokensFileMax {
				err = fmt.Errorf("there are more than %d tokens: remove unused ones", tokensFileMax)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		names[h.grant.Name], digests[h.digest] = n, n
		list = append(list, h)
	}
	if len(list) == 0 {
		return nil, errors.New("1: there is no token: give at least one line, as in: ops admin sha256:<the token's SHA-256 in hex>")
	}
	return list, nil
}

// parseHolder reads the words of a line. Its errors must not contain the third word: by mistake
// it may be the token itself, and errors are logged.
func parseHolder(words []string) (h holder, err error) {
	if len(words) < 3 || len(words) > 4 {
		return h, fmt.Errorf("there are %d words: give a name, a role, sha256:HEX, and optionally +bodies", len(words))
	}
	h.grant.Name = words[0]
	if h.grant.Role, err = ParseRole(words[1]); err != nil || h.grant.Role == Nobody {
		return h, fmt.Errorf("unknown role %q: give read, operate or admin", words[1])
	}
	text, ok := strings.CutPrefix(words[2], "sha256:")
	b, err := hex.DecodeString(text)
	if !ok || err != nil || len(b) != len(h.digest) {
		return h, fmt.Errorf("the third word is not a digest: give sha256: and %d hexadecimal digits, as from: printf %%s TOKEN | sha256sum", 2*len(h.digest))
	}
	copy(h.digest[:], b)
	if len(words) == 4 {
		if words[3] != "+bodies" {
			return h, fmt.Errorf("unknown word %q: give +bodies, or omit it", words[3])
		}
		h.grant.Bodies = true
	}
	return h, nil
}

// Find returns the grant of a token; false: it is unknown.
func (t *Tokens) Find(token string) (Grant, bool) { return t.find(DigestOf(token)) }

// find compares all digests, so that its time is constant.
func (t *Tokens) find(d digest) (Grant, bool) {
	list := *t.holders.Load()
	at := -1
	for i := range list {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(list[i].digest[:], d[:]), i, at)
	}
	if at < 0 {
		return Grant{}, false
	}
	return list[at].grant, true
}

// Len returns the number of tokens.
func (t *Tokens) Len() int { return len(*t.holders.Load()) }

// Exposed reports whether users other than the owner may read the file.
func (t *Tokens) Exposed() bool {
	info, err := os.Stat(t.path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}
