package wire

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the tables of clients.md anew, with the installed versions; read the difference then")

var (
	versionNumber = regexp.MustCompile(`\d+(\.\d+)+`)
	versionCell   = regexp.MustCompile(`(?m)\| \d+(\.\d+)+ \|`)
)

const (
	clientsPage = "../../../manual/guide/clients.md"
	tableBegin  = "<!-- The test of recipes writes this table. -->\n"
	tableEnd    = "\n\n"
)

// installCell says how a client was installed.
func (s source) installCell() string {
	switch s.kind {
	case "deb":
		return "Debian `" + s.name + "`"
	case "npm":
		return "npm `" + s.name + "`"
	case "go":
		return "Go module `" + s.name + "`"
	}
	return "`" + strings.Fields(s.name)[0] + "`, no library"
}

// clientTable and toolTable are the tables of the page. A version is "0.0" unless version tells.
func clientTable(version func(source) string) string {
	var b strings.Builder
	b.WriteString("| Client | Language | Protocol | Version | Also covered | Installed | Recipe |\n|---|---|---|---|---|---|---|")
	for _, r := range recipes {
		protocol := "beanstalkd"
		if strings.HasPrefix(r.folder, "gearman-") {
			protocol = "Gearman"
		}
		fmt.Fprintf(&b, "\n| %s | %s | %s | %s | %s | %s | [%s](recipes/%[7]s) |", r.name, r.language, protocol, version(r.from), r.covers, r.from.installCell(), r.folder)
	}
	return b.String()
}

func toolTable(version func(source) string) string {
	var b strings.Builder
	b.WriteString("| Tool | Version | What is tested | Installed | File |\n|---|---|---|---|---|")
	for _, tool := range tools {
		file := "none"
		if tool.link != "" {
			file = fmt.Sprintf("[%s](%s)", filepath.Base(tool.link), tool.link)
		}
		fmt.Fprintf(&b, "\n| %s | %s | %s | %s | %s |", tool.name, version(tool.from), tool.covers, tool.from.installCell(), file)
	}
	return b.String()
}

// TestClientsPageListsTheRecipes: the tables of the guide list what the tests run. Only versions
// may differ. -rewrite needs every client and tool.
func TestClientsPageListsTheRecipes(t *testing.T) {
	b, err := os.ReadFile(clientsPage)
	noErr(t, err)
	text := string(b)
	version := func(source) string { return "0.0" }
	if *rewrite {
		version = func(s source) string {
			v, err := s.version()
			noErr(t, err)
			return v
		}
	}
	parts := strings.Split(text, tableBegin)
	if len(parts) != 3 {
		t.Fatalf("the page has %d tables of the test, want 2", len(parts)-1)
	}
	for i, table := range []string{clientTable(version), toolTable(version)} {
		got, rest, _ := strings.Cut(parts[i+1], tableEnd)
		if !*rewrite && versionCell.ReplaceAllString(got, "| 0.0 |") != table {
			t.Errorf("the page's table differs from what the tests run; write it with -rewrite. Want:\n%s\ngot:\n%s", table, got)
		}
		parts[i+1] = table + tableEnd + rest
	}
	if *rewrite {
		noErr(t, os.WriteFile(clientsPage, []byte(strings.Join(parts, tableBegin)), 0o644))
	}
}

// fenced matches a block of code with its language.
var fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// TestClientsPageShowsTheRecipes: each block of code is a part of a recipe, or the commands that run one.
func TestClientsPageShowsTheRecipes(t *testing.T) {
	text, err := os.ReadFile(clientsPage)
	noErr(t, err)
	var files, commands []string
	noErr(t, filepath.WalkDir(recipesDir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		files = append(files, unindented(string(b)))
		return err
	}))
	for _, r := range recipes {
		commands = append(commands, r.build, r.put, r.work, "cd cmd/manual/guide/recipes/"+r.folder)
	}
	blocks := fenced.FindAllStringSubmatch(string(text), -1)
	for _, m := range blocks {
		if m[1] == "sh" {
			for line := range strings.Lines(m[2]) {
				if line = strings.TrimSuffix(strings.TrimSpace(line), " &"); !slices.Contains(commands, line) {
					t.Errorf("%q runs no recipe", line)
				}
			}
		} else if !slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, unindented(m[2])) }) {
			t.Errorf("no recipe has this:\n%s", m[2])
		}
	}
	if len(blocks) < 8 {
		t.Errorf("the page has only %d blocks of code", len(blocks))
	}
}

// unindented returns the text without the spaces that begin its lines.
func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, " \t"))
	}
	return b.String()
}
