package gearman

import (
	"bytes"
	"testing"
)

func TestQuoted(t *testing.T) {
	for name, want := range map[string]string{
		"":                                     `""`,
		"-a":                                   `"-a"`,
		"a b":                                  `"a b"`,
		`say "hi"\`:                            `"say \"hi\"\\"`,
		"a\tb\nc\rd":                           `"a\tb\nc\rd"`,
		"\x00\x1f\x7f":                         `"\x00\x1f\x7f"`,
		"\xff\xc3":                             `"\xff\xc3"`,
		"名前":                                   `"名前"`,
		"a\u2028\u00a0b":                       `"a\xe2\x80\xa8\xc2\xa0b"`,
		"mail.out/1":                           "mail.out/1",
		string(bytes.Repeat([]byte("x"), 200)): string(bytes.Repeat([]byte("x"), 200)),
		string(bytes.Repeat([]byte("x"), 201)): `"` + string(bytes.Repeat([]byte("x"), 201)) + `"`,
	} {
		if got := string(AppendQuoted([]byte("- "), []byte(name))); got != "- "+want {
			t.Errorf("%q is quoted as %s, want %s", name, got, want)
		}
	}
}

func TestUnquotedRefuses(t *testing.T) {
	for _, s := range []string{"", `"`, "-a", "a b", `"a`, `a"`, `"a"b"`, `"\"`, `"\q"`, `"\x"`, `"\x1"`, `"\xg0"`, `"\x0g"`, `""a""`} {
		if got, ok := AppendUnquoted([]byte("- "), []byte(s)); ok || string(got) != "- " {
			t.Errorf("%s is unquoted to %q", s, got)
		}
	}
	for s, want := range map[string]string{`"\x41B"`: "AB", `"plain"`: "plain", `"\xFf"`: "\xff", "plain": "plain", `"\\n"`: `\n`} {
		if got, ok := AppendUnquoted([]byte("- "), []byte(s)); !ok || string(got) != "- "+want {
			t.Errorf("%s is unquoted to %q, %v", s, got, ok)
		}
	}
}

func FuzzQuoted(f *testing.F) {
	for _, name := range []string{"", "a b", `"\`, "\xff\x00", "名\u2028"} {
		f.Add([]byte(name))
	}
	f.Fuzz(func(t *testing.T, name []byte) {
		quoted := AppendQuoted(nil, name)
		if bytes.ContainsAny(quoted, "\n\r\x00") {
			t.Fatalf("%q spoils its line", quoted)
		}
		if got, ok := AppendUnquoted(nil, quoted); !ok || !bytes.Equal(got, name) {
			t.Fatalf("%q is quoted as %s and comes back as %q, %v", name, quoted, got, ok)
		}
		AppendUnquoted(nil, name)
	})
}
