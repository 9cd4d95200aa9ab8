package config

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

var rewrite = flag.Bool("rewrite", false, "write the example of a configuration file anew")

// exampleFile has every key, commented out.
const exampleFile = "../polystalkd.toml"

const exampleHead = `# polystalkd --config /etc/polystalkd/polystalkd.toml
#
# Every key is a flag of polystalkd, without the dashes. A key in a comment shows its
# default, or an example if there is none. The files *.toml in the directory
# polystalkd.toml.d are read after this one, sorted by name. A later file has precedence over
# an earlier one, environment variables over files, and flags over both.
# polystalkd --check-config=print --config FILE shows the settings in effect.
#
# SIGHUP reads all files again. Some keys apply at once, the others after a restart.
`

// exampleText is what the example file is to hold.
func exampleText(t *testing.T) string {
	t.Helper()
	options, err := Options()
	must(t, err)
	var b strings.Builder
	b.WriteString(exampleHead)
	for _, o := range options {
		if o.Line == "" {
			continue
		}
		when := "after a restart"
		if o.Live {
			when = "at once"
		}
		fmt.Fprintf(&b, "\n%s#%s\n", wrapped(o.Text+". Applies "+when+"."), o.Line)
	}
	return b.String()
}

// wrapped is a text as comment, in lines of at most 90 bytes.
func wrapped(text string) string {
	var b strings.Builder
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > 90 {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// TestExampleHasEveryKey: the example file is what the flags make of it.
func TestExampleHasEveryKey(t *testing.T) {
	want := exampleText(t)
	if *rewrite {
		must(t, os.WriteFile(exampleFile, []byte(want), 0o644))
	}
	got, err := os.ReadFile(exampleFile)
	must(t, err)
	if string(got) != want {
		t.Errorf("%s is not in step with the flags: go test ./cmd/polystalkd/config -run TestExampleHasEveryKey -rewrite", exampleFile)
	}
}

// TestExampleCanBeUsed as it is, where it changes nothing, and with every key in it, except for the
// one of two keys that exclude each other.
func TestExampleCanBeUsed(t *testing.T) {
	text, err := os.ReadFile(exampleFile)
	must(t, err)
	build := func(args ...string) *Config { return valid(t)(parse(args, nil)) }
	if _, did := Changes(build().Settings(), build("--config", confFile(t, string(text)))); len(did.Applied)+len(did.Restart) > 0 {
		t.Errorf("as it is it changes %v", did)
	}
	all := regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAllString(string(text), "$1")
	all = strings.Replace(all, "\nhttp-anonymous", "\n#http-anonymous", 1) // it excludes access-file
	for _, without := range []string{"cluster-join", "cluster-bootstrap"} {
		text := strings.Replace(all, "\n"+without, "\n#"+without, 1)
		for _, s := range build("--config", confFile(t, text)).Settings() {
			if !strings.HasPrefix(s.Origin, "file ") && s.Name != without && s.Name != "http-anonymous" {
				t.Errorf("%s comes from %s", s.Name, s.Origin)
			}
		}
	}
}

// guide is the folder of the guide.
const guide = "../../manual/guide/"

// inCode finds the code of a page, which has the flags.
var inCode = regexp.MustCompile("`[^`\n]+`")

// wordsInCode returns the words of a page's code, without the part after a "=".
func wordsInCode(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(guide + file)
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

// TestGuideNamesEveryFlag: configuration.md or, in place of gearmand, gearman.md explains every flag
// of --help.
func TestGuideNamesEveryFlag(t *testing.T) {
	ours := newFlagSet(newConfig())
	for file, fs := range map[string]*pflag.FlagSet{"configuration.md": ours, "gearman.md": newGearmandFlags(newConfig()).all} {
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

// TestGuideNamesNoOtherFlag: the flags in the tables of configuration.md exist.
func TestGuideNamesNoOtherFlag(t *testing.T) {
	text, err := os.ReadFile(guide + "configuration.md")
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
				t.Errorf("configuration.md explains %s, which is no flag", word)
			}
			named++
		}
	}
	if named < 20 {
		t.Errorf("configuration.md explains only %d flags", named)
	}
}
