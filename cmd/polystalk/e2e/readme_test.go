package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	version "polystalk/cmd/internal/program"
	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalkd/e2e/daemon"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../manual/guide/cli.md")
	must(t, err)
	return string(text)
}

// TestReadmeNamesEveryCommand and every flag.
func TestReadmeNamesEveryCommand(t *testing.T) {
	text := readme(t)
	var walk func(c *cobra.Command, path string)
	walk = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			if sub.Name() == "help" {
				continue
			}
			if sub.HasSubCommands() {
				walk(sub, path+sub.Name()+" ")
				continue
			}
			want := "`" + path + sub.Use + "`"
			if !strings.Contains(text, want) {
				t.Errorf("cli.md does not have %s", want)
			}
			sub.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
				if !strings.Contains(text, "--"+f.Name) {
					t.Errorf("cli.md does not name --%s of %s", f.Name, sub.Name())
				}
			})
		}
	}
	root := new(cli.App).Tree()
	walk(root, "polystalk ")
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(text, "--"+f.Name) && !strings.Contains(text, "`-"+f.Shorthand) {
			t.Errorf("cli.md does not name --%s", f.Name)
		}
	})
}

// TestReadmeExamples runs the blocks of sh about servers in their order, with the built program.
func TestReadmeExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	p, s := polystalkd(t, "--http-history-tubes", "100")
	p.must(0, "put", "mail", "--body", "first")
	for p.polystalk("tubes", "mail").code != 0 { // a list of tubes may be old
		time.Sleep(50 * time.Millisecond)
	}
	text, _, _ := strings.Cut(readme(t), "## Journals")
	other, err := os.ReadFile("../../manual/guide/troubleshooting.md")
	must(t, err)
	if ran := examples(t, p, s, t.TempDir(), text+"\n"+string(other)); ran < 20 {
		t.Errorf("%d examples were found", ran)
	}
}

// TestExamplesOfPolicies runs the blocks of sh of the page about policies, beside its file. They leave
// the policies of the file, and kicked jobs in one tube and dead letters in the other.
func TestExamplesOfPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	text, err := os.ReadFile("../../manual/guide/policies.md")
	must(t, err)
	dir := t.TempDir()
	_, file, _ := strings.Cut(string(text), "```toml\n")
	file, _, _ = strings.Cut(file, "```")
	must(t, os.WriteFile(filepath.Join(dir, "policies.toml"), []byte(file), 0o600))
	p, s := polystalkd(t)
	p.in = strings.Repeat("letter\n", 30)
	p.must(0, "put", "mail", "--lines")
	p.must(0, "bury", "--tube", "mail")
	if ran := examples(t, p, s, dir, string(text)); ran < 15 {
		t.Errorf("%d examples were found", ran)
	}
	p.prints("mail.*\nthumbnails\n", "policy", "-o", "name")
	p.prints("[10,0]\n", "tube", "mail", "--jq", "[.jobs.ready, .jobs.buried]")
	p.prints("20\n", "tube", "mail-dead", "--jq", ".jobs.buried")
}

// examples runs the blocks of sh of a text in their order, in a directory, and returns the number of
// commands.
func examples(t *testing.T, p *program, s *daemon.Server, dir, text string) (ran int) {
	bin := filepath.Dir(daemon.CLI(t))
	for i, block := range strings.Split(text, "```") {
		lines, isShell := strings.CutPrefix(block, "sh\n")
		if i%2 == 0 || !isShell {
			continue
		}
		for line := range strings.Lines(lines) {
			cmd := exec.Command("bash", "-o", "pipefail", "-c", line)
			cmd.Dir = dir
			server := p.server
			if strings.HasPrefix(line, "polystalk work ") || strings.HasPrefix(line, "polystalk reserve ") {
				server = "beanstalk://" + s.Listen[0]
			}
			cmd.Env = daemon.CleanEnv("POLYSTALK_SERVER="+server, "PATH="+bin+":"+os.Getenv("PATH"))
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				t.Errorf("%s%v\n%s", line, err, &out)
			}
			ran++
		}
	}
	return ran
}

// TestExamplesOfTheHelpAreValid command lines.
func TestExamplesOfTheHelpAreValid(t *testing.T) {
	n := 0
	for _, c := range new(cli.App).Tree().Commands() {
		for line := range strings.Lines(c.Example) {
			_, line, _ = strings.Cut(line, "polystalk ")
			line = regexp.MustCompile(` > \w+$`).ReplaceAllString(strings.TrimSpace(line), "")
			for part := range strings.SplitSeq(line, " | polystalk ") {
				part, _, _ = strings.Cut(part, " | gzip")
				out, err := exec.Command("bash", "-c", `printf '%s\n' `+part).Output()
				if err != nil {
					t.Fatalf("%s: %v", part, err)
				}
				args := strings.Split(strings.TrimSpace(string(out)), "\n")
				c, rest, err := new(cli.App).Tree().Find(args)
				if err != nil || c.ParseFlags(rest) != nil || c.Args(c, c.Flags().Args()) != nil || !strings.HasPrefix(c.CommandPath(), "polystalk "+args[0]) {
					t.Errorf("%s: %v", part, err)
				}
				n++
			}
		}
	}
	if n < 30 {
		t.Errorf("%d examples", n)
	}
}

// TestHelpHasTheExitCodes of the guide.
func TestHelpHasTheExitCodes(t *testing.T) {
	p := &program{t: t}
	_, table, _ := strings.Cut(readme(t), "\n## Exit codes\n")
	codes := regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(table, -1)
	for _, args := range []string{"--help", "help", "-h", "stats --help", "help put"} {
		help := p.must(0, strings.Fields(args)...).stdout
		for _, row := range codes {
			if _, after, _ := strings.Cut(help, "Exit codes:"); !strings.Contains(after, "\n  "+row[1]+" ") {
				t.Errorf("%s lacks exit code %s", args, row[1])
			}
		}
	}
	for _, args := range []string{"journal --help", "help journal verify", "journal verify --help", "journal export -h"} {
		if o := p.must(0, strings.Fields(args)...); strings.Count(o.stdout, "Exit codes:") != 1 || !strings.Contains(o.stdout, "holds\n       no journal") {
			t.Errorf("%s: %s", args, o.stdout)
		}
	}
}

// TestHelpFitsTheTerminal: lines break between words, and nothing is lost.
func TestHelpFitsTheTerminal(t *testing.T) {
	p := &program{t: t}
	for _, args := range []string{"--help", "put --help", "help work", "journal --help", "cluster status --help"} {
		p.screens = cli.Screens{}
		whole := p.must(0, strings.Fields(args)...).stdout
		p.screens = cli.Screens{Out: true, Width: 80}
		help := p.must(0, strings.Fields(args)...).stdout
		for line := range strings.Lines(help) {
			if len(line) > 81 {
				t.Errorf("%s: a line is too long: %s", args, line)
			}
		}
		if !slices.Equal(strings.Fields(help), strings.Fields(whole)) {
			t.Errorf("%s: the words differ:\n%s", args, help)
		}
	}
}

// TestHelpIsAboutTheCommand: the flags of all commands are in the help of the program only, and
// values have names that are no types of Go.
func TestHelpIsAboutTheCommand(t *testing.T) {
	p := &program{t: t}
	types := regexp.MustCompile(`--[a-z-]+ (bool|string|strings|stringSlice|u?int\d*|float64|duration)\b`)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		help := p.must(0, append(strings.Fields(c.CommandPath())[1:], "--help")...).stdout
		if found := types.FindString(help); found != "" {
			t.Errorf("%s: %s", c.CommandPath(), found)
		}
		if strings.Contains(help, "--token-file FILE") != !c.HasParent() || c.Name() == "status" && !strings.Contains(help, "--dir DIR") {
			t.Errorf("%s: its flags are wrong:\n%s", c.CommandPath(), help)
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	root := new(cli.App).Tree()
	walk(root)
	for alias, name := range map[string]string{"ls": "tubes", "list-tubes": "tubes", "connections": "conns", "operations": "ops"} {
		if c, _, err := root.Find([]string{alias}); err != nil || c.Name() != name {
			t.Errorf("%s is %v, %v", alias, c.Name(), err)
		}
	}
}

func TestVersion(t *testing.T) {
	p := &program{t: t}
	for _, arg := range []string{"-v", "--version", "version"} {
		if got := p.must(0, arg).stdout; !strings.HasPrefix(got, "polystalk "+version.Version+" go") || strings.Count(got, "\n") != 1 {
			t.Errorf("polystalk %s: %q", arg, got)
		}
	}
}
