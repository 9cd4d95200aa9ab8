package cmd

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const guideFolder = "cmd/manual/guide/"

// pages returns the guide's pages by name, and the first README.
func pages(t *testing.T) (names []string, texts map[string]string) {
	t.Helper()
	texts = make(map[string]string)
	for name, text := range readReadmes(t) {
		if path.Dir(name)+"/" == guideFolder {
			names = append(names, path.Base(name))
			texts[path.Base(name)] = text
		}
	}
	slices.Sort(names)
	return names, texts
}

// TestIndexesNameEveryPage: the index of the guide, and the menu of the site.
func TestIndexesNameEveryPage(t *testing.T) {
	names, texts := pages(t)
	menu, err := os.ReadFile(filepath.Join("manual", "site", "mkdocs.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name != "README.md" && !strings.Contains(texts["README.md"], "]("+name+")") {
			t.Errorf("the index does not link to %s", name)
		}
		if !regexp.MustCompile(`[ \[]` + regexp.QuoteMeta(name) + `[,\]\n]`).Match(menu) {
			t.Errorf("the menu of the site does not name %s", name)
		}
	}
	if len(names) < 15 {
		t.Errorf("the guide has only %d pages", len(names))
	}
}

// TestPagesBeginWithPurposeAndExample: a sentence under the title, and a block of code among the first
// lines. The index has links instead.
func TestPagesBeginWithPurposeAndExample(t *testing.T) {
	names, texts := pages(t)
	for _, name := range names {
		lines := strings.Split(texts[name], "\n")
		if !strings.HasPrefix(lines[0], "# ") || len(lines) < 3 || lines[1] != "" || !strings.ContainsAny(lines[2], ".:,") || strings.HasPrefix(lines[2], "|") {
			t.Errorf("%s does not begin with a title and its purpose", name)
		}
		const within = 25
		if name != "README.md" && !slices.ContainsFunc(lines[:min(within, len(lines))], func(l string) bool { return strings.HasPrefix(l, "```") }) {
			t.Errorf("%s has no example within its first %d lines", name, within)
		}
	}
}

// exampleTests are the tests that run the blocks marked sh of a page. Other blocks are not run: they
// need root, another machine or an answer.
var exampleTests = map[string]string{
	"access.md":     "cmd/polystalk/e2e/securing_test.go",
	"cli.md":        "cmd/polystalk/e2e/readme_test.go",
	"clients.md":    "cmd/polystalkd/e2e/wire/clientspage_test.go",
	"cluster.md":    "cmd/polystalkd/e2e/cluster/guide_test.go",
	"http-api.md":   "router/http/metrics_test.go",
	"monitoring.md": "router/http/metrics_test.go",
	"policies.md":   "cmd/polystalk/e2e/readme_test.go",
	"quickstart.md": "cmd/polystalk/e2e/quickstart_test.go",
	"security.md":   "router/http/metrics_test.go",

	"troubleshooting.md": "cmd/polystalk/e2e/readme_test.go",
}

// TestExamplesAreRun: each page with a block marked sh has a test that reads it.
func TestExamplesAreRun(t *testing.T) {
	names, texts := pages(t)
	for _, name := range names {
		if !strings.Contains(texts[name], "```sh\n") {
			continue
		}
		file := exampleTests[name]
		if file == "" {
			t.Errorf("%s has examples marked sh, and no test runs them: mark them with ``` alone, or add a test", name)
			continue
		}
		test, err := os.ReadFile(filepath.Join("..", file))
		if err != nil || !strings.Contains(string(test), name) {
			t.Errorf("%s does not run the examples of %s: %v", file, name, err)
		}
	}
}

var (
	shownLink  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	shownCode  = regexp.MustCompile("`[^`]*`")
	paragraphs = regexp.MustCompile(`\n\s*\n|\n[-*|#] ?|\n\d+\. |\|`)
	sentences  = regexp.MustCompile(`[.!?:;]\s+`)
	words      = regexp.MustCompile(`[\pL\d][\pL\d'’/–-]*`)
)

// TestSentencesAreShort: no sentence of the README and the guide has more than 30 words, and at most
// 15 % have more than 20. Code counts as one word.
func TestSentencesAreShort(t *testing.T) {
	const most, usual, share = 30, 20, 0.15
	_, texts := pages(t)
	texts["the first README"] = readReadmes(t)["README.md"]
	all, long := 0, 0
	for name, text := range texts {
		text = codeBlock.ReplaceAllString(text, "\n\n")
		for _, p := range paragraphs.Split(text, -1) {
			p = shownCode.ReplaceAllString(shownLink.ReplaceAllString(p, "$1"), "X")
			for _, s := range sentences.Split(p, -1) {
				n := len(words.FindAllString(s, -1))
				if n == 0 {
					continue
				}
				all++
				if n > usual {
					long++
				}
				if n > most {
					t.Errorf("%s: a sentence has %d words: %s", name, n, strings.Join(strings.Fields(s), " "))
				}
			}
		}
	}
	if all < 1000 || float64(long) > share*float64(all) {
		t.Errorf("%d of %d sentences have more than %d words", long, all, usual)
	}
}
