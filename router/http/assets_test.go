package http

import (
	"regexp"
	"strings"
	"testing"
)

// TestModulesImportWhatIsThere: a wrong name would break only the page that uses it.
func TestModulesImportWhatIsThere(t *testing.T) {
	n := 0
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

// TestNothingIsAskedOfOthers: all that the page needs is on this server, by paths that hold
// behind any prefix.
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

// TestFirstPageIsSmall: what a browser loads before it has seen anything; the e2e tests count
// its requests.
func TestFirstPageIsSmall(t *testing.T) {
	plain, packed := 0, 0
	for _, name := range []string{consoleIndex, "style.css", firstModule, "vendor/preact.mjs", "vendor/uplot.mjs"} {
		f := findAsset(name)
		require(t, f != nil, "there is no %s", name)
		plain += len(f.plain)
		packed += len(f.zipped)
	}
	t.Logf("%d bytes, %d compressed", plain, packed)
	expect(t, plain <= 150_000 && packed <= 50_000, "%d bytes, %d compressed: want at most 150,000 and 50,000", plain, packed)
}

// TestFirstModulesHaveNoTwoNamesAlike: as one module they would not be read.
func TestFirstModulesHaveNoTwoNamesAlike(t *testing.T) {
	seen := make(map[string]bool)
	top := regexp.MustCompile(`(?m)^(?:export )?(?:default )?(?:async )?(?:const|let|function|class) (\w+)`)
	for _, m := range top.FindAllStringSubmatch(string(findAsset(firstModule).plain), -1) {
		expect(t, !seen[m[1]], "two of the first modules have a %s", m[1])
		seen[m[1]] = true
	}
	expect(t, len(seen) >= 50, "only %d names were found", len(seen))
}
