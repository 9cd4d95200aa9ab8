package cmd

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// readReadmes returns the texts of all Markdown files by path from the root on.
func readReadmes(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	err := filepath.WalkDir("..", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != ".." && e.Name() != ".github" && (strings.HasPrefix(e.Name(), ".") || e.Name() == "bin" || e.Name() == "testdata"):
			return filepath.SkipDir
		case e.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		texts[strings.TrimPrefix(filepath.ToSlash(name), "../")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linkTo    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pathNamed = regexp.MustCompile("`((?:cmd|codec|loadtest|router|shard)(?:/[A-Za-z0-9_.-]+)+)`")
)

// anchor is the name that a heading has as the target of a link.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// TestReadmesLinksLeadSomewhere: each link to a file or folder of ours names one that
// is there, and each link to a heading one of that file.
func TestReadmesLinksLeadSomewhere(t *testing.T) {
	texts := readReadmes(t)
	links := 0
	for name, text := range texts {
		for _, m := range linkTo.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			link := m[1]
			if strings.Contains(link, "://") {
				continue
			}
			links++
			file, want, _ := strings.Cut(link, "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", name, link, err)
				continue
			}
			if want == "" {
				continue
			}
			found := false
			for _, h := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(texts[target], ""), -1) {
				found = found || anchor(h[1]) == want
			}
			if !found {
				t.Errorf("%s: the link %s leads to no heading of %s", name, link, target)
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links were found in %d files", links, len(texts))
	}
}

// TestReadmesNameWhatIsThere: each file or folder of ours that is named is there.
func TestReadmesNameWhatIsThere(t *testing.T) {
	named := 0
	for name, text := range readReadmes(t) {
		for _, m := range pathNamed.FindAllStringSubmatch(text, -1) {
			named++
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s names %s: %v", name, m[1], err)
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d files and folders are named", named)
	}
}

// TestReadmeIsShort: the first README is read whole. The guide has the rest.
func TestReadmeIsShort(t *testing.T) {
	const (
		bytesMax = 7000
		lineMax  = 140 // characters
	)
	text := readReadmes(t)["README.md"]
	if n := len(text); n > bytesMax || n == 0 {
		t.Errorf("README.md has %d bytes, want at most %d: move something to the guide", n, bytesMax)
	}
	for i, line := range strings.Split(text, "\n") {
		if n := utf8.RuneCountInString(line); n > lineMax {
			t.Errorf("README.md:%d has %d characters, want at most %d", i+1, n, lineMax)
		}
	}
}
