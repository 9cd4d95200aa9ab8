package http

import (
	"compress/gzip"
	"io"
	"regexp"
	"strings"
	"testing"
)

// TestConsoleIsServed with its policy, compressed or not, and with 304 to a browser that has it.
func TestConsoleIsServed(t *testing.T) {
	w := newWorld(t, setup{unstarted: true}) // the console can show that the server is starting
	page := w.do("GET", "/", ask{})
	page.wants(t, 200, "")
	if got := page.header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("the page is %q", got)
	}
	names := regexp.MustCompile(`(?:src|href)="(console/[^"]+)"`).FindAllStringSubmatch(page.body, -1)
	require(t, len(names) >= 2, "the page loads nothing: %s", page.body)
	for _, m := range names {
		plain := w.do("GET", "/"+m[1], ask{header: map[string]string{"Accept-Encoding": "identity"}})
		plain.wants(t, 200, "")
		got := plain.header.Get("Content-Security-Policy")
		expect(t, got == consolePolicy, "%s: the policy is %q", m[1], got)
		expect(t, plain.header.Get("X-Content-Type-Options") == "nosniff", "%s: a browser may take it for something else", m[1])
		packed := w.do("GET", "/"+m[1], ask{header: map[string]string{"Accept-Encoding": "br, gzip"}})
		packed.wants(t, 200, "")
		z, err := gzip.NewReader(strings.NewReader(packed.body))
		noErr(t, err)
		if b, err := io.ReadAll(z); err != nil || string(b) != plain.body {
			t.Errorf("%s: compressed it is another one (%v)", m[1], err)
		}
		expect(t, packed.header.Get("ETag") != plain.header.Get("ETag"), "%s: both forms have the tag %s", m[1], packed.header.Get("ETag"))
		for _, a := range []*answer{plain, packed} {
			encoding := "identity"
			if a == packed {
				encoding = "gzip"
			}
			again := w.do("GET", "/"+m[1], ask{header: map[string]string{"Accept-Encoding": encoding, "If-None-Match": a.header.Get("ETag")}})
			again.wants(t, 304, "")
			expect(t, again.body == "", "%s is sent again", m[1])
		}
		head := w.do("HEAD", "/"+m[1], ask{})
		expect(t, head.status == 200 && head.body == "", "HEAD of %s: %d", m[1], head.status)
	}
	for _, name := range []string{"nothing.mjs", "vendor", "vendor/LICENSES", "../console.go", "%2e%2e/console.go", "", "style.css/"} {
		a := w.do("GET", "/console/"+name, ask{})
		expect(t, a.status == 404 || a.status/100 == 3, "/console/%s: %d", name, a.status)
	}
}

// TestPrefixIsRemoved: below the prefix, roles and checks are the same. A part of a path segment is
// no prefix.
func TestPrefixIsRemoved(t *testing.T) {
	w := newWorld(t, setup{options: func(o *Options) { o.Rules.Prefix = "/ops/queue" }})
	w.do("POST", "/ops/queue/api/v1/tubes/a%2Fapi%2Fv1/jobs", ask{token: operateToken, json: true, body: `{"body":"x"}`}).wants(t, 201, "")
	w.do("GET", "/api/v1/tubes/a%2Fapi%2Fv1", ask{token: readToken}).wants(t, 200, "")
	for path, want := range map[string]int{
		"/": 200, "/ops/queue/": 200, "/ops/queue/console/app.mjs": 200, "/ops/queue/api/v1/session": 200, "/ops/queue/readyz": 200,
		"/ops/queue": 404, "/ops/queuex/": 404, "/ops/": 404, "/q/api/v1/session": 404, "/ops/queue/ops/queue/": 404,
		"/ops/queue/api/v1/nothing": 404, "/ops/queue/api/v1/tubes/a/livez": 404,
		"/ops/queue/api/v1/server": 401, "/ops/queue/metrics": 401,
		"/ops/queue//api/v1/session": 404, "/ops/queue/api/v1/../v1/session": 404,
	} {
		a := w.do("GET", path, ask{})
		expect(t, a.status == want, "%s: %d, want %d", path, a.status, want)
	}
	w.do("DELETE", "/ops/queue/api/v1/tubes", ask{token: operateToken}).wants(t, 405, "method-not-allowed")
	w.do("DELETE", "/ops/queue/api/v1/jobs/1", ask{token: readToken}).wants(t, 403, "not-permitted")
	w.do("DELETE", "/ops/queue/api/v1/jobs/1", ask{token: operateToken, header: map[string]string{"Sec-Fetch-Site": "cross-site"}}).wants(t, 403, "cross-origin")
	w.do("GET", "/ops/queue/", ask{host: "evil.example"}).wants(t, 421, "wrong-host")
}

// TestModulesImportWhatIsThere: a wrong name would break only the page that uses it.
func TestModulesImportWhatIsThere(t *testing.T) {
	n := 0
	importLine := regexp.MustCompile(`(?m)^import (.+) from '\./([^']+)';$`)
	for name, f := range assets() {
		if strings.HasPrefix(name, "vendor/") || !strings.HasSuffix(name, ".mjs") {
			continue
		}
		for _, m := range importLine.FindAllStringSubmatch(string(f.plain), -1) {
			if n++; findAsset(m[2]) == nil {
				t.Errorf("%s imports %s, which is not there", name, m[2])
			}
		}
	}
	expect(t, n >= 15, "only %d imports were found", n)
}

// TestNothingIsAskedOfOthers: the page loads everything from this server, by relative paths, which
// are valid behind any prefix.
func TestNothingIsAskedOfOthers(t *testing.T) {
	for name, f := range assets() {
		if strings.HasPrefix(name, "vendor/") {
			continue
		}
		text := string(f.plain)
		for _, m := range regexp.MustCompile(`["'(]((?:https?:)?//[^"')]*)`).FindAllStringSubmatch(text, -1) {
			expect(t, m[1] == "http://www.w3.org/2000/svg", "%s names %s", name, m[1])
		}
		for _, m := range regexp.MustCompile(`(?:fetch|EventSource|import)\(['"`+"`"+`](/[^'"`+"`"+`]*)`).FindAllStringSubmatch(text, -1) {
			t.Errorf("%s asks for %s, which does not hold behind a prefix", name, m[1])
		}
	}
}

// TestFirstPageIsSmall measures the files that a browser loads before it shows anything. The e2e
// tests count the requests.
func TestFirstPageIsSmall(t *testing.T) {
	plain, packed := 0, 0
	for _, name := range []string{consoleIndex, "style.css", "app.mjs", "state.mjs", "parts.mjs", "vendor/preact.mjs", "vendor/uplot.mjs"} {
		f := findAsset(name)
		require(t, f != nil, "there is no %s", name)
		plain += len(f.plain)
		packed += len(f.zipped)
	}
	t.Logf("%d bytes, %d compressed", plain, packed)
	expect(t, plain <= 150_000 && packed <= 52_000, "%d bytes, %d compressed: want at most 150,000 and 52,000", plain, packed)
}
