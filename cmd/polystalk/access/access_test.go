package access

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/tomlfile"
	"polystalk/router/access"
)

const (
	one = "sha256:b3057e05d75e8cdca4bd6ddd527af736913e8464a7a3d47d7a09389eaa8e1eb4"
	two = "sha256:b3057e05d75e8cdca4bd6ddd527af736913e8464a7a3d47d7a09389eaa8e1eb5"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.toml")
	must(t, os.WriteFile(name, []byte(text), 0o640))
	return name
}

// TestRotationAddsATokenAndChangesNothingElse, however the list is written.
func TestRotationAddsATokenAndChangesNothingElse(t *testing.T) {
	for name, tt := range map[string]struct{ before, after string }{
		"one token":      {"[identity.web]\ntokens = [\"" + one + "\"]\nput = [\"a\"]\n", "[identity.web]\ntokens = [\"" + one + "\", \"NEW\"]\nput = [\"a\"]\n"},
		"several lines":  {"# c\n[identity.web] # ]\ntokens = [ # \"[\n  '" + one + "', # mine\n]\n", "# c\n[identity.web] # ]\ntokens = [ # \"[\n  '" + one + "', \"NEW\", # mine\n]\n"},
		"an empty list":  {"[identity.web]\nput = [\"a\"]\n  tokens = [ ]\n", "[identity.web]\nput = [\"a\"]\n  tokens = [\"NEW\" ]\n"},
		"no token":       {"[identity.web]\r\nusers = [\"0\"]\r\n", "[identity.web]\r\ntokens = [\"NEW\"]\nusers = [\"0\"]\r\n"},
		"the last line":  {"[identity.web]", "[identity.web]\ntokens = [\"NEW\"]\n"},
		"another's list": {"[identity.a]\ntokens = [\"" + two + "\"]\n[identity.web]\nput = [\"x\"]\n[identity.c]\n", "[identity.a]\ntokens = [\"" + two + "\"]\n[identity.web]\ntokens = [\"NEW\"]\nput = [\"x\"]\n[identity.c]\n"},
	} {
		f := file(t, tt.before)
		r, err := Rotate(f, "web")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		must(t, Save(f, r.File))
		ids, err := access.Open(f)
		must(t, err)
		if ids.Token(r.Token).Name() != "web" {
			t.Errorf("%s: the token is not one of the identity", name)
		}
		d := access.DigestOf(r.Token)
		if got := strings.ReplaceAll(string(r.File), hexOf(d[:]), "NEW"); got != tt.after {
			t.Errorf("%s: %q, want %q", name, got, tt.after)
		}
		if line := strings.Split(string(r.File), "\n")[r.Line-1]; !strings.Contains(line, "tokens") {
			t.Errorf("%s: line %d is %q", name, r.Line, line)
		}
	}
}

func hexOf(d []byte) string {
	const digits = "0123456789abcdef"
	b := []byte("sha256:")
	for _, c := range d {
		b = append(b, digits[c>>4], digits[c&15])
	}
	return string(b)
}

func TestRotationsThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[identity.web]\ntokens = [\"" + one + "\", \"" + two + "\"]\n":       "two tokens",
		"[identity.default]\nput = [\"a\"]\n[identity.web2]\nput = [\"a\"]\n": "no identity",
		"[identity.web]\nput = 1\n":                                           "list of texts",
		"[identity.web\n":                                                     "TOML",
	} {
		f := file(t, text)
		if _, err := Rotate(f, "web"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Rotate(file(t, "[identity.default]\nput = [\"a\"]\n"), "default"); err == nil || !strings.Contains(err.Error(), "default is for") {
		t.Errorf("default: %v", err)
	}
	if _, err := Rotate(filepath.Join(t.TempDir(), "none"), "web"); client.ExitCode(err) != client.System {
		t.Errorf("no file: %v", err)
	}
}

// TestSaveKeepsWhatAFileIs: its mode, and a link to it. After an error it is unchanged.
func TestSaveKeepsWhatAFileIs(t *testing.T) {
	f := file(t, "before")
	must(t, os.Chmod(f, 0o604))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(f, link))
	must(t, Save(link, []byte("after")))
	text, err := os.ReadFile(f)
	must(t, err)
	info, err := os.Stat(f)
	must(t, err)
	if kept, err := os.Lstat(link); err != nil || kept.Mode()&os.ModeSymlink == 0 || string(text) != "after" || info.Mode().Perm() != 0o604 {
		t.Errorf("%q, %v, %v", text, info.Mode(), err)
	}
	new := filepath.Join(filepath.Dir(f), "new")
	must(t, Save(new, []byte("x")))
	if info, err := os.Stat(new); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("a new file: %v, %v", info, err)
	}
	if err := Save(filepath.Join(f, "x"), nil); err == nil {
		t.Error("a file in a file is saved")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(f), ".access-*")); len(left) > 0 {
		t.Errorf("files are left: %q", left)
	}
}

// TestNewIdentityIsWhatWasAsked: the table grants the rights that were asked, and no others.
func TestNewIdentityIsWhatWasAsked(t *testing.T) {
	token, table, err := New("web", Grants{Put: []string{"mail-*", "!mail-x"}, Look: []string{`a"b\\`}, Server: "read"})
	must(t, err)
	f := filepath.Join(t.TempDir(), "access.toml")
	for _, other := range []string{"[identity.a]\nput = [\"a\"]", ""} {
		if other != "" {
			must(t, os.WriteFile(f, []byte(other), 0o600))
		}
		text, err := Add(f, table)
		must(t, err)
		must(t, Save(f, text))
		ids, err := access.Open(f)
		must(t, err)
		c := ids.Token(token)
		if c.Name() != "web" || c.Level() != access.ReadLevel || c.Verbs([]byte("mail-1")) != access.Put || c.Verbs([]byte("mail-x")) != 0 || c.Verbs([]byte(`a"b\`)) != access.Look {
			t.Errorf("%s", text)
		}
		must(t, os.Remove(f))
	}
	if _, _, err := New("web", Grants{Put: []string{"a\nrole = 1"}}); err != nil {
		t.Errorf("a pattern with a line end: %v", err)
	}
}

// TestConvertedTokensKeepTheirRights, and errors show no token.
func TestConvertedTokensKeepTheirRights(t *testing.T) {
	secrets := map[string]string{}
	var text strings.Builder
	text.WriteString("# comment\n\n")
	for _, line := range []string{"a read", "a operate +bodies", "default admin", "../Ä admin +bodies", strings.Repeat("x", 99) + " read +bodies", "none operate"} {
		words := strings.Fields(line)
		token := rand.Text()
		d := access.DigestOf(token)
		text.WriteString(strings.Join(append([]string{words[0], words[1], hexOf(d[:])}, words[2:]...), "\t") + "\n")
		secrets[line] = token
	}
	out, err := Convert(file(t, text.String()))
	must(t, err)
	ids, err := access.Open(file(t, out))
	must(t, err)
	for line, token := range secrets {
		c, words := ids.Token(token), strings.Fields(line)
		level := map[string]access.Level{"read": access.ReadLevel, "operate": access.ReadLevel, "admin": access.AdminLevel}[words[1]]
		verbs := map[string]access.Verbs{"read": access.Look}[words[1]]
		if verbs == 0 {
			verbs = access.Every
		}
		if c == nil || c.Level() != level || c.Verbs([]byte("t")) != verbs || len(words) == 3 && c.Sees(access.None) != access.Full {
			t.Errorf("%s: %v %v", line, c.Level(), c.Verbs([]byte("t")))
		}
	}
	_, err = Convert(file(t, "a\nb king "+one+"\nc read SECRET\nd SECRET SECRET SECRET\ne read "+one+"\nf read "+one+"\n"))
	faults, _ := errors.AsType[tomlfile.Errors](err)
	if len(faults) != 5 || faults[4].Line != 6 || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), one) {
		t.Errorf("%v", err)
	}
	for _, empty := range []string{"", "# nothing\n"} {
		if _, err := Convert(file(t, empty)); err == nil {
			t.Errorf("%q is converted", empty)
		}
	}
}
