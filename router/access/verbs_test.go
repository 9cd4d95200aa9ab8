package access

import (
	"strconv"
	"strings"
	"testing"
)

func TestPatternsMatchWholeNames(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		yes, no []string
	}{
		{"*", []string{"", "a", "*", "\x00", strings.Repeat("x", 200)}, nil},
		{"mail", []string{"mail"}, []string{"", "mai", "mails", "MAIL", "*"}},
		{"mail-*", []string{"mail-", "mail-a", "mail-*"}, []string{"mail", "xmail-a"}},
		{"*-mail", []string{"-mail", "a-mail", "-mail-mail"}, []string{"a-mails", "mail"}},
		{"a?c", []string{"abc", "a?c", "a\x00c"}, []string{"ac", "abbc"}},
		{"?", []string{"a"}, []string{"", "ab"}},
		{`\*`, []string{"*"}, []string{"", "a", `\*`}},
		{`a\?`, []string{"a?"}, []string{"ab"}},
		{`\\x`, []string{`\x`}, []string{"x"}},
		{`\!x`, []string{"!x"}, []string{"x"}},
		{"[x]", []string{"[x]"}, []string{"x"}},
		{"**a**", []string{"a", "xax"}, []string{"", "x"}},
		{"*a*b*", []string{"ab", "xaxbx", "aab"}, []string{"ba", "a", "b"}},
		{strings.Repeat("*a", 50) + "*", []string{strings.Repeat("a", 200)}, []string{strings.Repeat("b", 200), strings.Repeat("a", 49)}},
	} {
		p, err := parsePattern(tt.pattern)
		noErr(t, err)
		for _, name := range tt.yes {
			expect(t, p.matches([]byte(name)), "%q does not match %q", tt.pattern, name)
		}
		for _, name := range tt.no {
			expect(t, !p.matches([]byte(name)), "%q matches %q", tt.pattern, name)
		}
	}
}

// FuzzMatch compares the matcher with a recursive one.
func FuzzMatch(f *testing.F) {
	f.Add("a*b?c", "axxbyc")
	f.Add(`\*?*`, "*a")
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := parsePattern(text)
		if err != nil || len(text) > 30 || len(name) > 12 {
			return
		}
		want := simplyMatches(p.tokens, name)
		expect(t, p.matches([]byte(name)) == want, "%q against %q: %t", text, name, !want)
	})
}

func simplyMatches(tokens []int16, name string) bool {
	switch {
	case len(tokens) == 0:
		return name == ""
	case tokens[0] == anyBytes:
		return simplyMatches(tokens[1:], name) || name != "" && simplyMatches(tokens, name[1:])
	case name == "":
		return false
	}
	return (tokens[0] == anyByte || tokens[0] == int16(name[0])) && simplyMatches(tokens[1:], name[1:])
}

func TestExclusionsWinAndWorkersSeeTheirTubes(t *testing.T) {
	ids := open(t, `
[identity.a]
put = ["mail-*", "!mail-secret*"]
work = ["mail-*", "!mail-x"]
look = ["web", "!mail-hidden"]
manage = ["web"]
[identity.r]
role = "read"
[identity.o]
role = "operate"
[identity.d]
role = "admin"
`)
	for _, tt := range []struct {
		identity, tube string
		want           Verbs
	}{
		{"a", "mail-1", Put | Work | Look},
		{"a", "mail-secret1", Work | Look},
		{"a", "mail-x", Put},
		{"a", "mail-hidden", Put | Work},
		{"a", "web", Look | Manage},
		{"a", "other", 0},
		{"r", "other", Look},
		{"o", "*", Every},
		{"d", "", Every},
		{"none", "mail-1", 0},
	} {
		got := ids.Named(tt.identity, ByToken).Verbs([]byte(tt.tube))
		expect(t, got == tt.want, "%s on %q: %v, want %v", tt.identity, tt.tube, got, tt.want)
		if i := ids.Named(tt.identity, ByToken).Identity(); i != nil {
			has, because := i.Explain([]byte(tt.tube))
			expect(t, has == tt.want, "%s on %q is explained as %v, want %v: %q", tt.identity, tt.tube, has, tt.want, because)
			for _, verb := range has.Names() {
				expect(t, because[verb] != "", "%s has %s on %q by no rule", tt.identity, verb, tt.tube)
			}
		}
	}
	var none *Credential
	expect(t, none.Verbs(nil) == Every && none.Level() == AdminLevel && none.Sees(Preview) == Preview && !none.IsEmpty(), "without an access file something is forbidden")
}

func BenchmarkVerbs(b *testing.B) {
	for _, n := range []int{1, 4, 16, 64} {
		var list []rule
		for i := range n {
			p, _ := parsePattern("queue-" + string(rune('a'+i%26)) + "-*")
			list = append(list, rule{pattern: p, verbs: 1 << (i % 4)})
		}
		name := []byte("queue-z-with-23-bytes--")
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for range b.N {
				allowed(list, name)
			}
		})
	}
}
