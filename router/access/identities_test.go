package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFilesThatCannotBeUsedAreRefusedWithLineAndRemedy(t *testing.T) {
	const secret = "my-secret-token-as-it-is"
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", ": there is no identity: write at least one"},
		{"comments", "# nobody\n", ": there is no identity"},
		{"unknown key", "[identity.a]\nputs = [\"x\"]\n", ":2: puts: the key is unknown: give tokens"},
		{"key above", "put = [\"x\"]\n", ":1: put: a key outside a table: write [identity.NAME]"},
		{"role", "[identity.a]\nrole = \"root\"\n", `:2: role: unknown role: give "read", "operate" or "admin"`},
		{"role and verbs", "[identity.a]\nrole = \"read\"\nput = [\"x\"]\n", ":3: put: an identity has a role, or single rights"},
		{"verbs and role", "[identity.a]\nserver = \"read\"\nrole = \"read\"\n", ":3: role: an identity has a role"},
		{"text for a list", "[identity.a]\nput = \"mail-*\"\n", `:2: put: give a list of texts in brackets, as in ["mail-*"]`},
		{"number in a list", "[identity.a]\nput = [1]\n", ":2: put: give a list of texts"},
		{"trailing backslash", "[identity.a]\nput = ['a\\']\n", `a \ at the end quotes nothing`},
		{"empty pattern", "[identity.a]\nput = [\"\"]\n", `:2: put: "": the pattern is empty: write "*"`},
		{"nothing excluded", "[identity.a]\nput = [\"!\"]\n", "the pattern is empty"},
		{"long pattern", "[identity.a]\nput = [\"" + strings.Repeat("a", 401) + "\"]\n", "more than 400 bytes"},
		{"many patterns", "[identity.a]\nput = [" + manyPatterns(65) + "]\n", ":1: identity \"a\" has more than 64 patterns"},
		{"nested", "[identity.a.b]\nput = []\n", `:1: "a.b" is not a name`},
		{"nested inline", "[identity.a]\nput = {x = 1}\n", ":2: put: give a list"},
		{"dotted", "identity.a.put = [\"x\"]\n", ":1: identity.a.put: a key outside a table"},
		{"reserved", "[identity.server]\n", `:1: the name "server" is reserved`},
		{"other table", "[users]\n", `:1: unknown table "users": write [identity.NAME]`},
		{"list of tables", "[[identity.a]]\n", ":1: [[identity.a]] is a list of tables"},
		{"twice", "[identity.a]\n[identity.b]\n[identity.a]\n", `:3: identity "a" is already in line 1`},
		{"key twice", "[identity.a]\nput = []\nput = []\n", ":3: put is already set in line 2"},
		{"token itself", "[identity.a]\ntokens = [\"" + secret + "\"]\n", ":2: tokens: number 1: not a digest: give sha256: and 64"},
		{"short digest", "[identity.a]\ntokens = [\"sha256:" + secret + "\"]\n", ":2: tokens: number 1: not a digest"},
		{"three tokens", "[identity.a]\ntokens = [\"" + sha("1") + "\", \"" + sha("2") + "\", \"" + sha("3") + "\"]\n", ":2: tokens: there are more than 2 tokens"},
		{"token of two", "[identity.a]\ntokens = [\"" + sha("1") + "\"]\n[identity.b]\ntokens = [\"" + sha("1") + "\"]\n", `:4: tokens: number 1 is already one of identity "a"`},
		{"certificate of two", "[identity.a]\ncertificates = [\"DNS:x\"]\n[identity.b]\ncertificates = [\"DNS:x\"]\n", `:4: certificates: "DNS:x" is already one of identity "a"`},
		{"certificate", "[identity.a]\ncertificates = [\"web.example.com\"]\n", "give DNS:, URI: or CN: and a name"},
		{"user of two", "[identity.a]\nusers = [\"root\"]\n[identity.b]\nusers = [\"0\"]\n", `:4: users: "0" is already one of identity "a"`},
		{"unknown user", "[identity.a]\nusers = [\"nobody-has-this-name\"]\n", "this machine has no such user"},
		{"network of two", "[identity.a]\nnetworks = [\"10.0.0.1\"]\n[identity.b]\nnetworks = [\"10.0.0.1/32\"]\n", `is already one of identity "a"`},
		{"every network", "[identity.a]\nnetworks = [\"0.0.0.0/0\"]\n", "write [identity.default]"},
		{"network", "[identity.a]\nnetworks = [\"10.0.0\"]\n", "neither an address nor a network"},
		{"host bits", "[identity.a]\nnetworks = [\"10.0.0.1/8\"]\n", "give 10.0.0.0/8"},
		{"default with tokens", "[identity.default]\ntokens = [\"" + sha("1") + "\"]\n", ":2: tokens: the identity default is for clients that match no other"},
		{"plaintext", "plaintext-tokens = 1\n[identity.a]\n", ":1: plaintext-tokens: give true or false"},
		{"server", "[identity.a]\nserver = \"all\"\n", `:2: server: give "none", "read" or "admin"`},
		{"bodies", "[identity.a]\nbodies = true\n", `:2: bodies: give "none", "preview" or "full"`},
		{"quota as text", "[identity.a]\njobs = \"5\"\n", ":2: jobs: give a number without quotes, as in jobs = 1000"},
		{"quota of nothing", "[identity.a]\nconnections = 0\n", ":2: connections: give at least 1, or leave the key out"},
		{"negative quota", "[identity.a]\nbytes = -1\n", ":2: bytes: give at least 1"},
		{"large quota", "[identity.a]\nbytes = 9000000000000000000\n", ":2: bytes: give at most 1125899906842624"},
		{"large rate", "[identity.a]\nputs-per-second = 1000000001\n", ":2: puts-per-second: give at most 1000000000"},
		{"fraction of a rate", "[identity.a]\nputs-per-second = 0.5\n", ":2: puts-per-second: give a number"},
		{"not TOML", "[identity.a]\nput\n", ":2: "},
		{"two faults", "[identity.a]\nput = 1\nwork = 1\n", ":3: work: give a list"},
	} {
		_, err := Open(writeAccess(t, tt.text))
		if tt.want == "" {
			expect(t, err == nil, "%s: %v", tt.name, err)
			continue
		}
		require(t, err != nil, "%s: no error", tt.name)
		expect(t, strings.Contains(err.Error(), tt.want), "%s: %v, want %q", tt.name, err, tt.want)
		expect(t, !strings.Contains(err.Error(), secret), "%s: the error shows a token: %v", tt.name, err)
	}
	_, err := Open(filepath.Join(t.TempDir(), "none"))
	expect(t, err != nil && strings.Contains(err.Error(), "give a file"), "a file that is not there: %v", err)
	_, err = Open(t.TempDir())
	expect(t, err != nil, "a directory is read")
	_, err = Open(writeAccess(t, strings.Repeat("#", 1<<20)+"\n"))
	expect(t, err != nil && strings.Contains(err.Error(), "more than 1048576 bytes"), "a large file: %v", err)
}

// manyPatterns returns n different patterns as a list.
func manyPatterns(n int) string {
	var list []string
	for i := range n {
		list = append(list, `"`+strings.Repeat("a", i+1)+`"`)
	}
	return strings.Join(list, ",")
}

func TestTokenIsFoundOnlyWhole(t *testing.T) {
	ids := open(t, "[identity.a]\nrole = \"read\"\ntokens = [\""+sha("a")+"\", \""+sha("b")+"\"]\n")
	for _, bad := range []string{"", "a", token("a")[1:], token("a") + "x", strings.ToUpper(token("a")), sha("a"), strings.Repeat("x", 191)} {
		expect(t, ids.Token(bad) == nil, "%q is taken for a token", bad)
	}
	for _, good := range []string{"a", "b"} {
		c := ids.Token(token(good))
		expect(t, c.Name() == "a" && c.By() == ByToken && c.Level() == ReadLevel, "%q: %v", good, c)
	}
}

func TestClientIsIdentifiedByItsLongestNetwork(t *testing.T) {
	ids := open(t, `
[identity.all]
networks = ["10.0.0.0/8", "fd00::/8"]
[identity.one]
networks = ["10.1.0.0/16", "10.1.2.3"]
[identity.box]
networks = ["10.1.2.0/24"]
[identity.mapped]
networks = ["::ffff:172.16.0.0/108", "::ffff:192.168.0.1"]
`)
	for addr, want := range map[string]string{
		"10.9.9.9": "all", "10.1.9.9": "one", "10.1.2.9": "box", "10.1.2.3": "one", "fd00::1": "all",
		"::ffff:10.1.2.9": "box", "11.0.0.1": "", "fe80::1%eth0": "",
		"172.31.0.1": "mapped", "::ffff:192.168.0.1": "mapped", "172.32.0.1": "",
	} {
		c := ids.Client(0, false, netip.MustParseAddr(addr))
		expect(t, c.Identity() == nil && want == "" || c.Name() == want, "%s: %q, want %q", addr, c.Name(), want)
	}
}

func TestUserIsIdentifiedByItsNumber(t *testing.T) {
	ids := open(t, "[identity.a]\nrole = \"read\"\nusers = [\"033\"]\n")
	expect(t, ids.Client(33, true, netip.Addr{}).Name() == "a" && ids.Client(27, true, netip.Addr{}).IsEmpty(), "033 is not the user 33")
}

func TestCertificateIsIdentifiedByItsNames(t *testing.T) {
	ids := open(t, `
[identity.web]
certificates = ["DNS:web.example.com", "URI:spiffe://example.com/web", "CN:web"]
[identity.mail]
certificates = ["DNS:mail.example.com"]
`)
	u, err := url.Parse("spiffe://example.com/web")
	noErr(t, err)
	name := func(cn string) pkix.Name { return pkix.Name{CommonName: cn} }
	for _, tt := range []struct {
		text string
		cert x509.Certificate
		want string
	}{
		{"DNS", x509.Certificate{DNSNames: []string{"x", "web.example.com"}}, "web"},
		{"URI", x509.Certificate{URIs: []*url.URL{u}}, "web"},
		{"two names of one", x509.Certificate{DNSNames: []string{"web.example.com"}, URIs: []*url.URL{u}}, "web"},
		{"CN", x509.Certificate{Subject: name("web")}, "web"},
		{"CN beside another name", x509.Certificate{Subject: name("web"), DNSNames: []string{"x"}}, ""},
		{"CN with NUL", x509.Certificate{Subject: name("web\x00")}, ""},
		{"other case", x509.Certificate{DNSNames: []string{"WEB.example.com"}}, ""},
		{"none", x509.Certificate{}, ""},
		{"two identities", x509.Certificate{DNSNames: []string{"web.example.com", "mail.example.com"}}, "two identities"},
	} {
		c, err := ids.Certificate(&tt.cert)
		if err != nil {
			expect(t, strings.Contains(err.Error(), tt.want) && tt.want != "", "%s: %v", tt.text, err)
			continue
		}
		expect(t, c.Identity() == nil && tt.want == "" || c.Name() == tt.want, "%s: %q, want %q", tt.text, c.Name(), tt.want)
	}
}

// TestReloadKeepsCredentials: a session holds a credential, and sees what the new file says.
func TestReloadKeepsCredentials(t *testing.T) {
	file := "[identity.a]\nput = [\"x\"]\ntokens = [\"" + sha("1") + "\"]\n[identity.b]\nlook = [\"*\"]\n"
	ids := open(t, file)
	c, byDefault, forwarded := ids.Token(token("1")), ids.Client(0, false, netip.Addr{}), ids.Named("a", ByToken)
	expect(t, c.Verbs([]byte("x")) == Put && !c.IsEmpty(), "%v", c.Verbs([]byte("x")))
	expect(t, byDefault.IsEmpty() && byDefault.Verbs([]byte("x")) == 0, "the default has rights")

	expect(t, reload(t, ids, file+"broken") != nil, "a broken file is taken")
	expect(t, c.Verbs([]byte("x")) == Put, "a broken file has changed something")

	noErr(t, reload(t, ids, strings.Replace(file, `["x"]`, `["y"]`, 1)+"[identity.default]\nput = [\"x\"]\n"))
	expect(t, c.Verbs([]byte("x")) == 0 && c.Verbs([]byte("y")) == Put && forwarded.Verbs([]byte("y")) == Put, "the credential has its old rules")
	expect(t, byDefault.Verbs([]byte("x")) == Put && byDefault == ids.Client(0, false, netip.Addr{}), "the default has its old rules")

	noErr(t, reload(t, ids, strings.Replace(file, sha("1"), sha("2"), 1)))
	expect(t, c.Identity() == nil && c.IsEmpty() && c.Verbs([]byte("x")) == 0, "a removed token has rights")
	expect(t, ids.Token(token("1")) == nil && ids.Token(token("2")) != nil, "tokens are the old ones")

	noErr(t, reload(t, ids, "[identity.b]\nlook = [\"*\"]\ntokens = [\""+sha("1")+"\"]\n"))
	expect(t, c.Name() == "b" && c.Verbs([]byte("x")) == Look && ids.Token(token("1")) == c, "a token that moved to another identity is %q", c.Name())
	expect(t, forwarded.Verbs([]byte("x")) == 0 && len(ids.All()) == 1, "a removed identity has rights")
}

func TestDigestIgnoresOrderAndComments(t *testing.T) {
	a := open(t, "[identity.a]\nput = [\"x\", \"y\"]\nlook = [\"z\"]\n[identity.b]\nrole = \"read\"\n")
	b := open(t, "# c\n[identity.b]\nrole = 'read'\n[identity.a]\nwork = []\nlook = [\"z\"]\nput = [\"y\", \"x\"]\n")
	c := open(t, "[identity.a]\nput = [\"x\", \"y\"]\nlook = [\"w\"]\n[identity.b]\nrole = \"read\"\n")
	expect(t, a.Digest() == b.Digest() && a.Digest() != c.Digest() && len(a.Digest()) == 64, "%s %s %s", a.Digest(), b.Digest(), c.Digest())
}

func TestDenialsAreGroupedAndBounded(t *testing.T) {
	ids := open(t, "[identity.a]\nput = [\"x\"]\n")
	a := ids.Named("a", ByToken)
	now := time.Unix(1e9, 0)
	peer := func() string { return "10.0.0.1" }
	for range 1000 {
		ids.Denials.Add(a, Work, []byte("x"), now, peer)
	}
	ids.Denials.Add(ids.Client(0, false, netip.Addr{}), Put, []byte("x"), now, peer)
	ids.Denials.Add(a, Work, []byte("x"), now.Add(time.Second), peer)
	all := ids.Denials.All()
	require(t, len(all) == 2 && all[0].Verb == Put && all[1].Count == 1001 && all[1].Last.Sub(all[1].First) == time.Second, "%+v", all)
	ids.Denials.Add(a, Work, []byte("x"), now.Add(denialsWithin), peer)
	require(t, len(ids.Denials.All()) == 3, "an old entry is counted on")
	for i := range 1000 {
		ids.Denials.Add(a, Work, []byte{byte(i), byte(i >> 8)}, now, peer)
	}
	require(t, len(ids.Denials.All()) == denialsMax, "%d entries", len(ids.Denials.All()))
}

// BenchmarkOpen reads the largest file: 1,000 identities with 64 patterns each.
func BenchmarkOpen(b *testing.B) {
	var text []byte
	for i := range identitiesMax {
		text = fmt.Appendf(text, "[identity.i%d]\nput = [", i)
		for k := range patternsMax {
			text = fmt.Appendf(text, "%q,", fmt.Sprintf("mail%d-*", k))
		}
		text = append(text, "]\n"...)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := parse("f", text, lookUpUser); err != nil {
			b.Fatal(err)
		}
	}
}

// TestShortTokensAreNeverValid: the file has only digests, so the length is checked when it is used.
func TestShortTokensAreNeverValid(t *testing.T) {
	short, long := strings.Repeat("x", TokenMin-1), strings.Repeat("x", TokenMax+1)
	ids := open(t, fmt.Sprintf("[identity.a]\nrole = \"read\"\ntokens = [\"sha256:%x\", \"sha256:%x\"]\n", DigestOf(short), DigestOf(long)))
	expect(t, ids.Token(short) == nil && ids.Token(long) == nil, "a token of %d or %d bytes is valid", len(short), len(long))
}

// TestPutThatWaitsTooLongTakesNothing: else refused puts would keep the identity out for longer.
func TestPutThatWaitsTooLongTakesNothing(t *testing.T) {
	c := open(t, "[identity.a]\nput = [\"*\"]\nputs-per-second = 1\n").Named("a", ByToken)
	now := int64(time.Hour)
	expect(t, c.Pay(5, now, WaitMax) == 0, "the first puts wait")
	for range 100 {
		wait := c.Pay(5, now, time.Second)
		expect(t, wait == 5*time.Second, "a put after five others waits %v", wait)
	}
	c.Refund(5)
	expect(t, c.Pay(1, now, 0) == 0, "what was given back is not there")
}
