// Package access has what "polystalk access" does with access files. It makes tokens and
// identities, changes files, and explains them as a server would.
//
//	New, Rotate → text of a file → access.Check → Save
//	List, Show → documents of the API
package access

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
	"polystalk/codec/tomlfile"
	"polystalk/router/access"
)

// Grants are the keys of a new identity in the file.
type Grants struct {
	Tokens []string `toml:"tokens,omitempty"` // digests
	Role   string   `toml:"role,omitempty"`
	Put    []string `toml:"put,omitempty"` // patterns
	Work   []string `toml:"work,omitempty"`
	Look   []string `toml:"look,omitempty"`
	Manage []string `toml:"manage,omitempty"`
	Server string   `toml:"server,omitempty"`
	Bodies string   `toml:"bodies,omitempty"`
}

// ForRole returns the rights of a role, which may see whole job bodies in any case. A role excludes
// single rights.
func ForRole(role string) Grants {
	all := []string{"*"}
	switch role {
	case "read":
		return Grants{Look: all, Server: "read", Bodies: "full"}
	case "operate":
		return Grants{Put: all, Work: all, Look: all, Manage: all, Server: "read", Bodies: "full"}
	}
	return Grants{Role: role}
}

// table returns the table of an identity with a token. It must be valid.
func (g Grants) table(name, digest string) (string, error) {
	g.Tokens = []string{digest}
	keys, err := toml.Marshal(g)
	if err != nil {
		return "", err
	}
	text := "[" + identityTable + name + "]\n" + string(keys)
	faults, _ := errors.AsType[tomlfile.Errors](access.Check("", []byte(text)))
	var all []string
	for _, one := range faults { // without places: there is no file
		all = append(all, one.Message)
	}
	if all != nil {
		err = client.Errorf(client.Usage, "%s", strings.Join(all, "; "))
	}
	return text, err
}

const identityTable = "identity."

// newToken returns a token, and its digest as the file has it.
func newToken() (token, digest string) {
	token = rand.Text()
	return token, fmt.Sprintf("sha256:%x", access.DigestOf(token))
}

// New returns a token, and the table of an identity that it proves.
func New(name string, g Grants) (token, table string, err error) {
	if !access.IsName(name) {
		return "", "", client.Errorf(client.Usage, "%q is not a name: give 1 to 64 of a-z, 0-9, _ and -, as in web-1", name)
	}
	token, digest := newToken()
	table, err = g.table(name, digest)
	return token, table, err
}

// Add returns the text of a file with another table. The file may be missing.
func Add(file, table string) ([]byte, error) {
	text, err := access.ReadFile(file, false)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, unreadable(file, err)
	}
	if len(text) > 0 {
		text = append([]byte(strings.TrimRight(string(text), "\n")), "\n\n"...)
	}
	text = append(text, table...)
	return text, access.Check(file, text)
}

// A Rotation is a second token of an identity.
type Rotation struct {
	Token string
	Line  int    // of the file, which changes, or is new
	Text  string // of the line
	File  []byte // the whole text of the file with it
}

// Rotate returns a second token of an identity in a file.
func Rotate(file, name string) (*Rotation, error) {
	text, err := access.ReadFile(file, false)
	if err != nil {
		return nil, unreadable(file, err)
	}
	if err := access.Check(file, text); err != nil {
		return nil, err
	}
	header := 0
	keys, _ := tomlfile.Parse(file, text, func(at tomlfile.Place, table string) *tomlfile.Error {
		if table == identityTable+name {
			header = at.Line
		}
		return nil
	})
	if header == 0 {
		return nil, missing(file, name)
	}
	token, digest := newToken()
	r := &Rotation{Token: token, Line: header + 1}
	all, inserted := []string{digest}, ""
	lines := strings.SplitAfter(string(text), "\n")
	at := len(strings.Join(lines[:header], "")) // offset of the line behind the header
	if i := slices.IndexFunc(keys, func(k *tomlfile.Key) bool { return k.Table == identityTable+name && k.Name == "tokens" }); i >= 0 {
		k := keys[i]
		var old []string
		for _, v := range k.Value.([]any) { // Check has seen it
			old = append(old, v.(string))
		}
		if len(old) > 1 {
			return nil, client.Errorf(client.NotDone, "%v: identity %q has two tokens: remove the old one, which is the first, and reload", k.Place, name)
		}
		r.Line, all, inserted = k.Line, append(old, digest), `"`+digest+`"`
		at = len(strings.Join(lines[:k.Line-1], ""))
		behind, quote := "[", 0
		if len(old) > 0 {
			behind, quote, inserted = old[0], 1, ", "+inserted
		}
		at += strings.Index(string(text[at:]), behind) + len(behind) + quote
	}
	if r.Text, err = tomlfile.Line("tokens", all); err != nil {
		return nil, err
	}
	if inserted == "" {
		inserted = r.Text + "\n"
		if !strings.HasSuffix(string(text[:at]), "\n") {
			inserted = "\n" + inserted
		}
	}
	r.File = slices.Insert(text, at, []byte(inserted)...)
	return r, access.Check(file, r.File)
}

// Save replaces a file at once, and keeps its mode and owner.
func Save(file string, text []byte) (err error) {
	path, err := filepath.EvalSymlinks(file)
	if errors.Is(err, os.ErrNotExist) {
		path, err = file, nil
	}
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".access-*")
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	mode := os.FileMode(0o640)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			if err := f.Chown(int(s.Uid), int(s.Gid)); err != nil {
				return fmt.Errorf("the new file would have another owner: %w", err)
			}
		}
	}
	if err = f.Chmod(mode); err == nil {
		_, err = f.Write(text)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// List returns the identities of a file, as GET /api/v1/identities does.
func List(file string) (all admin.Identities, err error) {
	ids, err := access.Open(file)
	if err != nil {
		return all, err
	}
	all.Digest = ids.Digest()
	for _, i := range ids.All() {
		all.Identities = append(all.Identities, describe(ids, i))
	}
	return all, nil
}

// Show returns an identity of a file, as GET /api/v1/identities/{name} does. It explains the
// identity's verbs on a tube, unless the tube is empty.
func Show(file, name, tube string) (v admin.Identity, err error) {
	ids, err := access.Open(file)
	if err != nil {
		return v, err
	}
	i := ids.Identity(name)
	if i == nil {
		return v, missing(file, name)
	}
	v = describe(ids, i)
	if tube != "" {
		has, because := i.Explain([]byte(tube))
		v.Tube = &admin.Explained{Name: admin.ShownName(tube), Path: admin.PathName(tube), Verbs: has.Names(), Because: because}
	}
	return v, nil
}

func describe(ids *access.Identities, i *access.Identity) admin.Identity {
	d := ids.Describe(i)
	return admin.Identity{Name: d.Name, Role: d.Role, Server: d.Server, Rules: d.Rules, Credentials: d.Credentials}
}

func missing(file, name string) error {
	return client.Errorf(client.Nothing, "%s has no identity %q: polystalk access list --file %s lists them", file, name, file)
}

func unreadable(file string, err error) error {
	return client.Errorf(client.System, "the access file cannot be read: %v: give one by --file", err)
}
