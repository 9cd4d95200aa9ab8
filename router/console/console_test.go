package console

import (
	"regexp"
	"strings"
	"testing"
)

// imported are the modules that a module imports, statically.
var imported = regexp.MustCompile(`(?m)^import .* from '\./([^']+)';$`)

// TestModulesImportWhatIsThere: a name that is wrong would be found by who opens that page.
func TestModulesImportWhatIsThere(t *testing.T) {
	n := 0
	for name, f := range files() {
		if strings.HasPrefix(name, "vendor/") || !strings.HasSuffix(name, ".mjs") {
			continue
		}
		for _, m := range imported.FindAllStringSubmatch(string(f.Plain), -1) {
			if n++; Find(m[1]) == nil {
				t.Errorf("%s imports %s, which is not there", name, m[1])
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d imports were found", n)
	}
}

// TestNothingIsAskedOfOthers: all that the page needs is on this server, by paths that hold
// behind any prefix.
func TestNothingIsAskedOfOthers(t *testing.T) {
	for name, f := range files() {
		if strings.HasPrefix(name, "vendor/") {
			continue
		}
		text := string(f.Plain)
		for _, m := range regexp.MustCompile(`["'(]((?:https?:)?//[^"')]*)`).FindAllStringSubmatch(text, -1) {
			if m[1] != "http://www.w3.org/2000/svg" {
				t.Errorf("%s names %s", name, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`(?:fetch|EventSource|import)\(['"`+"`"+`](/[^'"`+"`"+`]*)`).FindAllStringSubmatch(text, -1) {
			t.Errorf("%s asks for %s, which does not hold behind a prefix", name, m[1])
		}
	}
}
