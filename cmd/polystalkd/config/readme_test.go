package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// inCode finds the code in a README, which has the flags.
var inCode = regexp.MustCompile("`[^`\n]+`")

// wordsInCode returns the words of a README's code, without the part after a "=".
func wordsInCode(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../" + file)
	must(t, err)
	words := make(map[string]bool)
	for _, code := range inCode.FindAllString(string(text), -1) {
		for word := range strings.FieldsSeq(strings.Trim(code, "`")) {
			word, _, _ = strings.Cut(word, "=")
			words[word] = true
		}
	}
	return words
}

// TestReadmesNameEveryFlag: README.md or, in place of gearmand, GEARMAND.md explains every flag of
// --help.
func TestReadmesNameEveryFlag(t *testing.T) {
	ours := newFlagSet(newConfig())
	for file, fs := range map[string]*pflag.FlagSet{"README.md": ours, "GEARMAND.md": newGearmandFlags(newConfig()).all} {
		words := wordsInCode(t, file)
		fs.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			if !words["--"+f.Name] && (f.Shorthand == "" || !words["-"+f.Shorthand]) {
				t.Errorf("%s does not name %s", file, spelling(f))
			}
		})
	}
}

// TestReadmeNamesNoOtherFlag: the flags in the tables of README.md exist.
func TestReadmeNamesNoOtherFlag(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	must(t, err)
	_, tables, _ := strings.Cut(string(text), "## Flags and variables\n")
	tables, _, _ = strings.Cut(tables, "\n## ")
	fs, named := newFlagSet(newConfig()), 0
	for line := range strings.Lines(tables) {
		if !strings.HasPrefix(line, "| `-") {
			continue
		}
		cell, _, _ := strings.Cut(line[1:], "|")
		for _, code := range inCode.FindAllString(cell, -1) {
			word, _, _ := strings.Cut(strings.Trim(code, "`"), " ")
			name, long := strings.CutPrefix(word, "--")
			switch {
			case long && fs.Lookup(name) == nil,
				!long && strings.HasPrefix(word, "-") && fs.ShorthandLookup(word[1:]) == nil:
				t.Errorf("README.md explains %s, which is no flag", word)
			}
			named++
		}
	}
	if named < 20 {
		t.Errorf("README.md explains only %d flags", named)
	}
}
